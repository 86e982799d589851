"""Notifications of changes of stored calls, for waiters in this worker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from weakref import WeakValueDictionary

__all__ = ["CallNews"]


class CallNews:
    """Notifications of changes. Take an event before you read a call, so that no change in between is missed."""

    def __init__(self) -> None:
        self.next = asyncio.Event()
        """Event that is set with the next notification."""
        self._due = asyncio.Event()
        self._about: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    def of(self, call_id: str) -> asyncio.Event:
        """Return the event that is set with the next notification that may be about this call."""
        found = self._about.get(call_id)
        if found is None:
            found = self._about[call_id] = asyncio.Event()
        return found

    def look(self) -> None:
        """Trigger the processing of due calls at once."""
        self._due.set()

    def announce(self, call_id: str = "") -> None:
        """Wake waiters for a change: of one call, of any call, or, without an id, of every call.

        Without an id, due calls are also processed.
        """
        news, self.next = self.next, asyncio.Event()
        news.set()
        for about in [self._about.pop(call_id, None)] if call_id else [*self._about.values()]:
            if about is not None:
                about.set()
        if not call_id:
            self._about.clear()
            self.look()

    async def changed(self, within: float) -> None:
        """Return after a notification, or after `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.next.wait()

    async def due(self, within: float) -> None:
        """Return when due calls have to be processed at once, or after `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._due.wait()
        self._due.clear()
