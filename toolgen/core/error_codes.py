"""Codes of errors, for type checkers: docs/reference/errors.md explains each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

__all__ = ["CallStatus", "ErrorCode", "KnownCode"]

CallStatus: TypeAlias = Literal["ok", "error", "refused", "pending", "cancelled"]
"""Outcome of a call, or that it waits."""

KnownCode: TypeAlias = Literal[
    "unknown_tool",
    "validation",
    "forbidden",
    "rate_limited",
    "turn_limit",
    "sql_refused",
    "sql_failed",
    "egress_refused",
    "approval_required",
    "deferred",
    "authorization_required",
    "approval_denied",
    "cancelled",
    "expired",
    "upstream_error",
    "rejected",
    "upstream_timeout",
    "upstream_unavailable",
    "response_too_large",
    "not_found",
    "outcome_unknown",
    "handler_error",
    "middleware_failed",
    "outside_catalog",
    "result_withheld",
    "code_failed",
    "step_failed",
    "internal",
    "paused",
    "secret_unavailable",
    "audit_unavailable",
    "bad_request",
    "unauthenticated",
    "identity_unavailable",
    "conflict",
    "overloaded",
    "input_required",
]
"""Code of an error: of an unsuccessful call, or of an invalid request."""

# Stored data may come from another version, so no code is refused at run time.
if TYPE_CHECKING:
    ErrorCode: TypeAlias = KnownCode
else:
    ErrorCode = str
