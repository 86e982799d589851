"""When a call that waits asks again, and when it gives up: to the moment, on a loop whose time is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.virtual_time import VirtualTimeLoop
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.state.rate_limits import MAX_LINE_LENGTH, Hold, LimitRefusal, WaitingBuckets

pytestmark = pytest.mark.usefixtures("loop_factory")

HOLD = Hold(keys=(("a",),))


@pytest.fixture
def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    return VirtualTimeLoop


def now() -> float:
    return asyncio.get_running_loop().time()


def charge(limit_id: str = "a", wait_s: float = 10.0, key: str = "") -> LimitCharge:
    return LimitCharge(Limit(id=limit_id, per_second=1.0, burst=1, wait_s=wait_s), (key or limit_id,))


def spent(retry_after_s: float, limit: str = "a") -> LimitRefusal:
    return LimitRefusal(limit=limit, retry_after_s=retry_after_s)


def crowded(limit: str = "a") -> LimitRefusal:
    return LimitRefusal(limit=limit, retry_after_s=1.0, reason="crowded")


class Scripted:
    """Buckets that answer by the time and the charges, and remember when they were asked."""

    def __init__(self, answer: Callable[[float, Sequence[Any]], Hold | LimitRefusal]) -> None:
        self._answer = answer
        self.asked = list[float]()
        self.charges = list[Sequence[Any]]()
        self.released = list[Hold]()
        self.closed = False

    async def acquire(self, charges: Sequence[Any]) -> Hold | LimitRefusal:
        self.charges.append(charges)
        self.asked.append(round(now(), 6))
        return self._answer(now(), charges)

    def release(self, hold: Hold) -> None:
        self.released.append(hold)

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("answer", "wait_s", "asked", "ended", "comes"),
    [
        (lambda _: HOLD, 10.0, [0], 0, HOLD),
        (lambda at: spent(0.5) if at < 0.5 else HOLD, 10.0, [0, 0.5], 0.5, HOLD),
        (lambda at: spent(0.5) if at < 0.5 else HOLD, 0.5, [0, 0.5], 0.5, HOLD),  # as long as it may wait, no less
        (lambda at: spent(0.5) if at < 0.5 else HOLD, 0.4, [0], 0, spent(0.5)),
        (lambda at: spent(0.5) if at < 1.5 else HOLD, 10.0, [0, 0.5, 1.0, 1.5], 1.5, HOLD),
        (lambda _: spent(0.5), 1.2, [0, 0.5, 1.0], 1.0, spent(0.5)),  # a third time would be too late
        (lambda _: spent(0.5), 1.0, [0, 0.5, 1.0], 1.0, spent(0.5)),
        (lambda _: spent(0.0), 10.0, [0], 0, spent(0.0)),  # not for something that never comes
        (lambda at: crowded() if at < 0.25 else HOLD, 10.0, [0, 0.1, 0.2, 0.3], 0.3, HOLD),
        (lambda _: crowded(), 0.25, [0, 0.1, 0.2], 0.25, crowded()),
        (lambda _: crowded(), 0.0, [0], 0, crowded()),
        (lambda _: spent(0.5), 0.0, [0], 0, spent(0.5)),
    ],
)
async def test_it_asks_when_there_may_be_enough_and_gives_up_when_its_time_is_over(
    answer: Any, wait_s: float, asked: list[float], ended: float, comes: Hold | LimitRefusal
) -> None:
    inner = Scripted(lambda at, _: answer(round(at, 6)))
    buckets = WaitingBuckets(inner)
    assert await buckets.acquire((charge(wait_s=wait_s),)) == comes
    assert inner.asked == pytest.approx(asked)
    assert now() == pytest.approx(ended)
    assert (buckets._lines, buckets._waiting) == ({}, 0)


async def test_who_stands_behind_asks_nothing_and_is_told_how_long_it_could_have_waited() -> None:
    inner = Scripted(lambda _at, _charges: crowded())
    buckets = WaitingBuckets(inner)
    first = asyncio.create_task(buckets.acquire((charge(wait_s=5.0),)))
    await asyncio.sleep(0)
    second = asyncio.create_task(buckets.acquire((charge("b", key="b"), charge(wait_s=0.05))))
    answer = await second
    assert (answer, now()) == (LimitRefusal(limit="a", retry_after_s=0.05), pytest.approx(0.05))
    assert not any(charge.key == ("b",) for charges in inner.charges for charge in charges)
    assert await first == crowded()
    assert now() == pytest.approx(5.0)


@pytest.mark.parametrize(("retry_after_s", "ended"), [(100.0, 1.0), (2.0, 3.0)])
async def test_who_waited_for_one_bucket_waits_for_the_next_only_where_that_can_help(
    retry_after_s: float, ended: float
) -> None:
    def answer(at: float, _: Sequence[Any]) -> Hold | LimitRefusal:
        at = round(at, 6)
        return spent(1.0) if at < 1 else spent(retry_after_s, "b") if at < 3 else HOLD

    inner = Scripted(answer)
    buckets = WaitingBuckets(inner)
    got = await buckets.acquire((charge("a"), charge("b")))
    assert got == (HOLD if retry_after_s == 2.0 else spent(100.0, "b"))
    assert now() == pytest.approx(ended)


async def test_who_came_first_is_served_first_and_the_next_moves_up_at_once() -> None:
    inner = Scripted(lambda at, _: spent(1.0) if at < 1 else HOLD)
    buckets = WaitingBuckets(inner)
    ends = list[tuple[int, float]]()

    async def one(number: int) -> None:
        assert await buckets.acquire((charge(),)) == HOLD
        ends.append((number, round(now(), 6)))

    await asyncio.gather(*(one(number) for number in range(4)))
    assert ends == [(number, 1.0) for number in range(4)]
    assert inner.asked == [0, 1, 1, 1, 1]


async def test_a_place_given_back_is_asked_for_at_once_by_the_first_in_its_own_line() -> None:
    free = dict[str, bool]()
    inner = Scripted(lambda _, charges: HOLD if free.pop(charges[0].limit.id, False) else crowded(charges[0].limit.id))
    buckets = WaitingBuckets(inner)
    tasks = {name: asyncio.create_task(buckets.acquire((charge(name[0]),))) for name in ("a1", "b1", "a2", "b2")}
    await asyncio.sleep(0.03)
    free["a"] = True
    buckets.release(Hold(keys=(("nobody's",), ("a",))))
    assert await tasks["a1"] == HOLD
    assert now() == pytest.approx(0.03)
    await asyncio.sleep(0)
    assert [name for name, task in tasks.items() if task.done()] == ["a1"]
    assert inner.released == [Hold(keys=(("nobody's",), ("a",)))]
    for task in tasks.values():
        task.cancel()
    await asyncio.wait(tasks.values())
    assert (buckets._lines, buckets._waiting) == ({}, 0)


async def test_of_several_limits_the_shortest_wait_counts_from_the_beginning() -> None:
    inner = Scripted(lambda at, _: spent(0.2) if at < 0.2 else crowded("b"))
    buckets = WaitingBuckets(inner)
    assert await buckets.acquire((charge(), charge("b", wait_s=0.5))) == crowded("b")
    assert now() == pytest.approx(0.5)
    assert buckets._lines == {}


async def test_the_limit_that_refuses_last_says_whether_there_is_any_waiting() -> None:
    inner = Scripted(lambda at, _: spent(0.2) if at < 0.2 else spent(0.1, "b"))
    assert await WaitingBuckets(inner).acquire((charge(), charge("b", wait_s=0.0))) == spent(0.1, "b")
    assert now() == pytest.approx(0.2)
    inner = Scripted(lambda at, _: spent(0.2) if at < 0.4 else spent(0.3, "b") if at < 0.7 else HOLD)
    assert await WaitingBuckets(inner).acquire((charge(), charge("b", wait_s=0.7))) == HOLD
    assert now() == pytest.approx(0.7)


async def test_a_line_has_an_end_and_so_have_all_together() -> None:
    inner = Scripted(lambda _, charges: crowded(charges[0].limit.id))
    buckets = WaitingBuckets(inner)
    tasks = list[asyncio.Task[Any]]()
    for line in range(10):
        tasks += [asyncio.create_task(buckets.acquire((charge(f"l{line}"),))) for _ in range(100)]
        await asyncio.sleep(0)
        assert buckets._waiting == len(tasks)
        if line < 9:
            assert await buckets.acquire((charge(f"l{line}"),)) == LimitRefusal(limit=f"l{line}", retry_after_s=10.0)
    assert MAX_LINE_LENGTH == 100
    assert await buckets.acquire((charge("another"),)) == crowded("another"), "a thousand wait"
    assert now() == 0
    tasks.pop().cancel()
    await asyncio.sleep(0)
    fits = asyncio.create_task(buckets.acquire((charge("another"),)))
    await asyncio.sleep(0)
    assert not fits.done()
    for task in (*tasks, fits):
        task.cancel()
    await asyncio.wait((*tasks, fits))
    assert (buckets._lines, buckets._waiting) == ({}, 0)


async def test_closing_closes_what_counts() -> None:
    inner = Scripted(lambda _at, _charges: HOLD)
    await WaitingBuckets(inner).close()
    assert inner.closed
