"""Contract of counts: what holds for buckets, turns and histories of one process, of all workers of a machine, and of all machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import pytest

from tests.redis_server import RedisServer
from tests.state.contract.counts import Counts, counts_in
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.state.history import Histories
from toolgen.state.rate_limits import Hold, LimitRefusal
from toolgen.state.shared_histories import SharedHistories
from toolgen.state.turn_counter import FORGOTTEN_S, MAX_CALLS, Excess, TurnCounter

BOT = ("bot",)
Open = Callable[[], AbstractAsyncContextManager[Counts]]


@pytest.fixture(params=["memory", "above", "redis"])
def opened(request: pytest.FixtureRequest) -> Open:
    def redis() -> RedisServer:
        server: RedisServer = request.getfixturevalue("redis_server")
        return server

    if request.param == "redis":
        redis()  # before there is a loop
    return lambda: counts_in(request.param, redis)


def charge(key: str = "a", cost: float = 1, burst: int = 3, **terms: Any) -> LimitCharge:
    return LimitCharge(Limit(id=key, per_second=0.001, burst=burst, **terms), (key,), cost)


def passed(*answers: Hold | LimitRefusal) -> int:
    return sum(isinstance(answer, Hold) for answer in answers)


# buckets


async def test_a_burst_is_shared_and_a_refused_call_takes_nothing(opened: Open) -> None:
    async with opened() as counts:
        one, two = counts.buckets(), counts.buckets()
        assert passed(*[await buckets.acquire((charge(),)) for buckets in (one, two, one)]) == 3
        refusal = await two.acquire((charge("b"), charge()))
        assert isinstance(refusal, LimitRefusal)
        assert (refusal.limit, refusal.reason) == ("a", "spent")
        assert 900 < refusal.retry_after_s <= 1000
        assert passed(await one.acquire((charge("b", cost=3),))) == 1


async def test_calls_at_once_are_counted_one_by_one(opened: Open) -> None:
    async with opened() as counts:
        workers = [counts.buckets(), counts.buckets()]
        asked = (charge(burst=50), charge("b", burst=40))
        assert passed(*await asyncio.gather(*(workers[n % 2].acquire(asked) for n in range(100)))) == 40
        assert passed(await workers[0].acquire((charge(burst=50, cost=10),))) == 1
        assert passed(await workers[1].acquire((charge(burst=50),))) == 0


async def test_a_cost_of_nothing_passes_and_one_that_never_fits_takes_nothing(opened: Open) -> None:
    async with opened() as counts:
        buckets = counts.buckets()
        assert passed(await buckets.acquire((charge(cost=3),))) == 1
        assert passed(await buckets.acquire((charge(cost=0),))) == 1
        assert passed(await buckets.acquire((charge("b"), charge("c", cost=4)))) == 0
        assert passed(await buckets.acquire((charge("b", cost=3),))) == 1


@pytest.mark.parametrize("cost", [float("nan"), float("inf")])
async def test_a_cost_that_is_none_takes_and_gives_nothing(opened: Open, cost: float) -> None:
    async with opened() as counts:
        buckets = counts.buckets()
        assert passed(await buckets.acquire((charge("b"), charge(cost=cost)))) == 0
        levels = await buckets.levels((charge(), charge("b")))
        assert levels is not None
        assert [tokens for tokens, _ in levels] == [3.0, 3.0]


async def test_places_in_flight_are_shared_and_each_is_given_back_once(opened: Open) -> None:
    async with opened() as counts:
        one, two = counts.buckets(), counts.buckets()
        ceiling = charge("at-once", burst=0, concurrency=2)
        first, second, third = [await buckets.acquire((ceiling,)) for buckets in (one, two, one)]
        assert isinstance(first, Hold)
        assert isinstance(second, Hold)
        assert isinstance(third, LimitRefusal)
        assert (third.reason, third.retry_after_s) == ("crowded", 1.0)
        one.release(first)
        assert passed(*[await one.acquire((ceiling,)) for _ in range(2)]) == 1


async def test_a_refusal_of_one_limit_holds_no_place_of_another(opened: Open) -> None:
    async with opened() as counts:
        buckets = counts.buckets()
        ceiling, spent = charge("at-once", burst=0, concurrency=1), charge(burst=1)
        assert passed(await buckets.acquire((spent,))) == 1
        assert passed(await buckets.acquire((ceiling, spent))) == 0
        assert passed(await buckets.acquire((ceiling,))) == 1


async def test_a_look_says_what_is_left_and_takes_nothing(opened: Open) -> None:
    async with opened() as counts:
        one, two = counts.buckets(), counts.buckets()
        looked = (charge(), charge("b"), LimitCharge(Limit(id="c", concurrency=2), ("c",)))
        assert isinstance(await one.acquire((charge(cost=2), looked[2])), Hold)
        for _ in range(3):
            levels = await two.levels(looked)
            assert levels is not None
            assert [(round(tokens, 1), flying) for tokens, flying in levels] == [(1.0, 0), (3.0, 0), (0.0, 1)]


async def test_a_cancelled_call_leaves_no_place_taken(opened: Open) -> None:
    async with opened() as counts:
        buckets = counts.buckets()
        ceiling = charge("at-once", burst=0, concurrency=1)
        for turns in range(12):
            task = asyncio.create_task(buckets.acquire((ceiling,)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            if not task.cancelled() and isinstance(hold := task.result(), Hold):
                buckets.release(hold)
            answer = await buckets.acquire((ceiling,))
            assert isinstance(answer, Hold), turns
            buckets.release(answer)


# turns


async def excess(turns: TurnCounter, conversation: str = "c", who: tuple[str, ...] = BOT) -> Excess | None:
    """Make a call that ends before the next."""
    async with turns.join(who, conversation) as lease:
        return await lease.excess()


async def test_calls_in_a_row_are_turns_and_those_in_flight_together_are_one(opened: Open) -> None:
    async with opened() as counts:
        here, there = counts.turns(), counts.turns()
        async with here.join(BOT, "c") as first, there.join(BOT, "c") as second:
            assert [await first.excess(), await second.excess()] == [None, None]
            assert await excess(here) is None
        assert await excess(there) is None
        refused = await excess(here)
        assert refused is not None
        assert refused.reason == "spent"
        assert 0 < refused.retry_after_s <= FORGOTTEN_S
        assert await excess(there) is not None


async def test_callers_and_conversations_have_turns_of_their_own(opened: Open) -> None:
    async with opened() as counts:
        turns = counts.turns()
        for _ in range(3):
            await excess(turns)
        assert await excess(turns) is not None
        assert await excess(turns, "other") is None
        assert await excess(turns, who=("bot", "ann")) is None
        assert await excess(turns, who=("eve",)) is None


async def test_a_turn_has_so_many_calls(opened: Open) -> None:
    async with opened() as counts:
        here, there = counts.turns(), counts.turns()
        async with AsyncExitStack() as seats:
            for number in range(MAX_CALLS):
                lease = await seats.enter_async_context((here, there)[number % 2].join(BOT, "c"))
                assert await lease.excess() is None
            assert await excess(here) == Excess(reason="crowded", retry_after_s=1.0)
        assert await excess(here) is None
        assert await excess(here) is not None


async def test_a_turn_lasts_as_long_as_a_task_holds_it(opened: Open) -> None:
    """A caller that leaves cannot begin the next turn beside what it left running."""
    async with opened() as counts:
        turns, gate = counts.turns(), asyncio.Event()
        task = asyncio.create_task(gate.wait())

        async def call() -> None:
            async with turns.join(BOT, "c") as lease:
                await lease.excess()
                lease.hold(task)
                raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await call()
        for _ in range(5):
            assert await excess(turns) is None  # in the same turn
        gate.set()
        await task
        assert await excess(turns) is None
        assert await excess(turns) is not None


# histories


async def let_through(histories: Histories | SharedHistories, call: str, most: int, session: str = "s") -> bool:
    """Begin a call of one cent unless the sum of all before it would go beyond `most`. A call in flight counts."""
    if isinstance(histories, Histories):
        return _begun(histories, call, most, session)
    async with histories.turn(("bot",), session) as turn:
        while True:
            fits = _begun(histories, call, most, session)
            if await turn.commit():
                return fits


def _begun(histories: Histories | SharedHistories, call: str, most: int, session: str) -> bool:
    _, whole = histories.views("bot", session)
    fits = whole.sum("pay", "cents") + 1 <= most
    if fits:
        histories.begin(call, "bot", session, "pay", {"cents": 1}, ("paid",))
    return fits


async def sums(histories: Histories | SharedHistories, session: str, principal: str = "bot") -> list[float]:
    """Return the sums of a session and of its principal."""
    if isinstance(histories, SharedHistories):
        async with histories.turn((principal,), session) as turn:
            while not await turn.commit():
                pass
            return [view.sum("pay", "cents") for view in histories.views(principal, session)]
    return [view.sum("pay", "cents") for view in histories.views(principal, session)]


async def test_of_calls_that_race_no_more_go_through_than_fit(opened: Open) -> None:
    async with opened() as counts:
        workers = [counts.histories() for _ in range(4)]
        racing = [let_through(one, f"{index}-{call}", 30) for index, one in enumerate(workers) for call in range(12)]
        assert sum(await asyncio.gather(*racing)) == 30
        assert await sums(counts.histories(), "s") == [30, 30]


async def test_sessions_and_principals_are_apart(opened: Open) -> None:
    async with opened() as counts:
        one, two = counts.histories(), counts.histories()
        for number, session in enumerate("sst"):
            assert await let_through(one, f"call_{number}", 9, session)
        assert [await sums(two, "s"), await sums(two, "t")] == [[2, 3], [1, 3]]
        assert await sums(two, "s", "other") == [0, 0]
