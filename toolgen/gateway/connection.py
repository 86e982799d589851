"""uvicorn's HTTP connection with two caps it lacks: how large a request's head may be, and how long it may take to arrive."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["CappedProtocol"]

LARGEST_HEAD = 65_536
SLOWEST_HEAD_S = 15.0


class CappedProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers are endless or endlessly slow; neither needs a credential to send."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head = 0
        self._waiting = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._start()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._waiting = False
        self._stop()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """A head is judged by what has come of it when a chunk ends inside it, so one chunk is the most ever held beyond the cap."""
        super().data_received(data)
        if self._waiting and not self.transport.is_closing():
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self.send_400_response("The request's headers are too large.")

    def _start(self) -> None:
        self._stop()
        self._head = 0
        self._waiting = True
        self._timer = self.loop.call_later(SLOWEST_HEAD_S, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
