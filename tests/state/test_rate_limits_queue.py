"""Waiting for a turn: first come, first served, never longer than said, and nobody is left in a line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolgen.core.clock import FixedClock, SystemClock
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.state.rate_limits import MAX_LINE_LENGTH, Hold, LimitRefusal, MemoryBuckets, WaitingBuckets


def limit(key: str = "a", **terms: Any) -> Limit:
    return Limit(**{"id": key, "per_second": 50.0, "burst": 1, "wait_s": 20.0, **terms})


def charge(of: Limit, cost: float = 1) -> LimitCharge:
    return LimitCharge(of, (of.id,), cost)


def waiting() -> WaitingBuckets:
    return WaitingBuckets(MemoryBuckets(SystemClock()))


async def test_calls_are_served_in_the_order_in_which_they_came() -> None:
    buckets, served = waiting(), list[int]()

    async def one(number: int, cost: float) -> None:
        assert isinstance(await buckets.acquire((charge(limit(), cost),)), Hold)
        served.append(number)

    costs = [1, 1, 0.1, 1, 0, 0.5]
    await asyncio.gather(*(one(number, cost) for number, cost in enumerate(costs)))
    assert served == [0, 1, 2, 3, 4, 5]
    assert (buckets._lines, buckets._waiting) == ({}, 0)


async def test_a_place_given_back_wakes_the_first_in_line() -> None:
    buckets = waiting()
    ceiling = (charge(limit(burst=0, concurrency=1)),)
    hold = await buckets.acquire(ceiling)
    tasks = [asyncio.create_task(buckets.acquire(ceiling)) for _ in range(3)]
    for task in tasks:
        assert isinstance(hold, Hold)
        await asyncio.sleep(0)
        buckets.release(hold)
        hold = await task
    assert isinstance(hold, Hold)
    buckets.release(hold)
    assert buckets._lines == {}


async def test_who_cannot_be_served_in_time_is_refused_at_once() -> None:
    buckets = waiting()
    slow = (charge(limit(per_second=0.01)),)
    assert isinstance(await buckets.acquire(slow), Hold)
    refusal = await buckets.acquire(slow)
    assert isinstance(refusal, LimitRefusal)
    assert refusal.retry_after_s > 20
    assert buckets._lines == {}


async def test_nobody_waits_longer_than_the_limit_says() -> None:
    buckets = WaitingBuckets(MemoryBuckets(FixedClock()))  # whose time does not pass: nobody is ever served
    short = (charge(limit(wait_s=0.1)),)
    ceiling = (charge(limit("b", burst=0, concurrency=1, wait_s=0.1)),)
    for charges in (short, ceiling):
        assert isinstance(await buckets.acquire(charges), Hold)
        answers = await asyncio.gather(*(buckets.acquire(charges) for _ in range(4)))
        assert {type(answer) for answer in answers} == {LimitRefusal}
    assert buckets._lines == {}


async def test_a_limit_without_a_wait_refuses_at_once() -> None:
    buckets = waiting()
    none = (charge(limit(per_second=0.01, wait_s=0.0)),)
    assert isinstance(await buckets.acquire(none), Hold)
    assert isinstance(await buckets.acquire(none), LimitRefusal)


@pytest.mark.parametrize("gone", [0, 1, 2])
async def test_who_is_cancelled_leaves_the_line_and_the_others_move_up(gone: int) -> None:
    buckets = waiting()
    ceiling = (charge(limit(burst=0, concurrency=1)),)
    hold = await buckets.acquire(ceiling)
    tasks = [asyncio.create_task(buckets.acquire(ceiling)) for _ in range(3)]
    await asyncio.sleep(0.01)
    tasks[gone].cancel()
    await asyncio.wait((tasks[gone],))
    for task in tasks[:gone] + tasks[gone + 1 :]:
        assert isinstance(hold, Hold)
        buckets.release(hold)
        hold = await task
    assert isinstance(hold, Hold)
    buckets.release(hold)
    assert (buckets._lines, buckets._waiting) == ({}, 0)
    assert isinstance(await buckets.acquire(ceiling), Hold)


async def test_a_line_has_an_end() -> None:
    buckets = waiting()
    ceiling = (charge(limit(burst=0, concurrency=1)),)
    await buckets.acquire(ceiling)
    tasks = [asyncio.create_task(buckets.acquire(ceiling)) for _ in range(MAX_LINE_LENGTH)]
    await asyncio.sleep(0)
    refusal = await buckets.acquire(ceiling)
    assert isinstance(refusal, LimitRefusal)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert (buckets._lines, buckets._waiting) == ({}, 0)


async def test_who_waits_for_another_limit_does_not_hold_up_the_line() -> None:
    buckets = waiting()
    shared, mine = limit("shared", per_second=100.0), limit("mine", per_second=1.0, burst=1)
    assert isinstance(await buckets.acquire((charge(mine),)), Hold)
    assert isinstance(await buckets.acquire((charge(shared),)), Hold)
    blocked = asyncio.create_task(buckets.acquire((charge(shared), charge(mine))))
    others = [asyncio.create_task(buckets.acquire((charge(shared),))) for _ in range(3)]
    answers = await asyncio.gather(*others)
    assert {type(answer) for answer in answers} == {Hold}
    assert not blocked.done()
    assert isinstance(await blocked, Hold)
    assert buckets._lines == {}


async def test_what_cannot_be_counted_is_not_waited_for() -> None:
    class Unreachable:
        asked = 0

        async def acquire(self, charges: Any) -> LimitRefusal:
            self.asked += 1
            return LimitRefusal(limit="a", retry_after_s=1.0, reason="unreachable")

        def release(self, hold: Hold) -> None: ...

        async def close(self) -> None: ...

    away = Unreachable()
    assert isinstance(await WaitingBuckets(away).acquire((charge(limit()),)), LimitRefusal)
    assert away.asked == 1
