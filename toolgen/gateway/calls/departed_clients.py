"""Clients that disconnected before they were answered, shared by all workers, for requests that are cancelled at another worker."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Sequence

from toolgen.core.background import FaultLog
from toolgen.core.canonical import canonical
from toolgen.core.clock import Clock
from toolgen.core.errors import CanonicalError, StateError, StateUnavailableError
from toolgen.state.departures import Departure, Departures

__all__ = ["DepartedClients"]

_logger = logging.getLogger(__name__)
Listener = Callable[[Callable[[Sequence[object]], str], frozenset[str]], None]


class DepartedClients:
    """Notes of one worker about clients that disconnected, shared with the other workers through `notes`.

    `secret` keys the digests in the notes, the same in every worker. `alone`: there is no other worker, so no notes are written.
    """

    def __init__(self, notes: Departures, *, secret: Callable[[], bytes], clock: Clock, alone: bool) -> None:
        self._notes = notes
        self._secret = secret
        self._clock = clock
        self.alone = alone
        self._listeners: list[Listener] = []
        self.trouble = FaultLog(clock, "notes about disconnected clients are not read")

    def listen(self, listener: Listener) -> None:
        """Register a front end for requests that were cancelled at another worker: it gets a function that makes digests, and the
        digests."""
        self._listeners.append(listener)

    async def cancel(self, request: Sequence[object]) -> None:
        """Notify the other workers that a request was cancelled that is not in flight here."""
        if not self.alone:
            await self._add(Departure(kind="cancelled", key=self.digest(request), at=self._clock.now()))

    def digest(self, named: Sequence[object]) -> str:
        """Return the keyed digest of the subject of a note. Raises `CanonicalError`."""
        return hmac.new(self._secret(), b"departed client" + canonical(list(named)), "sha256").hexdigest()

    async def hear(self) -> None:
        """Read the notes of the other workers. Raises nothing: an unreadable note is read later."""
        try:
            news = await self._notes.news()
        except StateError as error:
            self.trouble.say(str(error), passing=isinstance(error, StateUnavailableError))
            return
        self.trouble.clear()
        cancelled = frozenset(note.key for note in news if note.kind == "cancelled")
        if cancelled:
            for listener in self._listeners:
                listener(self.digest, cancelled)

    async def close(self) -> None:
        """Close open connections."""
        await self._notes.close()

    async def _add(self, note: Departure) -> None:
        try:
            await self._notes.add(note)
        except (StateError, CanonicalError) as error:
            _logger.warning("other workers were not notified of a disconnected client: %s", error)
