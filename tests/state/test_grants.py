"""Where grants are kept: bounded, replaced once, gone when their time is over, and seen by every process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.redis_server import RedisServer
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.core.errors import StateError
from toolgen.state.call_journal import CallJournal
from toolgen.state.encryption import Seal
from toolgen.state.grants import Grant, Grants, RedisGrants, SqliteGrants
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation

Open = Callable[[], Grants[Grant]]


@pytest.fixture(params=["sqlite", "redis"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """What opens the same place once more, as another process would."""
    if request.param == "sqlite":
        yield lambda: SqliteGrants(tmp_path / "grants.db", SystemClock(), Grant)
        return
    server = RedisServer(tmp_path)
    server.start()

    def made() -> Grants[Grant]:
        link = RedisLink(RedisLocation(host="127.0.0.1", port=server.port), lambda: "")
        return RedisGrants(link, lambda: Seal(b"test"), CallJournal(tmp_path / "begun.db"), "grants", Grant)

    yield made
    server.stop()


@asynccontextmanager
async def two(places: Open) -> AsyncIterator[tuple[Grants[Grant], Grants[Grant]]]:
    one, other = places(), places()
    try:
        yield one, other
    finally:
        await one.close()
        await other.close()


async def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await main()


def grant(name: str, group: str = "bot", lasts: float = 600.0) -> Grant:
    return Grant(id=name, group=group, created=time.time(), expires=time.time() + lasts)


async def test_what_one_keeps_the_other_sees(places: Open) -> None:
    async def main() -> None:
        async with two(places) as (one, other):
            assert await other.all() == ()
            given = grant("a")
            assert await one.add(given, each=2, total=3)
            assert (await other.get("a"), await other.of("bot"), await other.all()) == (given, (given,), (given,))
            assert (await other.of("bare"), await other.get("b")) == ((), None)

    await run(main)


async def test_so_many_of_a_group_and_so_many_in_all(places: Open) -> None:
    async def main() -> None:
        async with two(places) as (one, other):
            found = [
                await one.add(grant(name, group), each=2, total=3)
                for name, group in (("a", "x"), ("b", "x"), ("c", "x"))
            ]
            assert found == [True, True, False]
            assert [await other.add(grant(name, "y"), each=2, total=3) for name in ("d", "e")] == [True, False]
            (first, *_) = await one.of("x")
            await one.replace(
                first, Grant(id=first.id, group="x", created=first.created, expires=first.expires, ended=1.0)
            )
            assert await other.add(grant("e", "y"), each=2, total=3)  # one that was ended makes room

    await run(main)


async def test_of_many_who_replace_one_version_one_does_it(places: Open) -> None:
    async def main() -> None:
        async with two(places) as (one, other):
            known = grant("a")
            await one.add(known, each=2, total=3)
            changed = [
                Grant(id="a", group="bot", created=known.created, expires=known.expires, used=number + 1)
                for number in range(10)
            ]
            done = await asyncio.gather(*((one, other)[each.used % 2].replace(known, each) for each in changed))
            kept = [each for each in done if each is not None]
            assert len(kept) == 1
            assert await other.get("a") == kept[0]
            assert kept[0].version == 2

    await run(main)


async def test_one_that_was_ended_is_in_force_no_more(places: Open) -> None:
    async def main() -> None:
        async with two(places) as (one, other):
            known = grant("a")
            await one.add(known, each=2, total=3)
            over = Grant(id="a", group="bot", created=known.created, expires=known.expires, ended=known.created)
            assert await other.replace(known, over) is not None
            assert (await one.all(), await one.of("bot")) == ((), ())
            found = await one.get("a")
            assert found is None or found.ended > 0
            assert await one.replace(known, known) is None

    await run(main)


async def test_one_whose_time_is_over_is_gone(places: Open) -> None:
    async def main() -> None:
        async with two(places) as (one, other):
            await one.add(grant("a", lasts=-1.0), each=1, total=1)
            assert (await one.all(), await other.of("bot"), await other.get("a")) == ((), (), None)
            assert await other.add(grant("b"), each=1, total=1)

    await run(main)


async def test_a_change_is_told_once(places: Open) -> None:
    async def main() -> None:
        async with two(places) as (one, other):
            await other.changed()
            await one.add(grant("a"), each=1, total=1)
            assert [await other.changed(), await other.changed()] == [True, False]

    await run(main)


async def test_a_file_that_is_no_database_grants_nothing_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "grants.db").write_bytes(os.urandom(4096))

    async def main() -> None:
        kept = SqliteGrants(tmp_path / "grants.db", FixedClock(1.0), Grant)
        with pytest.raises(StateError, match="grants cannot be kept"):
            await kept.of("bot")
        await kept.close()

    await run(main)
