"""Exceptions of toolgen. A caller's mistake is a `Result`, and a fault of a description is a `Problem`.

ToolgenError                 a fault that a person can correct: text, place, correction
├── ConfigError              toolgen.yaml or the command line
├── PolicyError              a file below policies/
├── DescriptionError         a description that cannot be read at all
├── ManifestError            generated/ is missing, broken or was edited
├── SecretError              a secret reference that cannot be resolved
├── CanonicalError           a value with no canonical JSON form
├── CallError                an unsuccessful call whose data was requested
├── AuditError               the audit log cannot be written or read
└── StateError               state that outlives a call cannot be stored or read
    └── StateUnavailableError    not now: Redis is unreachable, a file is locked, the disk is full
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolgen.core.error_codes import CallStatus, ErrorCode

__all__ = [
    "AuditError",
    "CallError",
    "CanonicalError",
    "ConfigError",
    "DescriptionError",
    "ManifestError",
    "PolicyError",
    "SecretError",
    "StateError",
    "StateUnavailableError",
    "ToolgenError",
    "connection_failure",
    "distrust_advice",
    "place_of",
]

_UNKNOWN_AUTHORITY = "set SSL_CERT_FILE to a PEM file with the authority that signed it"
_MORE_THAN_AN_AUTHORITY = (
    ("mismatch", "use a name that the certificate is for, or have it made for this one"),
    ("expired", "have a new certificate made, or set the clock of this machine"),
    ("not yet valid", "set the clock of this machine, or that of who made the certificate"),
    *(
        (
            said,
            "issue it and its authority again with key usage and key identifiers (RFC 5280): Python 3.13 requires them",
        )
        for said in ("Key Identifier", "key usage", "Basic Constraints", "non zero-length")
    ),
)

_MAX_FRAMES = 8


class ToolgenError(Exception):
    """Fault that a person can correct.

    `message` says what happened, `where` names the file and line or the JSON pointer, `suggestion` what to do. None of them ever contains
    a secret, because they are printed, logged and shown to agents.
    """

    code = "internal"

    def __init__(self, message: str, *, where: str = "", suggestion: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.suggestion = suggestion

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.suggestion})" if self.suggestion else text


class ConfigError(ToolgenError):
    """Fault of toolgen.yaml or of the command line."""

    code = "config"


class PolicyError(ToolgenError):
    """Policy file that is invalid, or that names something that does not exist."""

    code = "policy"


class DescriptionError(ToolgenError):
    """Description that cannot be read at all; a fault in one operation is a `Problem` instead."""

    code = "description"


class ManifestError(ToolgenError):
    """Generated manifest that is missing, broken, edited by hand or stale."""

    code = "manifest"


class SecretError(ToolgenError):
    """Secret reference that cannot be resolved; the text names the reference, never a value."""

    code: ErrorCode = "secret_unavailable"


class CanonicalError(ToolgenError):
    """Value without a canonical JSON form (NaN, a key that is not a string, an integer beyond 2**53)."""

    code = "canonical"


class CallError(ToolgenError):
    """Unsuccessful call, raised by `Envelope.unwrap`.

    `status` is that of the envelope: error, refused, pending or cancelled. `code` is one of docs/reference/errors.md.
    `retry_after_s` is the wait before another try.
    """

    def __init__(
        self,
        message: str,
        *,
        status: CallStatus,
        code: ErrorCode,
        tool: str,
        call_id: str,
        suggestion: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, where=tool, suggestion=suggestion)
        self.status: CallStatus = status
        self.code: ErrorCode = code
        self.call_id = call_id
        self.retry_after_s = retry_after_s


class AuditError(ToolgenError):
    """Audit log that cannot be written, or whose content is invalid."""

    code = "audit_unavailable"


class StateError(ToolgenError):
    """State that outlives a call (waiting calls, pauses) and cannot be read or written."""


class StateUnavailableError(StateError):
    """Store that cannot be used now: Redis is unreachable, a file is locked or unreadable, the disk is full. It may work later."""

    code = "upstream_unavailable"
    unconfirmed = False
    """True if the request was sent and not answered: the store may have executed it."""


def distrust_advice(reason: str) -> str:
    """Return the advice for a server certificate that was not accepted, by the message of OpenSSL or rustls."""
    return next((told for said, told in _MORE_THAN_AN_AUTHORITY if said.lower() in reason.lower()), _UNKNOWN_AUTHORITY)


def connection_failure(error: BaseException) -> tuple[str, str]:
    """Return the reason why a server was not reached, and the advice. The text of an exception is not used, because it may quote sent data.

    The causes of the exception are checked too, because libraries wrap the system's own errors.
    """
    import os  # noqa: PLC0415
    import socket  # noqa: PLC0415 - both are had where there is a connection, and every command imports this module
    import ssl  # noqa: PLC0415

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            said = cause.verify_message
            return f"its certificate was not accepted: {said}", distrust_advice(said)
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason or 'no reason was given'}", "check that this port speaks TLS"
        if isinstance(cause, socket.gaierror):
            return "its name was not found", "check the name"
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower(), "check the URL and the network"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__, "check the URL and the network"


def place_of(error: BaseException, depth: int = 0) -> str:
    """Return the type of an exception and the lines it came through, the raising one first, for a log.

    The texts of the exception and of its causes are left out, because they may quote a value.
    """
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}")
        trace = trace.tb_next
    lines = " < ".join(frames[: -_MAX_FRAMES - 1 : -1]) or "?"
    inner = error.exceptions[:1] if isinstance(error, BaseExceptionGroup) else ()
    cause = next((one for one in (*inner, error.__cause__) if one is not None), None)
    # Exceptions may be causes of one another.
    below = f", from {place_of(cause, depth + 1)}" if cause is not None and depth < _MAX_FRAMES else ""
    return f"{type(error).__name__} at {lines}{below}"
