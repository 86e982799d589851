"""Client channel: messages and questions of a running call to the client that waits for it."""

from __future__ import annotations

from typing import Protocol

from toolgen.model.schema import Json, JsonObject

__all__ = ["LOG_LEVELS", "ClientChannel", "ForwardingChannel", "InputNeeded", "Unasked"]

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages of RFC 5424, the lowest first."""


class Unasked(Exception):  # noqa: N818 - a state of the client, not an error of ours
    """The client does not support this request, or the policy does not allow it."""


class InputNeeded(BaseException):
    """The call cannot continue before its caller has answered. It is then made again, with the answer.

    It is no `Exception`, so that a function that catches every error does not catch a question.
    """


class ClientChannel(Protocol):
    """Channel to the client that waits for a call."""

    @property
    def capabilities(self) -> frozenset[str]:
        """Requests that the client supports: elicitation, sampling, roots."""

    @property
    def listens(self) -> bool:
        """True if the client wants progress notifications."""

    def disconnected(self) -> bool:
        """Return True if the client has disconnected."""

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Report the progress of the call. It costs nothing if the client did not ask for progress."""

    def partial(self, data: Json) -> None:
        """Send a part of the answer, if the client accepts parts before the complete answer."""

    def log(self, level: str, text: str) -> None:
        """Send a log message to a client that asked for messages of this level."""

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """Return the caller's answer to a request. Raises `Unasked` and `InputNeeded`."""


class ForwardingChannel:
    """Client channel that forwards everything to `line` and supports some of its `capabilities`. Subclasses check or drop messages."""

    __slots__ = ("_capabilities", "_line")

    def __init__(self, line: ClientChannel, capabilities: frozenset[str]) -> None:
        self._line, self._capabilities = line, capabilities

    @property
    def capabilities(self) -> frozenset[str]:
        return self._capabilities

    @property
    def listens(self) -> bool:
        return self._line.listens

    def disconnected(self) -> bool:
        return self._line.disconnected()

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._line.progress(done, total, message)

    def partial(self, data: Json) -> None:
        self._line.partial(data)

    def log(self, level: str, text: str) -> None:
        self._line.log(level, text)

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        return await self._line.ask(key, method, params)
