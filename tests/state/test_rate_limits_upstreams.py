"""What upstreams say of their limits: heeded within bounds, for their own source alone, and never more generous than was said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.core.clock import FixedClock
from toolgen.state.rate_limits import MAX_DURATION_S, Upstreams


def test_a_budget_is_counted_down_and_ends_with_its_window() -> None:
    clock = FixedClock()
    upstreams = Upstreams(clock)
    upstreams.hear("a", {"remaining": 2, "reset_s": 5.0})
    assert [upstreams.take("a") for _ in range(3)] == [None, None, 5.0]
    assert upstreams.take("b") is None
    clock.advance(5)
    assert upstreams.take("a") is None
    assert upstreams._budgets == {}


def test_of_answers_about_one_window_the_least_counts_whatever_their_order() -> None:
    upstreams = Upstreams(FixedClock())
    for remaining in (3, 1, 2):
        upstreams.hear("a", {"remaining": remaining, "reset_s": 5.0})
    assert [upstreams.take("a") for _ in range(2)] == [None, 5.0]


def test_a_pause_is_not_cut_short_by_a_later_answer() -> None:
    clock = FixedClock()
    upstreams = Upstreams(clock)
    upstreams.hear("a", {"retry_after_s": 60.0})
    upstreams.hear("a", {"retry_after_s": 1.0, "remaining": 1_000_000, "reset_s": 3_000.0})
    assert upstreams.take("a") == 60.0
    clock.advance(60)
    assert upstreams.take("a") is None


def test_nobody_can_hold_calls_up_for_longer_than_an_hour() -> None:
    clock = FixedClock()
    upstreams = Upstreams(clock)
    upstreams.hear("a", {"retry_after_s": 1e300, "remaining": 0, "reset_s": 1e300})
    assert upstreams.take("a") == MAX_DURATION_S
    clock.advance(MAX_DURATION_S)
    assert upstreams.take("a") is None


@pytest.mark.parametrize(
    "rates",
    [
        {},
        {"remaining": 0},
        {"reset_s": 60.0},
        {"remaining": "0", "reset_s": "60"},
        {"remaining": 0, "reset_s": 0.0},
        {"remaining": 0, "reset_s": -1.0},
        {"retry_after_s": 0},
        {"retry_after_s": -60.0},
        {"retry_after_s": float("nan"), "remaining": 0, "reset_s": float("nan")},
        {"retry_after_s": None, "remaining": None, "reset_s": None},
    ],
)
def test_what_says_nothing_changes_nothing(rates: dict[str, Any]) -> None:
    upstreams = Upstreams(FixedClock())
    upstreams.hear("a", rates)
    assert upstreams._budgets == {}


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100),
            st.one_of(st.none(), st.floats(-10, 1e6)),
            st.one_of(st.none(), st.integers(-1, 5)),
            st.one_of(st.none(), st.floats(-10, 1e6)),
        ),
        max_size=40,
    )
)
def test_no_answers_hold_calls_up_for_longer_than_an_hour_after_the_last(answers: list[Any]) -> None:
    clock = FixedClock(0.0)
    upstreams = Upstreams(clock)
    for wait, pause, left, reset in answers:
        clock.advance(wait)
        upstreams.hear("a", {"retry_after_s": pause, "remaining": left, "reset_s": reset})
        held = upstreams.take("a")
        assert held is None or 0 < held <= MAX_DURATION_S + 0.001
    clock.advance(MAX_DURATION_S)
    assert upstreams.take("a") is None
