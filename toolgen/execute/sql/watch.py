"""When a statement has to stop: its time is up. Asked by engines that look now and then, told to those that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from toolgen.clock import Clock

__all__ = ["Watch"]


@dataclass(slots=True, kw_only=True)
class Watch:
    """Shared by the thread that runs a statement and the one that looks at the clock.

    An engine that cannot be asked to look now and then leaves an `interrupt`, which is called when it must stop.
    """

    clock: Clock
    deadline: float  # of clock.monotonic()
    ended: bool = False
    _interrupt: Callable[[], None] | None = None
    _lock: Lock = field(default_factory=Lock)

    def stop(self) -> bool:
        """True when the statement must end now."""
        return self.clock.monotonic() >= self.deadline

    def interruptible(self, interrupt: Callable[[], None] | None) -> None:
        """From here on `nag` calls this; None: it must not be called any more."""
        with self._lock:
            self._interrupt = interrupt

    def nag(self) -> None:
        """Called now and then after the time is up: an interruption that comes between two steps of an engine is lost on it."""
        with self._lock:
            if self.stop() and self._interrupt is not None:
                self._interrupt()
