"""Durations of many calls for percentiles, with eight bytes for each."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

__all__ = ["SortedDurations", "percentile"]

_PART = 65_536


class SortedDurations:
    """Durations in sorted parts; new ones are added at the end."""

    __slots__ = ("_last", "_sorted")

    def __init__(self) -> None:
        self._sorted: list[array[float]] = []
        self._last = array("d")

    def add(self, duration: float) -> None:
        """Add a duration."""
        self._last.append(duration)
        if len(self._last) == _PART:
            self._sort()

    def take(self, others: SortedDurations) -> None:
        """Add all durations of another object. Full parts are shared."""
        self._sorted += others._sorted
        for duration in others._last:
            self.add(duration)

    def parts(self) -> Sequence[Sequence[float]]:
        """Return all durations in parts, each in ascending order."""
        return [*self._sorted, array("d", sorted(self._last))]

    def _sort(self) -> None:
        self._sorted.append(array("d", sorted(self._last)))
        self._last = array("d")


def percentile(parts: Sequence[Sequence[float]], percent: float) -> float | None:
    """Return the smallest duration that at least so many percent do not exceed (nearest rank); None without durations. `parts` are in
    ascending order."""
    count = sum(map(len, parts))
    return _at(parts, max(0, math.ceil(count * percent / 100) - 1)) if count else None


def _at(parts: Sequence[Sequence[float]], rank: int) -> float:
    """Return the value with this rank among all, by bisection at the middle of the longest part."""
    bounds = [(0, len(part)) for part in parts]
    while True:
        longest = max(range(len(parts)), key=lambda number: bounds[number][1] - bounds[number][0])
        low, high = bounds[longest]
        tried = parts[longest][(low + high) // 2]
        below = [bisect_left(part, tried, *bound) for part, bound in zip(parts, bounds, strict=True)]
        up_to = [bisect_right(part, tried, *bound) for part, bound in zip(parts, bounds, strict=True)]
        if rank < sum(below):
            bounds = [(begin, end) for (begin, _), end in zip(bounds, below, strict=True)]
        elif rank >= sum(up_to):
            bounds = [(begin, end) for begin, (_, end) in zip(up_to, bounds, strict=True)]
        else:
            return tried
