"""Answers that are kept for a while, in this process's memory and within bounds: so many bytes, the least used thrown out first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from toolgen.clock import Clock
from toolgen.model.result import Failed

__all__ = ["Kept", "Results"]

CAPACITY = 32 * 1024 * 1024
_OVERHEAD = 600  # of an entry besides its body: measured, rounded up


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One answer: its data as JSON, its `Link` header, when it was made, until when it is fresh, and until when better than none
    (monotonic times)."""

    body: bytes
    next_cursor: str
    link: str
    rows: int | None
    made: float
    fresh_until: float
    stale_until: float


class Results:
    """By a key that says all there is to say about who asked what, under which policy. `flights` are those being fetched now."""

    def __init__(self, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._writes: dict[str, int] = {}
        self.flights: dict[bytes, asyncio.Future[Kept | Failed | None]] = {}
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

    def writes(self, source: str) -> int:
        """How often the source was written to, as far as this process knows: what was read before is not what would be read now."""
        return self._writes.get(source, 0)

    def wrote(self, source: str) -> None:
        """Says that a write of the source begins, or ended."""
        self._writes[source] = self._writes.get(source, 0) + 1


def _size(kept: Kept) -> int:
    return len(kept.body) + len(kept.link) + _OVERHEAD
