"""Calls that wait and pauses in a real Redis: the same as in files, sealed, and never taken back by a Redis that forgot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from tests.redis_server import RedisServer
from tests.state.test_invocations import invocation
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.core.errors import StateError
from toolgen.state.call_journal import CallJournal
from toolgen.state.encryption import Seal, seal_of
from toolgen.state.invocations import Invocation
from toolgen.state.invocations_redis import RedisInvocations
from toolgen.state.pauses import Pause, Pauses, SharedPauses
from toolgen.state.redis_connection import RedisClock, RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.store_watch import StoreWatch

KEY = b"k" * 32


class World:
    """One Redis, and as many processes on it as a test wants."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self.server, self._folder = server, folder
        self.redis = Redis(host="127.0.0.1", port=server.port)
        self._open: list[RedisInvocations | SharedPauses] = []

    def link(self) -> RedisLink:
        return RedisLink(RedisLocation(host="127.0.0.1", port=self.server.port), lambda: "")

    def store(self, key: bytes = KEY, machine: str = "one") -> RedisInvocations:
        begun = CallJournal(self._folder / machine / "begun.db")
        store = RedisInvocations(self.link(), lambda: Seal(key), begun, StoreWatch(clock=SystemClock()))
        self._open.append(store)
        return store

    def pauses(self, key: bytes = KEY) -> SharedPauses:
        pauses = SharedPauses(self.link(), lambda: Seal(key), SystemClock(), Pauses(self._folder / "pauses.json"))
        self._open.append(pauses)
        return pauses

    async def close(self) -> None:
        for item in self._open:
            await item.close()
        await self.redis.aclose()


@asynccontextmanager
async def using(server: RedisServer, folder: Path) -> AsyncIterator[World]:
    world = World(server, folder)
    try:
        async with asyncio.timeout(120):
            yield world
    finally:
        await world.close()


async def kept(store: RedisInvocations, **changes: Any) -> None:
    assert await store.add(invocation(**changes), each=100, total=100)


ID = invocation().id


async def test_a_call_comes_back_exactly_and_redis_holds_nothing_that_can_be_read(
    server: RedisServer, tmp_path: Path
) -> None:
    async with using(server, tmp_path) as world:
        arguments = {"card": "4111-canary", "big": 2**53 + 1, "part": 0.1, "none": None, "deep": [{"a": ["ä", ""]}]}
        await kept(world.store(), arguments=arguments, sql="SELECT canary", principal="canary-bot")
        found = await world.store().get(ID)
        assert found is not None
        assert found.arguments == arguments
        assert await world.store().unfinished() == (found,)
        for name in await world.redis.keys():
            assert b"canary" not in name + (await world.redis.dump(name) or b"")
        assert await world.store().get("call_of_nobody") is None


@pytest.mark.parametrize(
    "forge",
    [
        {"box": b"x" * 80},
        {"version": b"7"},
        {"box": b""},
    ],
)
async def test_what_somebody_changed_in_redis_is_nobodys_call(
    server: RedisServer, tmp_path: Path, forge: dict[str, bytes]
) -> None:
    async with using(server, tmp_path) as world:
        store = world.store()
        await kept(store)
        await kept(store, number=2)
        await world.redis.hset(f"toolgen:calls:call:{ID}", mapping=forge)  # type: ignore[misc]
        with pytest.raises(StateError):
            await store.get(ID)
        assert [item.id for item in await store.unfinished()] == [invocation(2).id]


async def test_the_box_of_one_call_does_not_open_as_another(server: RedisServer, tmp_path: Path) -> None:
    async with using(server, tmp_path) as world:
        store = world.store()
        await kept(store)
        await kept(store, number=2)
        box = await world.redis.hget(f"toolgen:calls:call:{ID}", "box")  # type: ignore[misc]
        await world.redis.hset(f"toolgen:calls:call:{invocation(2).id}", "box", box)  # type: ignore[misc]
        with pytest.raises(StateError, match="was changed"):
            await store.get(invocation(2).id)


async def test_a_redis_that_was_set_back_does_not_make_a_worker_carry_a_call_out_twice(
    server: RedisServer, tmp_path: Path
) -> None:
    async with using(server, tmp_path) as world:
        store = world.store()
        await kept(store)
        name = f"toolgen:calls:call:{ID}"
        before = await world.redis.dump(name)
        known = await store.get(ID)
        assert known is not None
        assert await store.replace(known, msgspec.structs.replace(known, status="running")) is not None
        assert before is not None
        await world.redis.restore(name, 0, before, replace=True)
        with pytest.raises(StateError, match="lost the progress"):
            await store.get(ID)
        assert await store.unfinished() == ()


