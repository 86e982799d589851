"""Circuit breaker of one system behind a source. While the system is down, only one trial call at a time is sent to it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Literal

from toolgen.connectors.failure_settings import BreakerConfig, ResilienceConfig
from toolgen.connectors.health import SystemHealth
from toolgen.core.clock import Clock

__all__ = ["SAVED", "Breaker", "Ending", "System"]

SAVED = 10.0
"""Retries that a budget is worth at most."""

_MISSES = 3
_FIRST_S = 1.0
_PROBE_S = 1.0
_logger = logging.getLogger(__name__)


class Ending(Enum):
    """Result of one attempt as the circuit breaker counts it.

    The system answered, failed, refused the connection at once, or was not reached within the whole timeout. `SILENT` tells nothing about
    the system, for example because the request was never sent.
    """

    ANSWERED = auto()
    FAILED = auto()
    REFUSED = auto()
    UNREACHED = auto()
    SILENT = auto()


class Breaker:
    """Closed until the failures of a window are too many, no connection is made three times in a row, or one is waited for in vain
    while nobody else gets through; then open for a while; then half-open: one call is let through, and decides.

    What refuses connections at once costs nobody time, so it is asked again after a second, and then after ever longer.
    `changed` is told for how many seconds it opened while it was closed, and 0.0 when it has closed again.
    """

    __slots__ = (
        "_answered",
        "_calls",
        "_changed",
        "_clock",
        "_earlier",
        "_failures",
        "_misses",
        "_pause",
        "_probing",
        "_trip",
        "_turn",
        "_until",
        "epoch",
        "opened",
    )

    def __init__(
        self, trip: BreakerConfig, clock: Clock, changed: Callable[[float], None] = lambda seconds: None
    ) -> None:
        self._trip = trip
        self._clock = clock
        self._changed = changed
        self.opened = 0
        """How often it opened while it was closed."""
        self.epoch = 0  # what an attempt says counts only in the epoch it began in
        self._until: float | None = None  # until when it is open; None while it is closed
        self._probing = False
        self._pause = _FIRST_S
        self._answered = -1.0
        self._calls = self._failures = self._misses = 0
        self._earlier = (0, 0)
        self._turn = clock.monotonic() + trip.window_s / 2

    @property
    def state(self) -> Literal["closed", "half-open", "open"]:
        """State that the next call meets. In `half-open` the next call is let through as a trial, or a trial is in flight."""
        if self._until is None:
            return "closed"
        return "open" if self._until > self._clock.monotonic() else "half-open"

    def enter(self) -> float:
        """0.0 to a call that may go on, and must `leave`; otherwise in how many seconds another may be worth it."""
        if self._until is None:
            return 0.0
        left = self._until - self._clock.monotonic()
        if left > 0:
            return left
        if self._probing:
            return _PROBE_S
        self._probing = True
        self.epoch += 1
        return 0.0

    def retry_in_s(self) -> float:
        """Return the seconds until a call may succeed; 0.0 while the breaker is closed."""
        return 0.0 if self._until is None else max(self._until - self._clock.monotonic(), _PROBE_S)

    def leave(self, epoch: int, ending: Ending, began: float) -> None:
        """Takes in how an attempt ended that was let through in `epoch` and began at this monotonic time."""
        if epoch != self.epoch:
            return
        if self._until is not None:
            self._probed(ending)
            return
        if ending is Ending.SILENT:
            return
        now = self._clock.monotonic()
        if now >= self._turn:
            self._rotate(now)
        self._calls += 1
        if ending is Ending.ANSWERED:
            self._misses, self._answered = 0, now
            return
        self._failures += 1
        self._misses = self._misses + 1 if ending is not Ending.FAILED else 0
        if ending is Ending.UNREACHED and self._answered < began:
            self._open(self._trip.open_s)
        elif self._misses >= _MISSES:
            self._open(self._shorter())
        elif self._spoilt():
            self._open(self._trip.open_s)

    def _spoilt(self) -> bool:
        calls, failures = self._calls + self._earlier[0], self._failures + self._earlier[1]
        return calls >= self._trip.calls and failures >= calls * self._trip.failures

    def _probed(self, ending: Ending) -> None:
        self._probing = False
        match ending:
            case Ending.ANSWERED:
                self._until, self._pause = None, _FIRST_S
                self.epoch += 1
                self._answered = self._clock.monotonic()
                self._forget()
                self._changed(0.0)
            case Ending.REFUSED:
                self._pause *= 2
                self._open(self._shorter())
            case Ending.FAILED | Ending.UNREACHED:
                self._open(self._trip.open_s)
            case Ending.SILENT:
                pass  # it said nothing, so the next call finds out

    def _shorter(self) -> float:
        self._pause = min(self._pause, self._trip.open_s)
        return self._pause

    def _open(self, seconds: float) -> None:
        closed = self._until is None
        self._until = self._clock.monotonic() + seconds
        self.epoch += 1
        if closed:
            self.opened += 1
            self._changed(seconds)

    def _forget(self) -> None:
        self._calls = self._failures = self._misses = 0
        self._earlier = (0, 0)
        self._turn = self._clock.monotonic() + self._trip.window_s / 2

    def _rotate(self, now: float) -> None:
        """A window is two halves, so that what was just now is not forgotten at its end."""
        half = self._trip.window_s / 2
        self._earlier = (self._calls, self._failures) if now < self._turn + half else (0, 0)
        self._calls = self._failures = 0
        self._turn = now + half


class System:
    """State of one system: its circuit breaker, its concurrency limit, its retry budget and the counts of its attempts."""

    __slots__ = (
        "answered",
        "breaker",
        "crowded",
        "failed",
        "free",
        "held",
        "name",
        "places",
        "retries",
        "said",
        "tokens",
        "unreachable",
        "waiting",
    )

    def __init__(self, name: str, source: str, resilience: ResilienceConfig, clock: Clock) -> None:
        self.name, self.said = name, f"{source}: {name}" if source else name
        self.breaker = None if resilience.breaker is None else Breaker(resilience.breaker, clock, self._told)
        self.free = self.places = resilience.concurrency
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.tokens = SAVED
        self.answered = self.failed = self.unreachable = self.retries = self.held = self.crowded = 0

    def health(self) -> SystemHealth:
        breaker = self.breaker
        return SystemHealth(
            system=self.name,
            breaker="none" if breaker is None else breaker.state,
            answered=self.answered,
            failed=self.failed,
            unreachable=self.unreachable,
            retries=self.retries,
            held=self.held,
            crowded=self.crowded,
            opened=0 if breaker is None else breaker.opened,
            in_flight=self.places - self.free,
            waiting=len(self.waiting),
            retry_in_s=0.0 if breaker is None else breaker.retry_in_s(),
        )

    def _told(self, seconds: float) -> None:
        """A breaker that opens is said once, and not each time that a call which is let through finds the system as it was."""
        if seconds:
            _logger.warning(
                "%s failed too often: its breaker is open, and nothing is sent for %g s or until it answers",
                self.said,
                seconds,
            )
        else:
            _logger.warning("%s answers again: its breaker is closed", self.said)
