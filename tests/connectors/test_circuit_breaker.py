"""The breaker, decision by decision, with a clock that only the test moves."""

from __future__ import annotations

import pytest

from toolgen.connectors.circuit_breaker import Breaker, Ending
from toolgen.connectors.failure_settings import BreakerConfig
from toolgen.core.clock import FixedClock

ANSWERED, FAILED, REFUSED, UNREACHED, SILENT = Ending


def breaker(**trip: float) -> tuple[Breaker, FixedClock]:
    clock = FixedClock()
    return Breaker(BreakerConfig(**trip), clock), clock  # type: ignore[arg-type]


def attempt(one: Breaker, clock: FixedClock, ending: Ending) -> float:
    """One call from beginning to end; how long it was told to wait."""
    wait = one.enter()
    if wait == 0:
        one.leave(one.epoch, ending, clock.monotonic())
    return wait


@pytest.mark.parametrize(
    ("endings", "opens"),
    [
        ([FAILED] * 9, False),  # too few to say
        ([FAILED] * 10, True),
        ([ANSWERED] * 6 + [FAILED] * 5, False),
        ([ANSWERED] * 6 + [FAILED] * 6, True),
        ([SILENT] * 100, False),
        ([REFUSED] * 2, False),
        ([REFUSED] * 3, True),
        ([REFUSED, ANSWERED] * 4, False),
        ([REFUSED, REFUSED, FAILED, REFUSED, REFUSED], False),
        ([UNREACHED], True),
    ],
)
def test_it_opens_upon_a_share_of_failures_or_a_system_out_of_reach(endings: list[Ending], opens: bool) -> None:
    one, clock = breaker()
    for ending in endings:
        assert attempt(one, clock, ending) == 0
        clock.advance(0.01)
    assert (one.enter() > 0) is opens


def test_failures_of_long_ago_are_forgotten() -> None:
    one, clock = breaker(window_s=10)
    for _ in range(9):
        attempt(one, clock, FAILED)
    clock.advance(20)
    assert attempt(one, clock, FAILED) == 0
    assert one.enter() == 0


def test_a_window_ends_gradually() -> None:
    one, clock = breaker(window_s=10)
    clock.advance(4.9)
    for _ in range(9):
        attempt(one, clock, FAILED)
    clock.advance(0.2)
    attempt(one, clock, FAILED)
    assert one.enter() > 0


def test_one_timeout_among_answers_is_no_dead_system() -> None:
    one, clock = breaker()
    began = clock.monotonic()
    clock.advance(1)
    attempt(one, clock, ANSWERED)
    one.leave(one.epoch, UNREACHED, began)
    assert one.enter() == 0


def test_half_open_lets_one_call_through_and_its_ending_decides() -> None:
    one, clock = breaker(open_s=10)
    attempt(one, clock, UNREACHED)
    assert one.enter() == 10
    clock.advance(10)
    assert one.enter() == 0
    assert [one.enter() > 0 for _ in range(100)] == [True] * 100
    one.leave(one.epoch, UNREACHED, clock.monotonic())
    assert one.enter() == 10
    clock.advance(10)
    assert attempt(one, clock, ANSWERED) == 0
    assert [one.enter() for _ in range(100)] == [0] * 100


def test_a_probe_that_said_nothing_lets_the_next_one_try() -> None:
    one, clock = breaker(open_s=10)
    attempt(one, clock, UNREACHED)
    clock.advance(10)
    assert attempt(one, clock, SILENT) == 0
    assert one.enter() == 0


def test_what_refuses_at_once_is_asked_again_soon_and_then_later_and_later() -> None:
    one, clock = breaker(open_s=10)
    for _ in range(3):
        attempt(one, clock, REFUSED)
    waits = []
    for _ in range(6):
        waits.append(one.enter())
        clock.advance(waits[-1])
        attempt(one, clock, REFUSED)
    assert waits == [1, 2, 4, 8, 10, 10]


def test_calls_of_before_say_nothing_of_now() -> None:
    one, clock = breaker(open_s=10)
    early = one.epoch
    attempt(one, clock, UNREACHED)
    one.leave(early, ANSWERED, clock.monotonic())
    assert one.enter() > 0
    clock.advance(10)
    probe_wait = one.enter()
    one.leave(early, UNREACHED, clock.monotonic())
    assert probe_wait == 0
    one.leave(one.epoch, ANSWERED, clock.monotonic())
    one.leave(early, UNREACHED, clock.monotonic())
    assert one.enter() == 0
