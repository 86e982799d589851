"""Errors for callers whose worker, gateway or stored state was lost."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from toolgen.model.result import Error, Outcome
from toolgen.state.invocations import Invocation

__all__ = ["CLOSED", "NOT_BEGUN", "broken", "forgotten", "lost", "on_record", "orphaned"]

NOT_BEGUN = frozenset({"paused", "rate_limited", "audit_unavailable", "upstream_unavailable"})
"""Codes of refusals before anything happened: an approved call with one of them stays approved, and is tried again."""

CLOSED: Mapping[str, Outcome] = MappingProxyType(
    {"approval_denied": "refused", "expired": "refused", "cancelled": "cancelled", "outcome_unknown": "error"}
)
"""Outcome of a call that was closed with one of these codes."""


def lost(known: Invocation) -> Error:
    """Return the error of a call whose worker is gone: a call that only reads has changed nothing."""
    if known.effect == "read":
        message = "the gateway stopped while it executed this call"
        return Error(code="cancelled", message=message, suggestion="make the call again", rule=known.rule)
    return Error(
        code="outcome_unknown",
        message="the gateway stopped while it executed this call, and its outcome is unknown",
        suggestion="check what it should have changed before you make it again",
        rule=known.rule,
    )


def broken(known: Invocation) -> Error:
    """Return the error of a call that cannot be processed."""
    if known.status == "running":
        return lost(known)
    return Error(
        code="expired",
        message="the stored data of this call cannot be used, so it was not executed",
        suggestion="make it again if you still need it",
        rule=known.rule,
    )


def on_record(known: Invocation) -> Error:
    """Return the error of a call that began, and whose outcome the store lost."""
    return Error(
        code="outcome_unknown",
        message="this call began, and its outcome was lost by the gateway's shared state; the audit log has it",
        suggestion="do not make it again before you have checked what it should have changed, or asked the operator of the gateway",
        rule=known.rule,
    )


def orphaned(known: Invocation, *, begun: bool) -> Error:
    """Return the error of a call whose gateway is gone."""
    message = "the gateway that accepted this call is gone"
    if begun:
        return Error(
            code="outcome_unknown",
            message=f"{message}, and the outcome of the call is unknown",
            suggestion="check what it should have changed before you make it again",
            rule=known.rule,
        )
    return Error(
        code="expired",
        message=f"{message}, and nobody answered for the call in time",
        suggestion="check what it should have changed before you make it again",
        rule=known.rule,
    )


def forgotten(known: Invocation) -> Error:
    """Return the error of a waiting call that the store does not have, or whose progress it lost. It was not executed."""
    return Error(
        code="expired",
        message="the gateway's shared state lost this call, or could not store it, while it waited, so it was not executed",
        suggestion="make it again if you still need it",
        rule=known.rule,
    )
