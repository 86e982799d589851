"""Search for an order of the operations on a call: histories of a correct gateway pass, and each broken one is found."""

from __future__ import annotations

import math

import pytest

from tests.simulation.history import CallOperation, Ending, is_linearizable

OK = Ending(status="ok")
DENIED = Ending(status="refused", code="approval_denied")
EXPIRED = Ending(status="refused", code="expired")


def read(began: float, ended: float, ending: Ending | None = None) -> CallOperation:
    return CallOperation(began=began, ended=ended, kind="read", ending=ending)


def approve(began: float, ended: float, *, accepted: bool = True) -> CallOperation:
    return CallOperation(began=began, ended=ended, kind="approve", accepted=accepted)


def deny(began: float, ended: float, *, accepted: bool = True) -> CallOperation:
    return CallOperation(began=began, ended=ended, kind="deny", accepted=accepted)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [read(0, 1), approve(1, 2), read(3, 4), read(5, 6, OK)],
        [approve(0, 3), deny(1, 2, accepted=False), read(4, 5, OK)],
        [approve(0, 3), read(1, 2, OK)],  # the reader saw what the answer to the person did not say yet
        [deny(0, 1), read(2, 3, DENIED), approve(4, 5, accepted=False)],
        [read(0, 1), read(20, 21, EXPIRED), approve(22, 23, accepted=False)],
        [approve(0, math.inf), read(5, 6, OK)],  # no answer came, and it was taken
        [approve(0, math.inf), read(5, 6, EXPIRED)],  # no answer came, and it was not
        [read(0, 4, OK), read(1, 2), approve(0, 1)],
    ],
)
def test_histories_of_one_call_are_linearizable(history: list[CallOperation]) -> None:
    assert is_linearizable(history, waits=True)


@pytest.mark.parametrize(
    "history",
    [
        [approve(0, 1), deny(2, 3)],  # two answers were taken
        [approve(0, 3), deny(1, 2)],
        [read(0, 1, OK)],  # carried out without an answer
        [deny(0, 1), read(2, 3, OK)],
        [approve(0, 1), read(2, 3, DENIED)],
        [approve(0, 1), read(2, 3, OK), read(4, 5)],  # ended, and then not
        [approve(0, 1), read(2, 3, OK), read(4, 5, Ending(status="error", code="upstream_error"))],
        [approve(0, 1, accepted=False), read(2, 3, OK)],  # refused, and carried out all the same
        [read(0, 1, EXPIRED), approve(2, 3)],
        [approve(10, math.inf), read(5, 6, OK)],  # carried out before the answer was sent
    ],
)
def test_a_history_that_no_order_explains_is_found(history: list[CallOperation]) -> None:
    assert not is_linearizable(history, waits=True)


def test_a_call_that_needs_no_answer_ends_once() -> None:
    assert is_linearizable([read(0, 1), read(2, 3, OK), read(4, 5, OK)], waits=False)
    assert not is_linearizable([read(0, 1, OK), read(2, 3)], waits=False)
