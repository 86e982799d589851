"""Histories: in flight counts, refused does not, and what was pushed out is forgotten aloud."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.core.clock import FixedClock
from toolgen.state.history import Histories


def begin(
    histories: Histories, call: str, tool: str = "pay__refund", who: str = "bot", session: str = "s", **more: Any
) -> None:
    histories.begin(call, who, session, tool, more.get("numbers", {}), more.get("labels", ()))


def test_a_call_in_flight_counts_but_was_not_called_yet() -> None:
    histories = Histories(FixedClock())
    begin(histories, "1", numbers={"cents": 5}, labels=["private"])
    session, whole = histories.views("bot", "s")
    assert (session.called("pay__refund"), session.count("pay__*"), session.sum("pay__refund", "cents")) == (0, 1, 5)
    assert session.labels() == whole.labels() == ["private"]
    histories.end("1", "ok")
    assert (session.called("pay__refund"), session.count("pay__*"), session.sum("pay__refund", "cents")) == (1, 1, 5)


def test_what_failed_may_have_done_something_and_what_was_never_made_did_not() -> None:
    histories = Histories(FixedClock())
    for call, outcome in (("1", "failed"), ("2", "none"), ("3", "ok")):
        begin(histories, call, numbers={"cents": 10}, labels=[f"l{call}"])
        histories.end(call, outcome)
    session, _ = histories.views("bot", "s")
    assert (session.called("*"), session.count("*"), session.sum("*", "cents")) == (1, 2, 20)
    assert session.labels() == ["l1", "l3"]


def test_sessions_and_principals_are_apart() -> None:
    histories = Histories(FixedClock())
    begin(histories, "1", session="a")
    begin(histories, "2", session="b")
    begin(histories, "3", who="other", session="a")
    begin(histories, "4", session="")
    assert histories.views("bot", "a")[0].count("*") == 1
    assert histories.views("bot", "a")[1].count("*") == 3
    assert histories.views("other", "b")[0].count("*") == 0
    assert histories.views("bot", "")[0].count("*") == 0
    assert histories.views("nobody", "a")[1].count("*") == 0


def test_a_session_that_was_pushed_out_is_forgotten_and_a_new_one_is_not() -> None:
    histories = Histories(FixedClock(), most_sessions=2)
    for number in range(3):
        begin(histories, str(number), session=f"s{number}", labels=["private"])
        histories.end(str(number), "ok")
    for ask in (
        lambda view: view.labels(),
        lambda view: view.count("*"),
        lambda view: view.called("*"),
        lambda view: view.sum("*", "x"),
    ):
        with pytest.raises(LookupError):
            ask(histories.views("bot", "s0")[0])
    assert histories.views("bot", "new")[0].labels() == []
    begin(histories, "again", session="s0")
    with pytest.raises(LookupError):
        histories.views("bot", "s0")[0].count("*")
    assert histories.views("bot", "s0")[1].labels() == ["private"]


def test_one_principal_cannot_push_out_the_sessions_of_another() -> None:
    histories = Histories(FixedClock(), most_sessions=2)
    begin(histories, "1", who="victim", session="s")
    histories.end("1", "ok")
    for number in range(50):
        begin(histories, f"x{number}", session=f"s{number}")
        histories.end(f"x{number}", "ok")
    assert histories.views("victim", "s")[0].called("*") == 1


def test_a_session_with_a_call_in_flight_is_kept() -> None:
    histories = Histories(FixedClock(), most_sessions=1)
    begin(histories, "long", session="s", labels=["private"])
    begin(histories, "2", session="t")
    histories.end("2", "ok")
    begin(histories, "3", session="u")
    assert histories.views("bot", "s")[0].labels() == ["private"]


def test_a_session_idle_for_a_day_is_forgotten_and_the_principals_window_moves_on() -> None:
    clock = FixedClock()
    histories = Histories(clock)
    begin(histories, "1", labels=["private"])
    histories.end("1", "ok")
    clock.seconds += 26 * 3600
    session, whole = histories.views("bot", "s")
    with pytest.raises(LookupError):
        session.labels()
    assert whole.labels() == []


def test_principals_are_bounded_and_forgotten_aloud() -> None:
    histories = Histories(FixedClock(), most_principals=1)
    for who in ("a", "b"):
        begin(histories, who, who=who)
        histories.end(who, "ok")
    for view in histories.views("a", "s"):
        with pytest.raises(LookupError):
            view.count("*")
    begin(histories, "again", who="a")
    with pytest.raises(LookupError):
        histories.views("a", "s")[1].count("*")


@pytest.mark.parametrize("value", ["5", None, True, float("nan"), float("inf"), [5]])
def test_the_sum_of_what_is_no_number_is_unknown(value: Any) -> None:
    histories = Histories(FixedClock())
    begin(histories, "1", numbers={"cents": value})
    with pytest.raises(LookupError):
        histories.views("bot", "s")[0].sum("*", "cents")
    assert histories.views("bot", "s")[0].sum("*", "other") == 0


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**70), 2**70) | st.floats(-1e9, 1e9), st.sampled_from(["ok", "failed", "none", "flying"])
        )
    )
)
def test_sums_are_exact_whatever_is_taken_back(calls: list[tuple[float, str]]) -> None:
    histories = Histories(FixedClock())
    for number, (value, outcome) in enumerate(calls):
        begin(histories, str(number), numbers={"x": value})
        if outcome != "flying":
            histories.end(str(number), outcome)
    kept = Histories(FixedClock())
    for number, (value, outcome) in enumerate(calls):
        if outcome != "none":
            begin(kept, str(number), numbers={"x": value})
    assert histories.views("bot", "s")[0].sum("*", "x") == kept.views("bot", "s")[0].sum("*", "x")
    assert histories.views("bot", "s")[0].count("*") == kept.views("bot", "s")[0].count("*")
