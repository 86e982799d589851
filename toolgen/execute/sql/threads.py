"""Engines that are libraries: a statement runs in a thread, watched from the loop, and stops when its time or its caller is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from toolgen.clock import Clock
from toolgen.execute.sql.answer import timed_out
from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success

__all__ = ["Threads", "Watch"]

_THREADS: Final = 4
_NAG_S: Final = 0.05
_GRACE_S: Final = 1.0  # beyond the statement's own time: for the thread to notice, or to get its turn


@dataclass(slots=True, kw_only=True)
class Watch:
    """Whether a statement should stop: its time is up, or nobody waits for it any more. Shared by two threads, written by one bit each.

    An engine that cannot be asked to look now and then leaves an `interrupt`, which is called once when it must stop.
    """

    clock: Clock
    deadline: float = float("inf")  # of clock.monotonic()
    expired: bool = False
    cancelled: bool = False
    _interrupt: Callable[[], None] | None = None
    _lock: Lock = field(default_factory=Lock)

    def start(self, seconds: float) -> None:
        """Begins the statement's time."""
        self.deadline = self.clock.monotonic() + seconds

    def stop(self) -> bool:
        """True when the statement must end now."""
        if self.clock.monotonic() >= self.deadline:
            self.expired = True
        return self.expired or self.cancelled

    def interruptible(self, interrupt: Callable[[], None] | None) -> None:
        """From here on `cancel` calls this; None: it must not be called any more."""
        with self._lock:
            self._interrupt = interrupt
            if self.cancelled and interrupt is not None:
                interrupt()

    def cancel(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self.cancelled = True
            if self._interrupt is not None:
                self._interrupt()

    def nag(self) -> None:
        """Called now and then after the time is up: an interruption that comes between two steps of an engine is lost on it."""
        with self._lock:
            if self.stop() and self._interrupt is not None:
                self._interrupt()


class Threads:
    """A few threads, each of which carries one statement from opening its connection to closing it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="sql")

    async def run(self, statement: Statement, work: Callable[[Watch], Success | Failed]) -> Success | Failed:
        """What `work` returns, or a timeout. However this ends, the watch then tells the thread to stop."""
        watch = Watch(clock=self._clock)
        loop = asyncio.get_running_loop()

        def nag() -> None:
            watch.nag()
            if not running.done():
                loop.call_later(_NAG_S, nag)

        def begin() -> Success | Failed:
            if watch.cancelled:
                return timed_out(statement)
            watch.start(statement.timeout_s)
            with contextlib.suppress(
                RuntimeError
            ):  # the loop is closed: then the watch is cancelled, or the clock ends it
                loop.call_soon_threadsafe(loop.call_later, statement.timeout_s, nag)
            return work(watch)

        running = self._threads.submit(begin)
        running.add_done_callback(_settled)
        try:
            async with asyncio.timeout(statement.timeout_s + _GRACE_S):
                return await asyncio.shield(asyncio.wrap_future(running))
        except TimeoutError:
            return timed_out(statement)
        finally:
            watch.cancel()

    def close(self, *, wait: bool) -> None:
        """Takes no more statements; those that run end at their own deadline."""
        self._threads.shutdown(wait=wait, cancel_futures=True)


def _settled(running: Future[Success | Failed]) -> None:
    """Looks at the outcome nobody may be waiting for any more, so that it is not reported as lost."""
    if not running.cancelled():
        running.exception()
