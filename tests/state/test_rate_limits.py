"""Token buckets and ceilings in memory: exact with a clock that stands still, all charges or none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exhaustive import EXHAUSTIVE
from toolgen.core.clock import FixedClock
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.state.rate_limits import Hold, LimitRefusal, MemoryBuckets


def charge(
    key: str = "a", cost: float = 1, per_second: float = 1.0, burst: int = 3, concurrency: int = 0
) -> LimitCharge:
    limit = Limit(id=key, per_second=per_second, burst=burst, concurrency=concurrency)
    return LimitCharge(limit, (key,), cost)


def acquired(buckets: MemoryBuckets, *charges: LimitCharge) -> Hold | LimitRefusal:
    """What `acquire` says. It must answer without waiting, so it needs no event loop."""
    step = buckets.acquire(charges)
    with pytest.raises(StopIteration) as stopped:
        step.send(None)
    found = stopped.value.value
    assert isinstance(found, Hold | LimitRefusal)
    return found


def test_a_burst_passes_and_the_next_call_waits_for_one_token() -> None:
    clock = FixedClock()
    buckets = MemoryBuckets(clock)
    assert [buckets.take([charge()]) for _ in range(3)] == [None] * 3
    assert buckets.take([charge()]) == LimitRefusal(limit="a", retry_after_s=1.0)
    clock.advance(1.0)
    assert buckets.take([charge()]) is None
    assert buckets.take([charge()]) is not None


def test_the_longest_wait_is_told() -> None:
    buckets = MemoryBuckets(FixedClock())
    slow, fast = charge("slow", per_second=0.1, burst=1), charge("fast", burst=1)
    assert buckets.take([slow, fast]) is None
    assert buckets.take([fast, slow]) == LimitRefusal(limit="slow", retry_after_s=10.0)


def test_places_given_back_are_forgotten() -> None:
    buckets = MemoryBuckets(FixedClock())
    for number in range(100):
        hold = acquired(buckets, charge(str(number), burst=0, concurrency=1))
        assert isinstance(hold, Hold)
        buckets.release(hold)
    assert buckets._flying == {}


@pytest.mark.parametrize("cost", [math.nan, math.inf, 3.5])
def test_what_can_never_be_paid_is_refused_and_takes_nothing(cost: float) -> None:
    buckets = MemoryBuckets(FixedClock())
    assert buckets.take([charge("other"), charge(cost=cost)]) is not None
    assert buckets.take([charge("other", cost=3), charge(cost=3)]) is None


@dataclass(frozen=True)
class Step:
    """Time that passes (below 0: the clock is set back), and what is then asked for of two buckets."""

    wait: float
    first: float
    second: float


STEPS = st.lists(
    st.builds(
        Step,
        wait=st.one_of(st.floats(0, 5), st.floats(-90, 5)),
        first=st.sampled_from([0, 0.25, 1, 2, 3]),
        second=st.sampled_from([0, 0.1, 1, 5]),
    ),
    max_size=80,
)


@given(STEPS)
def test_no_interleaving_lets_more_through_than_burst_and_rate(steps: list[Step]) -> None:
    """Nor one in which the clock goes back: then only the time it went forward counts. A refused call took from neither bucket."""
    clock = FixedClock(0.0)
    buckets = MemoryBuckets(clock)
    passed, forward = [0.0, 0.0], 0.0
    for step in steps:
        clock.advance(step.wait)
        forward += max(0.0, step.wait)
        asked = [charge("a", step.first), charge("b", step.second, per_second=0.5, burst=5)]
        if buckets.take(asked) is None:
            passed[0] += step.first
            passed[1] += step.second
        assert passed[0] <= 3 + forward + 1e-6
        assert passed[1] <= 5 + forward * 0.5 + 1e-6


@given(st.lists(st.floats(-50, 50), max_size=40))
def test_a_clock_that_swings_grants_no_more_than_one_that_stands_at_its_furthest(swings: list[float]) -> None:
    clock = FixedClock(0.0)
    buckets = MemoryBuckets(clock)
    passed = 0
    for seconds in swings:
        clock.seconds = seconds
        while buckets.take([charge()]) is None:
            passed += 1
    assert passed <= 3 + max([0.0, *swings]) - min([0.0, *swings]) + 1e-6


def test_a_clock_that_was_set_right_by_a_day_does_not_stop_the_refill() -> None:
    clock = FixedClock(86_400.0)
    buckets = MemoryBuckets(clock)
    for _ in range(3):
        buckets.take([charge()])
    clock.seconds = 0.0
    assert buckets.take([charge()]) is not None
    clock.seconds = 1.0
    buckets.take([charge(cost=0)])
    clock.seconds = 2.0
    assert buckets.take([charge()]) is None


@given(st.lists(st.lists(st.sampled_from("abc"), unique=True, min_size=1), max_size=60))
def test_all_places_are_taken_or_none(calls: list[list[str]]) -> None:
    buckets = MemoryBuckets(FixedClock())
    flying: list[Hold] = []
    for keys in calls:
        answer = acquired(buckets, *(charge(key, burst=0, concurrency=2) for key in keys))
        if isinstance(answer, Hold):
            assert answer.keys == tuple((key,) for key in keys)
            flying.append(answer)
        for key in "abc":
            held = sum((key,) in hold.keys for hold in flying)
            assert buckets._flying.get((key,), 0) == held <= 2
        if len(flying) > 2:
            buckets.release(flying.pop(0))


@pytest.mark.sweep
def test_many_takes_drift_by_less_than_one_token() -> None:
    clock = FixedClock(1_700_000_000.0)
    buckets = MemoryBuckets(clock)
    third = charge(cost=1 / 3, per_second=1000.0, burst=10)
    began, passed = clock.seconds, 0
    for number in range(1_000_000 if EXHAUSTIVE else 200_000):
        clock.seconds = began + number * 0.0001
        passed += buckets.take([third]) is None
    allowed = (10 + (clock.seconds - began) * 1000.0) * 3
    assert allowed - 3 <= passed <= allowed + 1e-3


def test_full_buckets_are_forgotten() -> None:
    clock = FixedClock()
    buckets = MemoryBuckets(clock)
    for number in range(10_000):
        buckets.take([charge(str(number))])
    clock.advance(60)
    buckets.take([charge("last")])
    assert len(buckets._levels) == 1


async def test_closing_is_harmless() -> None:
    await MemoryBuckets(FixedClock()).close()
