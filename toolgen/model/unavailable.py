"""Errors of shared state and of the record, as callers are told them: one place, so that every route and every stage says the same."""

from __future__ import annotations

from toolgen.core.errors import AuditError, StateError, StateUnavailableError
from toolgen.model.result import Error

__all__ = ["RETRY_AFTER_S", "fault_error", "unavailable"]

RETRY_AFTER_S = 1.0
"""How soon it is worth another try: a connection that is lost is made again after half a second."""


def fault_error(fault: StateError | AuditError, message: str = "") -> Error:
    """The error for a fault of the state or the record; `message` in place of the general one.

    Only what may pass by itself is told as unavailable. State that is there and cannot be used (changed, lost, sealed with another key) is
    a fault of the gateway: trying again does not help.
    """
    match fault:
        case AuditError():
            return Error(
                code="audit_unavailable",
                message=message or "the audit log cannot be written or read now, so nothing was changed",
                suggestion="if this goes on, tell the operator of the gateway, whose log says why",
                retry_after_s=RETRY_AFTER_S,
            )
        case StateUnavailableError():
            return unavailable(message or "what the gateway keeps cannot be read or written now")
        case _:
            return Error(code="internal", message="what is kept of this cannot be used; the operator's log says why")


def unavailable(message: str, *, rule: str = "") -> Error:
    """The error for state that cannot be used now."""
    return Error(
        code="upstream_unavailable",
        message=message,
        suggestion="if this goes on, tell the operator of the gateway",
        retry_after_s=RETRY_AFTER_S,
        rule=rule,
    )
