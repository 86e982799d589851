"""Raw HTTP response, and the errors of a request without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from toolgen.core.error_codes import ErrorCode
from toolgen.model.secret import Unprinted

__all__ = ["BodyListener", "BrokenError", "ProxyError", "RawResponse", "Sink", "TimedOutError", "UnsentError"]


class UnsentError(Exception):
    """No connection was made, so nothing was sent. `reason` is the system's word for it; `late` says that it was not refused but slow,
    `distrusted` that the server's certificate was not accepted. `code` is that of the call that fails for it."""

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
    """The connection ended, or what came is no answer, before there was a whole one. The request may have been carried out."""


class TimedOutError(Exception):
    """Nothing came for too long, or not the whole of it in time. The request may have been carried out."""


class RawResponse(Unprinted, frozen=True, kw_only=True):
    """An answer. Of a header that came more than once the first counts; names are in lower case. `truncated`: the body goes on."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool


class BodyListener(Protocol):
    """Hears a body while it is read, for answers that may be whole before their body ends."""

    def wants(self, headers: Mapping[str, str]) -> bool:
        """Return True if the listener wants the body of a response with these headers."""

    def enough(self, data: bytes) -> bool:
        """Is given the next bytes; whether nothing further is wanted."""


class Sink(Protocol):
    """Takes the body of an answer in parts, where it is a long file.

    A protocol, because its implementation, a download, imports the HTTP client.
    """

    @property
    def after(self) -> int:
        """From how many bytes on a body is long."""

    @property
    def most(self) -> int:
        """The most bytes that are taken."""

    def wants(self, status: int, headers: Mapping[str, str]) -> bool:
        """Return True if the response with this head may be a file."""

    def begin(self, body: bytes) -> bool:
        """Return True if the sink takes the body, judged by its first bytes. They are passed to `write` again."""

    async def write(self, data: bytes) -> bool:
        """Takes the next bytes; whether more are wanted."""
