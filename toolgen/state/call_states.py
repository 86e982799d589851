"""The states of a call that outlives its request, and which state may follow which. docs/explanation/waiting-calls.md draws them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

__all__ = ["ENDED", "FOLLOWS", "NEXT", "CallState", "Kind", "Status", "state_of"]

Status = Literal["pending", "approved", "running", "ended"]
"""How far a call is, as it is kept."""

Kind = Literal["approval", "device", "call", "workflow", "account"]
"""What a call waits for: a person's answer, its caller's device, for itself to end (it runs, and its caller did not wait), calls that it
made, or an account that the person links."""


class CallState(StrEnum):
    """State of a call, for everybody who asks."""

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
"""Nothing follows these."""

FOLLOWS: Mapping[CallState, frozenset[CallState]] = MappingProxyType(
    {
        CallState.WORKING: frozenset({CallState.WORKING, CallState.INPUT_REQUIRED, *ENDED}),
        CallState.INPUT_REQUIRED: frozenset({CallState.INPUT_REQUIRED, CallState.WORKING, *ENDED}),
        **dict.fromkeys(ENDED, frozenset()),
    }
)
"""What may follow each state."""

NEXT: Mapping[Status, frozenset[Status]] = MappingProxyType(
    {
        "pending": frozenset({"pending", "approved", "running", "ended"}),
        "approved": frozenset({"approved", "running", "ended"}),
        # Let go again before anything happened, or found to need somebody's answer.
        "running": frozenset({"running", "approved", "pending", "ended"}),
        "ended": frozenset(),
    }
)
"""The same for how a call is kept. Every place that keeps calls holds each change against it."""

_BY_CODE: Mapping[str, CallState] = MappingProxyType(
    {
        "cancelled": CallState.CANCELLED,
        "expired": CallState.EXPIRED,
        "outcome_unknown": CallState.OUTCOME_UNKNOWN,
    }
)


def state_of(status: Status, envelope: Mapping[str, Any] | None) -> CallState:
    """The state of a call that is kept so. `envelope` is how it ended: of one that nobody wrote down, the outcome is unknown."""
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
