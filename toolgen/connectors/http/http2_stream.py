"""State of one request on an HTTP/2 connection, and how its answer is read."""

from __future__ import annotations

import asyncio
import math

from toolgen.connectors.http.http2_frames import STREAM_WINDOW, ReplyHead
from toolgen.connectors.http.reply import BodyListener, Sink

__all__ = ["Reading", "Stream"]


class Reading:
    """State of reading the answer of one request."""

    __slots__ = ("limit", "listener", "method", "places", "sink", "until")

    def __init__(
        self,
        method: str,
        limit: int,
        places: asyncio.Semaphore,
        until: float = math.inf,
        listener: BodyListener | None = None,
        sink: Sink | None = None,
    ) -> None:
        self.method = method
        self.limit = limit
        self.places = places
        self.until = until
        self.listener = listener
        self.sink = sink


class Stream:
    """State of one request."""

    __slots__ = (
        "chunks",
        "ended",
        "failure",
        "head",
        "heard",
        "identifier",
        "opened",
        "received",
        "room",
        "sendable",
        "sent",
        "timer",
        "until",
        "waiter",
        "waits",
        "window",
    )

    def __init__(self, identifier: int, window: int, now: float, until: float) -> None:
        self.identifier = identifier
        self.window = window  # bytes that the server accepts
        self.room = STREAM_WINDOW  # bytes that the server may send
        self.received = 0
        self.opened = self.heard = now
        self.until = until
        self.head: ReplyHead | None = None
        self.chunks: list[bytes] = []
        self.ended = self.sent = self.waits = False
        self.failure: Exception | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.sendable: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def fail(self, failure: Exception) -> None:
        """End the stream, unless it has ended."""
        if not self.ended and self.failure is None:
            self.failure = failure
        self.wake()

    def wake(self) -> None:
        """Wake waiters for news of the stream."""
        for waiter in (self.waiter, self.sendable):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    @property
    def over(self) -> bool:
        return self.ended or self.failure is not None
