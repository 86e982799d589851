"""The way back to the client that waits for a call: what a function may say or ask while it runs."""

from __future__ import annotations

from typing import Protocol

from toolgen.model.schema import Json, JsonObject

__all__ = ["LOG_LEVELS", "ClientChannel", "InputNeeded", "Unasked"]

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages, as RFC 5424 has them, from the least on."""


class Unasked(Exception):  # noqa: N818 - what a caller is, not a fault of ours
    """The caller cannot be asked this: it never said that it could answer, or the policy does not allow it."""


class InputNeeded(BaseException):
    """The call cannot go on before its caller has answered; it is then made again, with the answer.

    No `Exception`: a function that catches whatever went wrong must not take a question for an error.
    """


class ClientChannel(Protocol):
    """Channel to a caller while it waits for a call."""

    @property
    def capabilities(self) -> frozenset[str]:
        """Requests that the client supports: elicitation, sampling, roots."""

    @property
    def listens(self) -> bool:
        """True if the client wants progress notifications."""

    def disconnected(self) -> bool:
        """True if the client does not wait any more."""

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Says how far the call has come. Costs nothing where nobody asked to be told."""

    def partial(self, data: Json) -> None:
        """Gives a piece of the answer that is there already, where the caller can take one before the whole."""

    def log(self, level: str, text: str) -> None:
        """Send a log message to a client that asked for messages of this level."""

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """The caller's answer to a request. Raises `Unasked` and `InputNeeded`."""