async def moved(store: RedisInvocations, *steps: str) -> Invocation | None:
    """The call, moved on step by step; None where a step was not to be."""
    known = await store.get(ID)
    for status in steps:
        if known is None:
            return None
        known = await store.replace(known, msgspec.structs.replace(known, status=status))
    return known


async def put_back(world: World, box: bytes | None) -> None:
    """What somebody who can write in Redis does: an earlier state of a call takes the place of the present one."""
    assert box is not None
    await world.redis.restore(f"toolgen:calls:call:{ID}", 0, box, replace=True)
    await world.redis.zadd("toolgen:calls:open", {ID: 1})


@pytest.mark.parametrize("machine", ["one", "two"])
async def test_an_approved_call_that_was_put_back_is_begun_by_nobody_whoever_was_restarted(
    server: RedisServer, tmp_path: Path, machine: str
) -> None:
    async with using(server, tmp_path) as world:
        await kept(world.store())
        await moved(world.store(), "approved")
        approved = await world.redis.dump(f"toolgen:calls:call:{ID}")
        assert await moved(world.store(machine="two"), "running") is None  # the call is the first machine's
        assert await moved(world.store(), "running", "ended") is not None
        await put_back(world, approved)
        assert await moved(world.store(machine=machine), "running") is None


@pytest.mark.parametrize("ending", [("approved", "running", "ended"), ("ended",)])
async def test_a_call_that_waits_and_was_put_back_is_not_answered_again(
    server: RedisServer, tmp_path: Path, ending: tuple[str, ...]
) -> None:
    async with using(server, tmp_path) as world:
        await kept(world.store())
        pending = await world.redis.dump(f"toolgen:calls:call:{ID}")
        assert await moved(world.store(), *ending) is not None
        await put_back(world, pending)
        with pytest.raises(StateError, match="lost the progress"):
            await world.store().get(ID)
        # Another machine knows nothing of it and may take an answer; but the one whose call it is makes it no more.
        answered = await moved(world.store(machine="two"), "pending", "pending", "approved", "approved")
        assert answered is not None
        assert await moved(world.store(), "running") is None


async def test_a_call_that_could_not_begin_is_tried_again_and_its_earlier_try_is_not(
    server: RedisServer, tmp_path: Path
) -> None:
    async with using(server, tmp_path) as world:
        await kept(world.store())
        await moved(world.store(), "approved")
        first = await world.redis.dump(f"toolgen:calls:call:{ID}")
        assert await moved(world.store(), "running", "approved") is not None
        assert await moved(world.store(), "running") is not None
        await put_back(world, first)
        assert await moved(world.store(), "running") is None


async def test_a_machine_that_lost_its_memory_carries_out_nothing_that_it_took_on_before(
    server: RedisServer, tmp_path: Path
) -> None:
    async with using(server, tmp_path) as world:
        store = world.store()
        await kept(store)
        await moved(store, "approved")
        (tmp_path / "one" / "begun.db").unlink()
        assert await moved(store, "running") is None
        assert await moved(world.store(), "running") is None


async def test_the_time_of_redis_is_ahead_by_what_its_answer_took_at_most(server: RedisServer, tmp_path: Path) -> None:
    async def real(world: World) -> float:
        seconds, micros = await world.redis.time()
        return seconds + micros / 1e6

    async with using(server, tmp_path) as world:
        store, loop = world.store(), asyncio.get_running_loop()
        await world.redis.execute_command("CLIENT", "PAUSE", "200")
        started = loop.time()
        await store.now()
        took = loop.time() - started
        assert await real(world) <= await store.now() <= await real(world) + took


