"""Records of the sign-in in each storage: taken once, changed by one of several, readable under their own key alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.databases import postgres_database
from tests.redis_server import RedisServer
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.key_encryption import FileKeys
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.sign_in import SignInRows, SignInStore, StoredRecord
from toolgen.state.sign_in_postgres import PostgresSignInRows
from toolgen.state.sign_in_redis import RedisSignInRows
from toolgen.state.sign_in_sqlite import SqliteSignInRows

Open = Callable[[], SignInRows]


class Ticket(StoredRecord, frozen=True, kw_only=True):
    """Record of the tests."""

    text: str


class Other(StoredRecord, frozen=True, kw_only=True):
    """Record of another kind."""

    text: str


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Function that opens the same storage once more, as another worker would."""
    if request.param == "sqlite":
        yield lambda: SqliteSignInRows(tmp_path / "sign-in.db", SystemClock())
        return
    if request.param == "postgres":
        with postgres_database("") as location:
            yield lambda: PostgresSignInRows(lambda: location)
        return
    server = RedisServer(tmp_path)
    server.start()
    yield lambda: RedisSignInRows(RedisLink(RedisLocation(host="127.0.0.1", port=server.port), lambda: ""))
    server.stop()


@pytest.fixture
def keys(tmp_path: Path) -> FileKeys:
    return FileKeys(tmp_path / "accounts.key")


async def test_a_record_is_found_by_kind_and_key_at_every_worker(places: Open, keys: FileKeys) -> None:
    one, other = SignInStore(places(), keys), SignInStore(places(), keys)
    assert await one.get(Ticket, "a") is None
    assert await one.put(Ticket(text="canary"), "a", seconds=60, group="ann")
    found = await other.get(Ticket, "a")
    assert found is not None
    assert (found.value.text, found.version) == ("canary", 1)
    assert await other.get(Other, "a") is None
    assert await other.get(Ticket, "b") is None
    assert "canary" not in repr(found)
    assert [kept.text for kept in await other.of(Ticket, "ann")] == ["canary"]
    assert (await other.of(Ticket, "bob"), await other.of(Other, "ann")) == ((), ())
    assert await other.count(Ticket, "ann") == 1
    await one.close()
    await other.close()


async def test_of_two_changes_of_one_version_one_is_kept(places: Open, keys: FileKeys) -> None:
    one, other = SignInStore(places(), keys), SignInStore(places(), keys)
    assert await one.put(Ticket(text="1"), "a", seconds=60)
    assert not await other.put(Ticket(text="2"), "a", seconds=60)
    changes = (store.put(Ticket(text="3"), "a", seconds=60, version=1) for store in (one, other))
    assert sorted(await asyncio.gather(*changes)) == [False, True]
    assert not await one.put(Ticket(text="4"), "absent", seconds=60, version=1)
    await one.close()
    await other.close()


async def test_one_of_many_takes_a_record(places: Open, keys: FileKeys) -> None:
    stores = [SignInStore(places(), keys) for _ in range(4)]
    assert await stores[0].put(Ticket(text="once"), "a", seconds=60, group="ann")
    taken = await asyncio.gather(*(store.take(Ticket, "a") for store in stores))
    assert sum(one is not None for one in taken) == 1
    assert (await stores[0].get(Ticket, "a"), await stores[0].count(Ticket, "ann")) == (None, 0)
    for store in stores:
        await store.close()


async def test_a_change_moves_a_record_to_another_group(places: Open, keys: FileKeys) -> None:
    store = SignInStore(places(), keys)
    assert await store.put(Ticket(text="1"), "a", seconds=60, group="new")
    assert await store.put(Ticket(text="2"), "a", seconds=60, group="used", version=1)
    assert (await store.count(Ticket, "new"), await store.count(Ticket, "used")) == (0, 1)
    assert len(await store.all(Ticket)) == 1
    await store.close()


async def test_of_a_group_those_that_expire_last_stay(places: Open, keys: FileKeys) -> None:
    store = SignInStore(places(), keys)
    for number in range(5):
        assert await store.put(Ticket(text=str(number)), str(number), seconds=60 + number, group="all", most=3)
    assert sorted(one.text for one in await store.of(Ticket, "all")) == ["2", "3", "4"]
    await store.close()


async def test_a_row_put_in_place_of_another_does_not_open(places: Open, keys: FileKeys) -> None:
    rows = places()
    store = SignInStore(rows, keys)
    for key in ("a", "b"):
        assert await store.put(Ticket(text=key), key, seconds=60, group=key)
    own, foreign = list(await rows.of("Ticket", "*"))
    assert await rows.put(replace(own, version=own.version + 1, record=foreign.record), 0)
    with pytest.raises(StateError, match="another name"):
        await store.all(Ticket)
    await store.close()


async def test_rotation_wraps_every_record_again(places: Open, keys: FileKeys) -> None:
    rows = places()
    store = SignInStore(rows, keys)
    assert await store.put(Ticket(text="kept"), "a", seconds=60)
    before = (await rows.of("Ticket", "*"))[0].record
    keys.add()
    assert await store.rotate((Ticket, Other)) == 1
    assert await store.rotate((Ticket, Other)) == 0
    after = (await rows.of("Ticket", "*"))[0].record
    assert (after.key_id != before.key_id, after.box == before.box) == (True, True)
    found = await store.get(Ticket, "a")
    assert found is not None
    assert found.value.text == "kept"
    await store.close()


async def test_an_expired_record_is_none(tmp_path: Path, keys: FileKeys) -> None:
    clock = FixedClock()
    store = SignInStore(SqliteSignInRows(tmp_path / "sign-in.db", clock), keys)
    assert await store.put(Ticket(text="short"), "a", seconds=60, group="ann")
    clock.advance(61)
    assert (await store.get(Ticket, "a"), await store.take(Ticket, "a")) == (None, None)
    assert (await store.count(Ticket, "ann"), await store.all(Ticket)) == (0, ())
    assert await store.put(Ticket(text="again"), "a", seconds=60)
    await store.close()


async def test_a_row_in_postgres_names_nobody_and_expires_by_the_time_of_the_server(keys: FileKeys) -> None:
    with postgres_database("") as location:
        rows = PostgresSignInRows(lambda: location)
        store = SignInStore(rows, keys)
        assert await store.put(Ticket(text="canary"), "canary-code", seconds=0.05, group="canary-person")
        assert "canary" not in repr(await rows._session.rows("SELECT * FROM toolgen_sign_in"))
        await rows._session.rows("SELECT pg_sleep(0.06)")
        assert (await store.get(Ticket, "canary-code"), await store.take(Ticket, "canary-code")) == (None, None)
        assert (await store.count(Ticket, "canary-person"), await store.all(Ticket)) == (0, ())
        assert await store.put(Ticket(text="again"), "canary-code", seconds=60)
        await store.close()


async def test_a_postgres_that_is_away_says_nothing_of_its_address(keys: FileKeys) -> None:
    store = SignInStore(PostgresSignInRows(lambda: "postgresql://ann:canary@127.0.0.1:9/none"), keys)
    with pytest.raises(StateUnavailableError) as failed:
        await store.get(Ticket, "a")
    assert "canary" not in str(failed.value) + repr(failed.value.__cause__)
    await store.close()
