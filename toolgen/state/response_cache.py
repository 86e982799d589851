"""Answers that are kept for a while, in this process's memory and within bounds: so many bytes, the least used thrown out first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from toolgen.clock import Clock
from toolgen.model.result import Failed, Shape

__all__ = ["Flight", "Kept", "Results"]

CAPACITY = 32 * 1024 * 1024
_OVERHEAD = 600  # of an entry besides its body: measured, rounded up
_UNSHARED_S = 10.0
_MAX_UNSHARED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One answer: its data as JSON, and where in that the system's own stands; its `Link` header, when it was made, until when it is
    fresh, and until when better than none (monotonic times)."""

    body: bytes
    next_cursor: str
    link: str
    rows: int | None
    made: float
    fresh_until: float
    stale_until: float
    shape: Shape = Shape.WHOLE


class Flight:
    """A question that is being asked. `found` becomes what may be shared of its answer, or None; then each who waited asks for itself,
    as many at a time as there are `places`."""

    __slots__ = ("found", "places")

    def __init__(self, places: int) -> None:
        self.found: asyncio.Future[Kept | Failed | None] = asyncio.get_running_loop().create_future()
        self.places = asyncio.Semaphore(places)


class Results:
    """By a key that says all there is to say about who asked what, under which policy. `flights` are those being fetched now."""

    def __init__(self, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._writes: dict[str, int] = {}
        self._unshared: OrderedDict[bytes, float] = OrderedDict()
        self.flights: dict[bytes, Flight] = {}
        self.size = 0

    def get(self, key: bytes) -> Kept | None:
        """What is kept, also where it is stale."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.stale_until <= self._clock.monotonic():
            self.drop(key)
            return None
        self._kept.move_to_end(key)
        return kept

    def put(self, key: bytes, kept: Kept) -> None:
        """Keeps an answer, in place of others that were not asked for in longer; not one that would take an eighth of all the room."""
        self.drop(key)
        size = _size(kept)
        if size > self._capacity // 8:
            return
        self._kept[key] = kept
        self.size += size
        while self.size > self._capacity:
            self.drop(next(iter(self._kept)))

    def drop(self, key: bytes) -> None:
        """Forgets an answer."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.size -= _size(kept)

    def set_apart(self, key: bytes) -> None:
        """Says that answers to this may not be shared, so that for a while nobody waits for another's."""
        self._unshared[key] = self._clock.monotonic() + _UNSHARED_S
        self._unshared.move_to_end(key)
        if len(self._unshared) > _MAX_UNSHARED:
            self._unshared.popitem(last=False)

    def apart(self, key: bytes) -> bool:
        """Whether an answer to this could not be shared just now."""
        until = self._unshared.get(key)
        if until is None or self._clock.monotonic() < until:
            return until is not None
        del self._unshared[key]
        return False

    def writes(self, source: str) -> int:
        """How often the source was written to, as far as this process knows: what was read before is not what would be read now."""
        return self._writes.get(source, 0)

    def wrote(self, source: str) -> None:
        """Says that a write of the source begins, or ended."""
        self._writes[source] = self._writes.get(source, 0) + 1


def _size(kept: Kept) -> int:
    return len(kept.body) + len(kept.link) + _OVERHEAD
