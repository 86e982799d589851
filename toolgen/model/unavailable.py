"""Errors of shared state and of the audit log for callers: one module, so that every route and stage gives the same answer."""

from __future__ import annotations

from toolgen.core.errors import AuditError, StateError, StateUnavailableError
from toolgen.model.result import Error

__all__ = ["RETRY_AFTER_S", "fault_error", "unavailable"]

RETRY_AFTER_S = 1.0
"""Seconds until a retry is useful: a lost connection is reopened after half a second."""


def fault_error(fault: StateError | AuditError, message: str = "") -> Error:
    """Return the error for a fault of the state or the audit log; `message` replaces the general one.

    Only a temporary fault is reported as unavailable. Unusable state (changed, lost, encrypted with another key) is a fault of the gateway:
    a retry does not help.
    """
    match fault:
        case AuditError():
            return Error(
                code="audit_unavailable",
                message=message or "the audit log cannot be written or read now, so nothing was changed",
                suggestion="if this continues, tell the operator of the gateway, whose log says why",
                retry_after_s=RETRY_AFTER_S,
            )
        case StateUnavailableError():
            return unavailable(message or "the gateway's state cannot be read or written now")
        case _:
            return Error(
                code="internal", message="the stored state of this is unusable; the operator's log has the reason"
            )


def unavailable(message: str, *, rule: str = "") -> Error:
    """Return the error for state that cannot be used now."""
    return Error(
        code="upstream_unavailable",
        message=message,
        suggestion="if this continues, tell the operator of the gateway",
        retry_after_s=RETRY_AFTER_S,
        rule=rule,
    )
