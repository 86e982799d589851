"""Clocks that are passed to their users, so that a test can set the time."""

from __future__ import annotations

import time
from typing import Protocol

from msgspec import Struct, field

__all__ = ["Clock", "FixedClock", "SystemClock"]


class Clock(Protocol):
    """Clock with both kinds of time that a gateway needs."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC: for records and expiries."""

    def monotonic(self) -> float:
        """Return monotonic seconds: for durations and buckets."""


class SystemClock(Struct, frozen=True):
    """The machine's clocks."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class FixedClock(Struct):
    """Clock for tests that changes only on request."""

    seconds: float = field(default=1_000_000_000.0)

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Move both times forward."""
        self.seconds += seconds
