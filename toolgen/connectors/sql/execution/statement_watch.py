"""Timeout of a running statement. Engines that poll call `stop`; for the others `nag` calls their interrupt."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from msgspec import Struct, field

from toolgen.core.clock import Clock

__all__ = ["StatementWatch"]


class StatementWatch(Struct, kw_only=True):
    """Watch shared by the thread that runs a statement and the one that checks the time.

    An engine that cannot poll registers an `interrupt`, which is called when the statement must stop.
    """

    clock: Clock
    deadline: float  # time of clock.monotonic()
    _interrupt: Callable[[], None] | None = None
    _lock: Lock = field(default_factory=Lock)

    def stop(self) -> bool:
        """Return True when the statement must end now."""
        return self.clock.monotonic() >= self.deadline

    def interruptible(self, interrupt: Callable[[], None] | None) -> None:
        """Register the function that `nag` calls; None removes it."""
        with self._lock:
            self._interrupt = interrupt

    def nag(self) -> None:
        """Interrupt the engine; called repeatedly after the time is up, because an engine ignores an interruption between two steps."""
        with self._lock:
            if self.stop() and self._interrupt is not None:
                self._interrupt()
