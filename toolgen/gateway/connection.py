"""uvicorn's HTTP connection with two caps it lacks, how large a request's head may be and how long it may take to arrive, and a word
for each request on whether its client is still there."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolgen.gateway.http import PRESENCE
from toolgen.pipeline.presence import Presence

__all__ = ["CappedProtocol"]

LARGEST_HEAD = 65_536
SLOWEST_HEAD_S = 15.0
_INTERIM = b"HTTP/1.1 1"


class _Corked:
    """A transport for one answer: its head waits for what comes behind it, so that both leave in one packet and one system call."""

    __slots__ = ("_head", "_transport", "_whole")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._whole = False

    def write(self, data: bytes) -> None:
        if self._whole or data.startswith(_INTERIM):
            self._transport.write(data)
        elif self._head:
            self._transport.write(self._head + data)
            self._whole = True
        else:
            self._head = data

    def flush(self) -> None:
        """Sends a head that nothing comes behind, as in the answer to HEAD."""
        if self._head and not self._whole:
            self._whole = True
            self._transport.write(self._head)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


class CappedProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers are endless or endlessly slow; neither needs a credential to send."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head = 0
        self._waiting = True
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._corks: deque[_Corked] = deque()
        self._unanswered: deque[Presence] = deque()  # in the order of their requests, which is that of the answers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        while self._unanswered:
            self._unanswered.popleft().leave()

    def on_message_begin(self) -> None:
        self._start()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._waiting = False
        presence = Presence()
        self._unanswered.append(presence)
        self.scope[PRESENCE] = presence  # type: ignore[literal-required]
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            cork = _Corked(self.transport)
            self._corks.append(cork)
            self.cycle.transport = cork  # type: ignore[assignment]

    def on_message_complete(self) -> None:
        super().on_message_complete()
        # A body that came faster than it was taken stops the reading, and nobody would see the client leave.
        if not self.pipeline:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        if self._unanswered:
            self._unanswered.popleft()
        if self._corks:
            self._corks.popleft().flush()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """A head is judged by what has come of it when a chunk ends inside it, so one chunk is the most ever held beyond the cap."""
        super().data_received(data)
        if self._waiting and not self.transport.is_closing():
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self.send_400_response("The request's headers are too large.")

    def _start(self) -> None:
        self._head = 0
        self._waiting = True
        self._due = self.loop.time() + SLOWEST_HEAD_S
        if self._timer is None:
            self._timer = self.loop.call_at(self._due, self._look)

    def _look(self) -> None:
        """Closes a connection whose head is overdue. One timer serves many heads: each only moves the time on, and costs no timer."""
        self._timer = None
        if not self._waiting or self.transport.is_closing():
            return
        if self.loop.time() >= self._due:
            self.transport.close()
        else:
            self._timer = self.loop.call_at(self._due, self._look)
