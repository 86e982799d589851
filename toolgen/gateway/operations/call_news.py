"""Announcements of changes of kept calls, for those who wait for them in this worker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from weakref import WeakValueDictionary

__all__ = ["CallNews"]


class CallNews:
    """Announcements of changes. Take an event before you look at a call, so that no change is missed in between."""

    def __init__(self) -> None:
        self.next = asyncio.Event()
        """Set with the next announcement."""
        self._due = asyncio.Event()
        self._about: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    def of(self, call_id: str) -> asyncio.Event:
        """Return the event that is set with the next announcement that may be about this call."""
        found = self._about.get(call_id)
        if found is None:
            found = self._about[call_id] = asyncio.Event()
        return found

    def look(self) -> None:
        """Has what is due looked after at once."""
        self._due.set()

    def announce(self, call_id: str = "") -> None:
        """Wakes those who wait for a change: of one call, of any, or, without an id, of whichever call.

        Without one, what is due is looked after, too.
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
        """Returns when something was announced, or after `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.next.wait()

    async def due(self, within: float) -> None:
        """Returns when what is due is to be looked after at once, or after `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._due.wait()
        self._due.clear()
