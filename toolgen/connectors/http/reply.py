"""Raw HTTP response, and the errors of a request without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from toolgen.core.error_codes import ErrorCode
from toolgen.model.secret import Unprinted

__all__ = ["BodyListener", "BrokenError", "ProxyError", "RawResponse", "Sink", "TimedOutError", "UnsentError"]


class UnsentError(Exception):
    """Raised if no connection was made, so nothing was sent. `reason` is the system's message; `late`: it timed out, `distrusted`: the
    server's certificate was not accepted. `code` is that of the call that fails."""

    def __init__(
        self, reason: str, *, late: bool = False, distrusted: bool = False, code: ErrorCode = "upstream_unavailable"
    ) -> None:
        super().__init__(reason)
        self.code: ErrorCode = code
        self.reason = reason
        self.late = late
        self.distrusted = distrusted


class ProxyError(UnsentError):
    """No connection was made, because of the proxy of the policy. `reason` is a sentence about it."""


class BrokenError(Exception):
    """Raised if the connection ended, or invalid data arrived, before a complete answer. The request may have been executed."""


class TimedOutError(Exception):
    """Raised if no data arrived for too long, or the answer was not complete in time. The request may have been executed."""


class RawResponse(Unprinted, frozen=True, kw_only=True):
    """Raw answer. Of a repeated header the first value counts; names are in lower case. `truncated`: the body continues."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool


class BodyListener(Protocol):
    """Listener for a body while it is read, for answers that may be complete before their body ends."""

    def wants(self, headers: Mapping[str, str]) -> bool:
        """Return True if the listener wants the body of a response with these headers."""

    def enough(self, data: bytes) -> bool:
        """Receive the next bytes; returns True if no more are needed."""


class Sink(Protocol):
    """Receiver of the body of an answer in parts, if it is a long file.

    A protocol, because its implementation, a download, imports the HTTP client.
    """

    @property
    def after(self) -> int:
        """Return the size from which a body is long."""

    @property
    def most(self) -> int:
        """Return the maximum size."""

    def wants(self, status: int, headers: Mapping[str, str]) -> bool:
        """Return True if the response with this head may be a file."""

    def begin(self, body: bytes) -> bool:
        """Return True if the sink takes the body, judged by its first bytes. They are passed to `write` again."""

    async def write(self, data: bytes) -> bool:
        """Receive the next bytes; returns True if more are wanted."""
