"""Linearizability of a call's history: what clients and people saw of one call has an order that a single copy of it allows.

A call is an object with a state: it waits for an answer, takes none any more, was approved, or has ended in one way. Decisions on it and
questions about it are operations, each with the time at which it was sent and the time at which its answer came. The search is that of
Wing and Gong with Lowe's table of states that were seen. An operation without an answer may have happened at any later time, or never.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

__all__ = ["CallOperation", "Ending", "is_linearizable"]


class Ending(Struct, frozen=True, kw_only=True):
    """Status and code with which a call ended."""

    status: str
    code: str = ""


class CallOperation(Struct, frozen=True, kw_only=True):
    """Operation on a call, from `began` until its answer came at `ended`, which is infinite where none came.

    `kind` approve, deny: a decision, `accepted` says whether it was taken. `kind` read: how the call stands, `ending` is None while it has
    not ended.
    """

    began: float
    ended: float = math.inf
    kind: Literal["approve", "deny", "read"]
    accepted: bool = True
    ending: Ending | None = None


_WAITING, _APPROVED = "waiting", "approved"
_OVERDUE = "overdue"
"""It takes no decision any more, and the gateway has not ended it yet."""
_State = str | Ending
_DENIED = "approval_denied"
_UNDECIDED = frozenset({"expired", "cancelled"})


def _needs_no_answer(ending: Ending) -> bool:
    """True if a call may end so while it waits: its time was over, it was withdrawn, or the gateway refused it."""
    return ending.code in _UNDECIDED or ending.status == "refused"


def _next_states(state: _State, operation: CallOperation) -> Iterator[_State]:
    """States in which the call may be right after an operation with the answer that it had. Between operations a call may end by itself."""
    is_known = operation.ended < math.inf
    match operation.kind, state:
        case "read", Ending():
            if not is_known or operation.ending == state:
                yield state
        case "read", _:
            if operation.ending is None or not is_known:
                yield state
            elif operation.ending.code != _DENIED and (state == _APPROVED or _needs_no_answer(operation.ending)):
                yield operation.ending  # it ended by itself before that
        case "approve" | "deny", "waiting":
            if operation.accepted or not is_known:
                yield _APPROVED if operation.kind == "approve" else Ending(status="refused", code=_DENIED)
            if not operation.accepted:
                yield _OVERDUE
        case _:
            if not operation.accepted or not is_known:
                yield state


def is_linearizable(operations: Iterable[CallOperation], *, waits: bool) -> bool:
    """True if there is an order of the operations that a single call allows. `waits`: the call begins by waiting for an answer."""
    history = sorted(operations, key=lambda one: (one.began, one.ended))
    every = (1 << len(history)) - 1
    seen: set[tuple[int, _State]] = set()
    stack: list[tuple[int, _State]] = [(0, _WAITING if waits else _APPROVED)]
    while stack:
        done, state = stack.pop()
        if (done, state) in seen:
            continue
        seen.add((done, state))
        left = [place for place in range(len(history)) if not done >> place & 1]
        if done == every or all(history[place].ended == math.inf for place in left):
            return True
        first_end = min(history[place].ended for place in left)
        for place in left:
            if history[place].began <= first_end:
                stack += [(done | 1 << place, after) for after in _next_states(state, history[place])]
    return False
