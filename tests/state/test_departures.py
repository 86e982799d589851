"""Notes about clients that left: every process reads each note of the others once, whatever the store loses meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.redis_server import RedisServer
from toolgen.state.departures import KEPT_S, Departure, Departures, RedisDepartures, SqliteDepartures
from toolgen.state.encryption import Seal
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation

Make = Callable[[], Departures]


@pytest.fixture(params=["file", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes one process's way to the notes that all share."""
    if request.param == "file":
        yield lambda: SqliteDepartures(tmp_path / "departures.db")
        return
    server = RedisServer(tmp_path)
    server.start()
    yield lambda: in_redis(server)
    server.stop()


def in_redis(server: RedisServer) -> RedisDepartures:
    """Asks each time: nothing says here which note is the last."""
    link = RedisLink(RedisLocation(host="127.0.0.1", port=server.port), lambda: "")
    return RedisDepartures(link, lambda: Seal(b"test"), lambda: -1)


def note(number: int, at: float = 1000.0) -> Departure:
    return Departure(kind="left", key=f"{number:064x}", call_id=f"call_{number}", at=at)


async def test_many_notes_come_in_parts(make: Make) -> None:
    one, two = make(), make()
    for number in range(1500):
        await one.add(note(number))
    found = [*await two.news(), *await two.news(), *await two.news()]
    assert sorted(one.call_id for one in found) == sorted(f"call_{number}" for number in range(1500))
    for each in (one, two):
        await each.close()


async def test_a_store_that_was_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()

    one = in_redis(server)
    for number in range(3):
        await one.add(note(number))
    assert len(await one.news()) == 3
    server.stop()
    server.start()  # it saves nothing
    assert list(await one.news()) == []
    await one.add(note(9))
    assert list(await one.news()) == [note(9)]
    await one.close()
    server.stop()


async def test_redis_is_asked_only_for_notes_that_are_new(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    last = 0

    link = RedisLink(RedisLocation(host="127.0.0.1", port=server.port), lambda: "")
    one = RedisDepartures(link, lambda: Seal(b"test"), lambda: last)
    await one.add(note(1))
    assert list(await one.news()) == []
    last = 1
    assert list(await one.news()) == [note(1)]
    server.stop()
    assert list(await one.news()) == []
    await one.close()
    server.stop()


async def test_notes_are_kept_for_an_hour(tmp_path: Path) -> None:
    one, two = (SqliteDepartures(tmp_path / "departures.db") for _ in range(2))
    await one.add(note(1))
    await one.add(note(2, at=1000.0 + KEPT_S + 1))
    assert list(await two.news()) == [note(2, at=1000.0 + KEPT_S + 1)]
    for each in (one, two):
        await each.close()
