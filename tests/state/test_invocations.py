"""Calls that wait, in their file: seen by every process, moved on by one, bounded, private, and gone when they are forgotten."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolgen.core.clock import SystemClock
from toolgen.core.errors import StateUnavailableError
from toolgen.state.invocation_format import StoredInvocation, from_stored
from toolgen.state.invocations import Invocation, PrincipalRef
from toolgen.state.invocations_sqlite import SqliteInvocations

Places = Callable[[], SqliteInvocations]


def invocation(number: int = 1, *, principal: str = "bot", **changes: Any) -> Invocation:
    made = StoredInvocation(
        id=f"call_{number:024x}",
        principal=PrincipalRef(id=principal, roles=("support",), attributes={"tenant": "acme"}, on_behalf_of=None),
        tool="pets__delete_pet",
        effect="destructive",
        arguments={"petId": number},
        digest="sha256:1",
        tool_digest="sha256:2",
        policy_digest="sha256:3",
        asked=float(number),
        expires=1000.0,
    )
    return from_stored(msgspec.structs.replace(made, **changes))


@asynccontextmanager
async def using(path: Path) -> AsyncIterator[Places]:
    """Connections to one file, each as another worker has it; closed at the end."""

    opened: list[SqliteInvocations] = []

    def place() -> SqliteInvocations:
        opened.append(SqliteInvocations(path, SystemClock()))
        return opened[-1]

    try:
        yield place
    finally:
        for item in opened:
            await item.close()


async def kept(store: SqliteInvocations, item: Invocation) -> bool:
    return await store.add(item, each=100, total=100) is not None


async def test_nothing_is_written_before_a_call_has_to_wait(tmp_path: Path) -> None:
    async with using(tmp_path / "state" / "calls.db") as place:
        store = place()
        assert await store.get("call_1") is None
        assert await store.unfinished() == ()
        assert await store.changed() is False
        await store.forget(1e12)
        assert await store.replace(invocation(), invocation()) is None
    assert list(tmp_path.iterdir()) == []


async def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state" / "calls.db"

    async with using(path) as place:
        await kept(place(), invocation())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        path.chmod(0o644)
        await place().unfinished()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_each_worker_hears_of_what_another_changed(tmp_path: Path) -> None:
    async with using(tmp_path / "calls.db") as place:
        first, second = place(), place()
        await kept(first, invocation())
        assert [await first.changed(), await first.changed()] == [True, False]
        assert [await second.changed(), await second.changed()] == [True, False]
        known = await second.get(invocation().id)
        assert known is not None
        assert await second.changed() is False
        await second.replace(known, msgspec.structs.replace(known, status="approved"))
        assert [await first.changed(), await second.changed()] == [True, True]
        assert [await first.changed(), await second.changed()] == [False, False]


async def test_what_is_forgotten_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"

    def written() -> bytes:
        assert {stat.S_IMODE(item.stat().st_mode) for item in tmp_path.iterdir()} == {0o600}
        return b"".join(item.read_bytes() for item in tmp_path.iterdir())

    async with using(path) as place:
        store = place()
        secret = invocation(arguments={"note": "canary-4711"})
        await kept(store, secret)
        await kept(store, invocation(2))
        assert b"canary-4711" in written()
        await store.replace(secret, msgspec.structs.replace(secret, status="ended", ended=50.0))
        await store.forget(50.0)
        assert await store.get(secret.id) is not None
        await store.forget(50.1)
        assert await store.get(secret.id) is None
        assert [item.id for item in await store.unfinished()] == [invocation(2).id]
        assert b"canary-4711" not in written()
    assert b"canary-4711" not in written()


async def test_a_file_that_was_taken_away_is_not_written_on_unseen(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"

    async with using(path) as place:
        store = place()
        await kept(store, invocation())
        path.unlink()
        assert await store.get(invocation().id) is None
        assert await kept(store, invocation(2))
        assert await place().get(invocation(2).id) == invocation(2)


async def test_a_file_that_is_none_of_ours_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    path.write_bytes(b"not a database, and long enough to be read as one" * 100)

    async with using(path) as place:
        with pytest.raises(StateUnavailableError) as caught:
            await place().unfinished()
        assert caught.value.where == str(path)
