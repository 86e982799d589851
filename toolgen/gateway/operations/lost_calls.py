"""Errors of calls whose worker, gateway or state was lost: what their callers are told."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from toolgen.model.result import Error, Outcome
from toolgen.state.invocations import Invocation

__all__ = ["CLOSED", "NOT_BEGUN", "broken", "forgotten", "lost", "on_record", "orphaned"]

NOT_BEGUN = frozenset({"paused", "rate_limited", "audit_unavailable", "upstream_unavailable"})
"""Codes with which an approved call may be refused before anything happened: it stays approved, and is tried again."""

CLOSED: Mapping[str, Outcome] = MappingProxyType(
    {"approval_denied": "refused", "expired": "refused", "cancelled": "cancelled", "outcome_unknown": "error"}
)
"""The outcome of a call that was closed with one of these codes."""


def lost(known: Invocation) -> Error:
    """Error of a call whose worker is gone: a call that only reads has changed nothing."""
    if known.effect == "read":
        message = "the gateway stopped while it carried this call out"
        return Error(code="cancelled", message=message, suggestion="make the call again", rule=known.rule)
    return Error(
        code="outcome_unknown",
        message="the gateway stopped while it carried this call out, and nobody knows how far it came",
        suggestion="look at what it was to change before making it again",
        rule=known.rule,
    )


def broken(known: Invocation) -> Error:
    """Error of a call that cannot be looked after."""
    if known.status == "running":
        return lost(known)
    return Error(
        code="expired",
        message="what the gateway kept of this call cannot be used, so it was not carried out",
        suggestion="make it again if it is still wanted",
        rule=known.rule,
    )


def on_record(known: Invocation) -> Error:
    """Error of a call that was begun, and of which the store has lost how it ended."""
    return Error(
        code="outcome_unknown",
        message="this call was begun, and how it ended was lost by the gateway's shared state; the audit record has it",
        suggestion="do not make it again before you have looked at what it was to change, or asked who runs the gateway",
        rule=known.rule,
    )


def orphaned(known: Invocation, *, begun: bool) -> Error:
    """Error of a call whose gateway is gone."""
    message = "the gateway that took this call on is gone"
    if begun:
        return Error(
            code="outcome_unknown",
            message=f"{message}, and nobody knows how far the call came",
            suggestion="look at what it was to change before making it again",
            rule=known.rule,
        )
    return Error(
        code="expired",
        message=f"{message}, and nobody answered for the call in time",
        suggestion="look at what it was to change before making it again",
        rule=known.rule,
    )


def forgotten(known: Invocation) -> Error:
    """Error of a call that waited, and of which the store has lost how far it had come. It was not carried out."""
    return Error(
        code="expired",
        message="the gateway's shared state was lost while this call waited, so it was not carried out",
        suggestion="make it again if it is still wanted",
        rule=known.rule,
    )
