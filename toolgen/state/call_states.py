"""States of a call that outlives its request, and the allowed transitions (docs/explanation/waiting-calls.md has a diagram)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

__all__ = ["ENDED", "FOLLOWS", "NEXT", "CallState", "Kind", "Status", "state_of"]

Status = Literal["pending", "approved", "running", "ended"]
"""Progress of a stored call."""

Kind = Literal["approval", "device", "call", "workflow", "account"]
"""Reason for waiting: a person's answer, the caller's device, its own end (it runs, and its caller did not wait), calls that it made, or an
account that the person links."""


class CallState(StrEnum):
    """State of a call, as reported to clients."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    OUTCOME_UNKNOWN = "outcome_unknown"


ENDED = frozenset(
    {CallState.COMPLETED, CallState.FAILED, CallState.CANCELLED, CallState.EXPIRED, CallState.OUTCOME_UNKNOWN}
)
"""Final states."""

FOLLOWS: Mapping[CallState, frozenset[CallState]] = MappingProxyType(
    {
        CallState.WORKING: frozenset({CallState.WORKING, CallState.INPUT_REQUIRED, *ENDED}),
        CallState.INPUT_REQUIRED: frozenset({CallState.INPUT_REQUIRED, CallState.WORKING, *ENDED}),
        **dict.fromkeys(ENDED, frozenset()),
    }
)
"""Allowed transitions between states."""

NEXT: Mapping[Status, frozenset[Status]] = MappingProxyType(
    {
        "pending": frozenset({"pending", "approved", "running", "ended"}),
        "approved": frozenset({"approved", "running", "ended"}),
        # Released before any effect, or found to need an answer.
        "running": frozenset({"running", "approved", "pending", "ended"}),
        "ended": frozenset(),
    }
)
"""Allowed transitions between statuses. Every storage of calls checks each change against it."""

_BY_CODE: Mapping[str, CallState] = MappingProxyType(
    {
        "cancelled": CallState.CANCELLED,
        "expired": CallState.EXPIRED,
        "outcome_unknown": CallState.OUTCOME_UNKNOWN,
    }
)


def state_of(status: Status, envelope: Mapping[str, Any] | None) -> CallState:
    """Return the state of a call with this stored status. `envelope` is its outcome: without one, the outcome is unknown."""
    if status == "pending":
        return CallState.INPUT_REQUIRED
    if status != "ended":
        return CallState.WORKING
    if envelope is None:
        return CallState.OUTCOME_UNKNOWN
    if envelope.get("status") == "ok":
        return CallState.COMPLETED
    error = envelope.get("error")
    code = error.get("code") if isinstance(error, Mapping) else ""
    return _BY_CODE.get(str(code), CallState.FAILED)
