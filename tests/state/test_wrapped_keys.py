"""Key-encryption keys of sign-ins that a key service wraps: asked about one row, however many sign-ins begin."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.connectors.test_key_services import running
from tests.state.test_sign_in import Other, Ticket
from toolgen.connectors.key_services import KeyService, ServiceKeys
from toolgen.core.clock import FixedClock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.key_encryption import FileKeys
from toolgen.state.sign_in import SignInStore
from toolgen.state.sign_in_sqlite import SqliteSignInRows
from toolgen.state.wrapped_keys import WrappedKeys

KINDS = (Ticket, Other)


def worker(root: Path, service: KeyService, clock: FixedClock) -> tuple[SignInStore, WrappedKeys]:
    """The store of one worker."""
    rows, former = SqliteSignInRows(root / "sign-in.db", clock), FileKeys(root / "accounts.key")
    keys = WrappedKeys(rows, ServiceKeys(service, former, clock), former, clock)
    return SignInStore(rows, keys), keys


@pytest.mark.parametrize("kind", ["aws", "vault"])
async def test_sign_ins_that_begin_send_no_request_to_the_service(tmp_path: Path, kind: str) -> None:
    clock = FixedClock()
    with running(kind, clock) as (fake, service, keys):
        (one, _), (other, _) = worker(tmp_path, keys, clock), worker(tmp_path, keys, clock)
        assert await one.put(Ticket(text="canary"), "first", seconds=6000)
        asked = len(service.asked)
        for number in range(50):
            assert await one.put(Ticket(text="canary"), str(number), seconds=6000)
        assert len(service.asked) == asked
        assert (await other.get(Ticket, "49")) is not None
        assert len(service.asked) <= asked + 2
        clock.advance(61)
        assert await one.get(Ticket, "49") is not None
        fake.status = 500
        clock.advance(200)
        assert await one.get(Ticket, "49") is not None  # remembered for five minutes
        clock.advance(301)
        with pytest.raises(StateUnavailableError) as failed:
            await one.get(Ticket, "49")
        assert "canary" not in str(failed.value)
        fake.status = 200
        assert await one.get(Ticket, "49") is not None
        await one.close()
        await other.close()
    assert b"canary" not in (tmp_path / "sign-in.db").read_bytes()


async def test_workers_share_the_keys_and_follow_a_rotation_at_once(tmp_path: Path) -> None:
    clock = FixedClock()
    with running("vault", clock) as (fake, _, service):
        (one, own), (other, others) = worker(tmp_path, service, clock), worker(tmp_path, service, clock)
        created = await asyncio.gather(own.current(), others.current())
        assert created[0] == created[1]
        assert await one.put(Ticket(text="kept"), "a", seconds=6000)
        assert await other.get(Ticket, "a") is not None
        fake.latest = 2
        clock.advance(61)
        await own.add()
        assert await one.rotate(KINDS) == 1
        await own.drop_older()
        assert await one.rotate(KINDS) == 0
        found = await other.get(Ticket, "a")
        assert found is not None
        assert found.value.text == "kept"
        assert await other.put(Ticket(text="by the key before"), "b", seconds=6000)
        assert await one.get(Ticket, "b") is not None
        row = await one._rows.get("WrappedKeys", next(iter(await one._rows.of("WrappedKeys", "*"))).id)
        assert row is not None
        assert row.record.key_id.endswith(":v2")
        await one.close()
        await other.close()


async def test_records_of_the_time_before_the_service_open(tmp_path: Path) -> None:
    clock = FixedClock()
    rows, former = SqliteSignInRows(tmp_path / "sign-in.db", clock), FileKeys(tmp_path / "accounts.key")
    before = SignInStore(rows, former)
    assert await before.put(Ticket(text="old"), "a", seconds=6000)
    await before.close()
    with running("aws", clock) as (_, _, service):
        store, _ = worker(tmp_path, service, clock)
        found = await store.get(Ticket, "a")
        assert found is not None
        assert found.value.text == "old"
        assert await store.rotate(KINDS) == 1
        (tmp_path / "accounts.key").unlink()
        assert await store.get(Ticket, "a") is not None
        await store.close()


async def test_keys_put_in_the_place_of_others_do_not_open(tmp_path: Path) -> None:
    """Attack: who can write in the store puts keys there that they know."""
    clock = FixedClock()
    with running("aws", clock) as (_, _, service):
        store, keys = worker(tmp_path, service, clock)
        assert await store.put(Ticket(text="kept"), "a", seconds=6000)
        (row,) = await store._rows.of("WrappedKeys", "*")
        (ticket,) = await store._rows.of("Ticket", "*")
        assert await store._rows.put(replace(row, version=row.version + 1, record=ticket.record), 0)
        clock.advance(61)
        with pytest.raises(StateError):
            await keys.current()
        with pytest.raises(StateError):
            await store.get(Ticket, "a")
        await store.close()
