"""Turns of conversations: what is in flight together is one, in a process's memory and in a Redis that several share."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.redis_server import RedisServer
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.state import turn_counter as turns_module
from toolgen.state.count_connection import Script
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.turn_counter import FORGOTTEN_S, Excess, MemoryTurns, SharedTurns, TurnCounter

BOT = ("bot",)
Scenario = Callable[[Callable[[], TurnCounter]], Awaitable[None]]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


def of_redis(server: RedisServer, prefix: str) -> SharedTurns:
    where = RedisLocation(host="127.0.0.1", port=server.port, prefix=prefix)
    return SharedTurns(2, RedisLink(where, lambda: ""), SystemClock())


async def one(turns: TurnCounter, conversation: str = "c", who: tuple[str, ...] = BOT) -> Excess | None:
    """A call that ends before the next."""
    async with turns.join(who, conversation) as turn_lease:
        return await turn_lease.excess()


async def test_a_conversation_is_forgotten_an_hour_after_its_last_turn() -> None:
    clock = FixedClock()
    turns = MemoryTurns(1, clock)
    assert await one(turns) is None
    clock.advance(FORGOTTEN_S - 1)
    assert await one(turns) == Excess(reason="spent", retry_after_s=1.0)  # and this was no turn
    clock.advance(1)
    assert await one(turns) is None


async def test_who_floods_pushes_out_its_own_conversations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "_MAX_EACH", 10)
    turns = MemoryTurns(1, FixedClock())
    await one(turns, who=("victim",))
    async with turns.join(BOT, "flying") as turn_lease:
        assert await turn_lease.excess() is None
        for number in range(100):
            assert await one(turns, f"c{number}") is None
    assert await one(turns, who=("victim",)) is not None
    assert await one(turns, "flying") is not None  # what is in flight is never forgotten
    assert await one(turns, "c99") is not None
    assert await one(turns, "c0") is None


async def test_many_callers_stay_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "_MAX_KEPT", 10)
    turns = MemoryTurns(1, FixedClock())
    for number in range(100):
        await one(turns, who=(f"user-{number}",))
    assert sum(len(own) for own in turns._kept.values()) == turns._size == 10
    assert await one(turns, who=("user-99",)) is not None


LAPSE = Script("lapse", "return redis.call('ZADD', KEYS[1], 'XX', 'CH', 1, ARGV[1])")


async def lapse(turns: SharedTurns) -> None:
    """Lets the lease of all it has in flight be over, by the clock of Redis."""
    assert isinstance(turns._link, RedisLink)
    probe = RedisLink(turns._link.location, lambda: "")
    (group,) = turns._groups.values()
    flights = f"{turns._link.prefix}:turns:{group.name}:flights"
    assert await probe.ask(LAPSE, flights, group.lease) == 1
    await probe.close()


async def test_what_a_process_that_died_had_in_flight_ends_with_its_lease(redis: RedisServer) -> None:
    prefix = secrets.token_hex(4)
    dead, living = of_redis(redis, prefix), of_redis(redis, prefix)
    turn_lease = dead.join(BOT, "c")
    assert await turn_lease.excess() is None
    await lapse(dead)
    assert [await one(living) is None, await one(living) is None] == [True, False]
    await living.close()
    await dead.close()


async def test_what_is_in_flight_for_long_keeps_its_lease(redis: RedisServer) -> None:
    prefix = secrets.token_hex(4)
    slow, other = of_redis(redis, prefix), of_redis(redis, prefix)
    async with slow.join(BOT, "c") as turn_lease:
        assert await turn_lease.excess() is None
        await lapse(slow)
        await slow.renew()
        assert [await one(other) for _ in range(4)] == [None] * 4
    assert await one(other) is None
    assert await one(other) is not None
    await slow.close()
    await other.close()


async def test_what_cannot_be_counted_is_refused_and_counting_goes_on_when_redis_is_back(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.state.turn_counter._RETRY_S", 0.0)
    server = RedisServer(tmp_path_factory.mktemp("own"))
    server.start()

    try:
        turns = of_redis(server, "p")
        assert await one(turns) is None
        server.stop()
        for _ in range(2):
            refused = await one(turns)
            assert refused is not None
            assert refused.reason == "unreachable"
        server.start()
        assert await one(turns) is None
        await turns.close()
    finally:
        server.stop()
    assert [record.message.partition(",")[0] for record in caplog.records] == ["Redis", "Redis"]
