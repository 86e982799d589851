"""Timeout of a running statement. Engines that poll ask `stop`; for the others `nag` calls their interrupt."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from msgspec import Struct, field

from toolgen.core.clock import Clock

__all__ = ["StatementWatch"]


class StatementWatch(Struct, kw_only=True):
    """Shared by the thread that runs a statement and the one that looks at the clock.

    An engine that cannot be asked to look now and then leaves an `interrupt`, which is called when it must stop.
    """

    clock: Clock
    deadline: float  # of clock.monotonic()
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