async def test_machines_go_by_the_time_of_redis(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with using(server, tmp_path) as world:
        seconds, _ = await world.redis.time()
        monkeypatch.setattr(time, "time", lambda: 1.0)
        assert 0 <= await world.store().now() - seconds < 60


async def test_a_clock_that_is_wrong_is_set_by_redis_and_goes_on_while_that_is_away(
    server: RedisServer, tmp_path: Path
) -> None:
    async with using(server, tmp_path) as world:
        own = FixedClock(1.0)
        shared = RedisClock(world.link(), own)
        assert shared.now() == 1.0
        await shared.set()
        seconds, _ = await world.redis.time()
        assert abs(shared.now() - seconds) < 60
        server.stop()
        own.advance(500)
        assert 440 < shared.now() - seconds < 560
        assert shared.monotonic() == own.monotonic()
        await shared.close()


@pytest.mark.parametrize(
    "entry",
    [
        {"version": b"x"},
        {"version": b"\xff", "box": b"\xff"},
        {"version": b"1"},
        {"version": b"9" * 5000, "box": b"x" * 80},
        {"other": b"1"},
    ],
)
@pytest.mark.parametrize("name", [b"call_of_nobody", b"\xff\xfe"])
async def test_an_entry_that_is_none_of_ours_holds_up_no_other(
    server: RedisServer, tmp_path: Path, entry: dict[str, bytes], name: bytes
) -> None:
    async with using(server, tmp_path) as world:
        store = world.store()
        await kept(store)
        await world.redis.hset(b"toolgen:calls:call:" + name, mapping=entry)  # type: ignore[misc]
        await world.redis.zadd("toolgen:calls:open", {name: 0})
        assert [item.id for item in await store.unfinished()] == [ID]
        assert await moved(store, "approved", "running", "ended") is not None


async def test_another_key_reads_nothing_and_adds_nothing(server: RedisServer, tmp_path: Path) -> None:
    async with using(server, tmp_path) as world:
        await kept(world.store())
        stranger = world.store(b"another")
        for ask in (stranger.get(ID), stranger.unfinished(), kept(stranger, number=2)):
            with pytest.raises(StateError, match="sealed with another key"):
                await ask


def pause(name: str) -> Pause:
    return Pause(source=name, since=0.0)


def names(pauses: SharedPauses) -> list[str]:
    return sorted(item.source for item in pauses.all())


async def test_a_pause_of_one_machine_holds_on_another_until_it_is_resumed(server: RedisServer, tmp_path: Path) -> None:
    async with using(server, tmp_path) as world:
        one, two = world.pauses(), world.pauses()
        assert (two.stale, two.known) == (True, False)
        assert await two.refresh()
        assert (two.stale, names(two)) == (False, [])
        assert await one.change(lambda known: (*known, pause("shop"))) == (pause("shop"),)
        assert await two.refresh()
        assert two.covering(("bot",), "shop", "shop__x") == pause("shop")
        assert two.covering(("bot",), "pets", "pets__x") is None
        await two.change(lambda known: ())
        assert await one.refresh()
        assert names(one) == []
        assert b"shop" not in (await world.redis.dump("toolgen:pauses") or b"")


@pytest.mark.parametrize("lost", ["emptied", "set back"])
async def test_a_redis_that_forgot_a_pause_is_told_again(server: RedisServer, tmp_path: Path, lost: str) -> None:
    async with using(server, tmp_path) as world:
        one, two = world.pauses(), world.pauses()
        await one.change(lambda known: (pause("old"),))
        before = await world.redis.dump("toolgen:pauses")
        await one.change(lambda known: (pause("new"),))
        assert await two.refresh()
        if lost == "emptied":
            await world.redis.flushall()
        else:
            assert before is not None
            await world.redis.restore("toolgen:pauses", 0, before, replace=True)
        assert await two.refresh()
        assert names(two) == ["new"]
        assert await world.pauses().read() == (pause("new"),)


async def test_what_cannot_be_read_is_stale_at_once_where_nothing_was_heard(
    server: RedisServer, tmp_path: Path
) -> None:
    async with using(server, tmp_path) as world:
        await world.pauses().change(lambda known: (pause("shop"),))
        stranger = world.pauses(b"another")
        assert not await stranger.refresh()
        assert (stranger.stale, stranger.known) == (True, False)
        server.stop()
        gone = world.pauses()
        assert not await gone.refresh()
        assert gone.stale


async def test_of_many_who_make_the_key_all_have_the_same(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "seal.key"
    seals = await asyncio.gather(*(asyncio.to_thread(seal_of, path) for _ in range(16)))
    assert len({seal.id for seal in seals}) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in path.parent.iterdir()] == ["seal.key"]


@pytest.mark.parametrize("content", ["", "short", "z" * 64, "a" * 63, "\u00e4" * 64])
def test_a_key_that_is_none_is_an_error_with_its_place(tmp_path: Path, content: str) -> None:
    path = tmp_path / "seal.key"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(StateError) as caught:
        seal_of(path)
    assert str(path) in str(caught.value)
    assert path.read_text(encoding="utf-8") == content
