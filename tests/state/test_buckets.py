"""Token buckets: exact with a clock that stands still, all charges or none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.catalogs import PETS
from toolgen.clock import FixedClock
from toolgen.model.call import Call, Principal
from toolgen.policy.limits import Charge, Limit, charges, parse_rate
from toolgen.state.buckets import MemoryBuckets


def charge(key: str = "a", cost: int = 1, per_second: float = 1.0, burst: int = 3) -> Charge:
    return Charge(limit=key, key=(key,), cost=cost, per_second=per_second, burst=burst)


def test_a_burst_passes_and_the_next_call_waits_for_one_token() -> None:
    clock = FixedClock()
    buckets = MemoryBuckets(clock)
    assert [buckets.take([charge()]) for _ in range(3)] == [None] * 3
    refusal = buckets.take([charge()])
    assert refusal is not None
    assert (refusal.limit, refusal.retry_after_s) == ("a", 1.0)
    clock.advance(1.0)
    assert buckets.take([charge()]) is None
    assert buckets.take([charge()]) is not None


def test_a_refused_call_takes_nothing_from_any_bucket() -> None:
    buckets = MemoryBuckets(FixedClock())
    empty, full = charge("empty", burst=1), charge("full", burst=1)
    assert buckets.take([empty]) is None
    assert buckets.take([full, empty]) is not None
    assert buckets.take([full]) is None


def test_the_longest_wait_is_told() -> None:
    buckets = MemoryBuckets(FixedClock())
    slow, fast = charge("slow", per_second=0.1, burst=1), charge("fast", burst=1)
    assert buckets.take([slow, fast]) is None
    refusal = buckets.take([fast, slow])
    assert refusal is not None
    assert (refusal.limit, refusal.retry_after_s) == ("slow", 10.0)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3)), max_size=60))
def test_no_sequence_lets_more_through_than_rate_and_burst(steps: list[tuple[float, int]]) -> None:
    clock = FixedClock(0.0)
    buckets = MemoryBuckets(clock)
    passed = 0
    for wait, cost in steps:
        clock.advance(wait)
        if buckets.take([charge(cost=cost)]) is None:
            passed += cost
    assert passed <= 3 + clock.monotonic() + 1e-6


def test_full_buckets_are_forgotten() -> None:
    clock = FixedClock()
    buckets = MemoryBuckets(clock)
    for number in range(10_000):
        buckets.take([charge(str(number))])
    clock.advance(60)
    buckets.take([charge("last")])
    assert len(buckets._levels) == 1


def test_rates_are_read_as_written() -> None:
    assert parse_rate("60/min") == (60, 1.0)
    assert parse_rate("2/s") == (2, 2.0)
    assert parse_rate("36/hour") == (36, 0.01)
    assert parse_rate("1/day") == (1, 1 / 86400)
    assert [parse_rate(text) for text in ("0/s", "1", "-1/s", "1.5/s", "1/week", "", "1/s ")] == [None] * 7


def test_each_limit_charges_its_own_bucket_of_the_call() -> None:
    limits = [
        Limit(id="one", per=("principal", "tool"), per_second=1, burst=9, cost=()),
        Limit(id="two", per=("source",), per_second=1, burst=9, cost=(("pets__get_*", 5), ("pets__*", 2))),
        Limit(id="all", per=(), per_second=1, burst=9, cost=()),
    ]
    call = Call(id="c", tool=PETS.tools["pets__get_pet"], arguments={}, principal=Principal(id="bot"))
    assert [(item.key, item.cost) for item in charges(limits, call)] == [
        (("one", "bot", "pets__get_pet"), 1),
        (("two", "pets"), 5),
        (("all",), 1),
    ]
