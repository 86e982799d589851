"""Time, injected: nothing below asks the operating system for it directly."""

from __future__ import annotations

import time
from typing import Protocol

from msgspec import Struct, field

__all__ = ["Clock", "FixedClock", "SystemClock"]


class Clock(Protocol):
    """Both kinds of time a gateway needs."""

    def now(self) -> float:
        """Seconds since the epoch, UTC: for records and expiries."""

    def monotonic(self) -> float:
        """Seconds that never go back: for durations and buckets."""


class SystemClock(Struct, frozen=True):
    """The machine's clocks."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class FixedClock(Struct):
    """A clock for tests that stands still until it is told to move."""

    seconds: float = field(default=1_000_000_000.0)

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Moves both times forward."""
        self.seconds += seconds
