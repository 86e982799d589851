"""Bytes of calls that ended: bounded for each principal and for all, counted by every process, and let go with the calls."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.redis_server import RedisServer
from tests.state.test_invocations import invocation
from toolgen.core.clock import SystemClock
from toolgen.state.call_journal import CallJournal
from toolgen.state.encryption import Seal
from toolgen.state.invocation_format import as_json
from toolgen.state.invocations import Invocation, Invocations, ResultsFullError, RetainedBytes, Room
from toolgen.state.invocations_redis import RedisInvocations
from toolgen.state.invocations_sqlite import SqliteInvocations
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.remembered_calls import RememberedCalls
from toolgen.state.store_watch import StoreWatch

Places = Callable[[], Invocations]
RESULT = "x" * 2_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """Makes one more process's view of the same store."""
    if request.param == "sqlite":
        return lambda: RememberedCalls(SqliteInvocations(tmp_path / "calls.db", SystemClock()))
    server: RedisServer = request.getfixturevalue("server")
    location = RedisLocation(host="127.0.0.1", port=server.port, prefix=secrets.token_hex(6))

    def made() -> Invocations:
        journal = CallJournal(tmp_path / "begun.db")
        return RememberedCalls(
            RedisInvocations(
                RedisLink(location, lambda: ""), lambda: Seal(b"k" * 32), journal, StoreWatch(clock=SystemClock())
            )
        )

    return made


def running(number: int, principal: str = "bot") -> Invocation:
    return invocation(number, principal=principal, kind="call", status="running")


def over(known: Invocation, at: float, result: str = RESULT) -> Invocation:
    return msgspec.structs.replace(known, status="ended", ended=at, envelope={"data": result})


async def test_of_many_that_end_at_once_no_more_are_kept_than_there_is_room(place: Places) -> None:
    workers = [place() for _ in range(3)]
    began = [running(number, f"bot{number % 4}") for number in range(40)]
    for one in began:
        assert await workers[0].add(one, each=100, total=100)
    size = len(as_json(over(began[10], 10.0))) + 100
    room = Room(each=3 * size, total=8 * size)

    async def end(worker: Invocations, known: Invocation) -> Invocation | None:
        found = await worker.get(known.id)
        assert found is not None
        try:
            return await worker.replace(found, over(found, found.asked), room=room)
        except ResultsFullError:
            return await worker.replace(found, over(found, found.asked, "not kept"))

    ended = await asyncio.gather(*(end(workers[index % 3], one) for index, one in enumerate(began)))
    whole = [one for one in ended if one is not None and one.envelope == {"data": RESULT}]
    assert len([one for one in ended if one is not None]) == 40  # that each ended is kept in any case
    assert 0 < len(whole) <= 8
    assert all(sum(one.principal.id == f"bot{number}" for one in whole) <= 3 for number in range(4))
    held = await workers[1].held("bot0")
    assert held.own_since == held.all_since == 0.0
    assert held.own <= held.all
    assert RetainedBytes().full(room) is None
    for worker in workers:
        await worker.close()


async def test_what_is_forgotten_makes_room_again(place: Places) -> None:
    store, other = place(), place()
    first, second = running(1), running(2)
    for one in (first, second):
        assert await store.add(one, each=9, total=9)
    room = Room(each=len(as_json(over(first, 5.0))) + 200, total=10**6)
    assert await store.replace(first, over(first, 5.0), room=room)
    held = await other.held("bot")
    assert (held.own, held.own_since, held.all_since) == (held.all, 5.0, 5.0)
    assert held.own >= len(RESULT)
    assert await other.held("nobody") == msgspec.structs.replace(held, own=0, own_since=0.0)
    with pytest.raises(ResultsFullError):
        await other.replace(second, over(second, 6.0), room=room)
    known = await other.get(second.id)
    assert known is not None
    assert known.status == "running"  # nothing happened
    await store.forget(5.5)
    assert await other.held("bot") == RetainedBytes()
    assert await other.replace(second, over(second, 6.0), room=room)
    assert (await store.held("bot")).full(Room(each=1, total=1)) == 6.0
    assert (await store.held("nobody")).full(Room(each=1, total=1)) == 6.0
    await store.close()
    await other.close()


async def test_results_that_an_earlier_release_kept_count(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    body = as_json(over(running(1), 5.0))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE invocations (id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT NOT NULL, principal TEXT NOT NULL,"
            " asked REAL NOT NULL, ended REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID"
        )
        connection.execute(
            "INSERT INTO invocations VALUES (?, 2, 'ended', 'bot', 1.0, 5.0, ?)", (invocation(1).id, body)
        )
    for _ in range(2):  # the second time it is counted already
        store = SqliteInvocations(path, SystemClock())
        assert await store.held("bot") == RetainedBytes(own=len(body), all=len(body), own_since=5.0, all_since=5.0)
        await store.close()
    store = SqliteInvocations(path, SystemClock())
    await store.forget(6.0)
    assert await store.held("bot") == RetainedBytes()
    await store.close()
