"""Threads for functions that are not async: a limited number for each principal, none of which prevents the process from ending.

The result of a job in another thread is returned to the gateway's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from msgspec import Struct

from toolgen.model.client_channel import InputNeeded

__all__ = ["Escaped", "FunctionThreads", "LoopWatch", "Shares", "ThreadsBusy", "telling"]


class ThreadsBusy(Exception):  # noqa: N818 - a state of things, as `Unasked` is
    """All threads for functions are in use."""


class Escaped(Exception):  # noqa: N818 - wraps what is no error of its own
    """Exception of a function that would end its thread, loop or task, such as `SystemExit`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


class Job:
    """Job that runs one function. `home` is the loop that waits for `done`; everything but `work` and `notify_home` runs on that loop.

    `given_up` is True if the call no longer waits for the job.
    """

    __slots__ = ("context", "done", "given_up", "home", "name", "who", "work")

    def __init__(self, *, name: str, who: str, work: Callable[[], Any]) -> None:
        self.name = name
        self.who = who
        self.work = work
        self.context = contextvars.copy_context()
        self.home = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self.home.create_future()
        self.given_up = False

    def notify_home(
        self, then: Callable[[Any, BaseException | None], None], value: Any, error: BaseException | None
    ) -> bool:
        """Call `then` on the home loop, from the function's thread. Return False if the loop is closed."""
        try:
            self.home.call_soon_threadsafe(then, value, error)
        except RuntimeError:  # the gateway's loop is closed
            return False
        return True

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Set the result for the call that waits for the job."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(value)
        else:
            self.done.set_exception(error)

    async def ending(self, seconds: float) -> None:
        """Wait a little for a function that was asked to end, after its first `done` was cancelled with its call."""
        self.given_up = True
        self.done = self.home.create_future()
        try:
            await asyncio.wait([self.done], timeout=seconds)
        finally:
            if not self.done.cancel():
                with contextlib.suppress(BaseException):
                    self.done.result()  # no other code reads its result


def telling(error: BaseException) -> BaseException:
    """Return the exception to raise in the caller's thread, in a form that ends only the call: exceptions that would end more, such as
    `StopIteration` or `SystemExit`, are wrapped in `Escaped`."""
    if isinstance(error, InputNeeded):
        return error
    if isinstance(error, BaseExceptionGroup) and error.subgroup(InputNeeded) is not None:
        return error
    if isinstance(error, StopIteration) or not isinstance(error, Exception):
        return Escaped(error)
    return error


class Shares(Struct, frozen=True, kw_only=True):
    """Maximum numbers of functions that run, and of abandoned ones whose thread was replaced: each in total and per principal."""

    all: int = 64
    each: int = 16
    lost_all: int = 128
    lost_each: int = 32


_SHARES = Shares()


class FunctionThreads:
    """Pool of threads for functions. A thread cannot be stopped from outside. A thread whose call was given up is lost: another replaces
    it, within limits, so that a hanging function takes no thread from other callers, and from its own ones only beyond the limits.

    The counts are changed only on the gateway's loop.
    """

    def __init__(self, shares: Shares = _SHARES) -> None:
        self._shares = shares
        self._idle: list[_Thread] = []
        self._taken = Counter[str]()
        self._lost = Counter[str]()
        self.abandoned = 0

    @property
    def running(self) -> int:
        """Number of functions whose call waits, or whose thread could not be replaced."""
        return self._taken.total()

    @property
    def lost(self) -> int:
        """Number of abandoned functions that still run, with another thread in their place."""
        return self._lost.total()

    async def run(self, who: str, name: str, work: Callable[[], Any]) -> Any:
        """Run `work` in a separate thread and return its result. Raises `ThreadsBusy` at once if no thread is free for this principal."""
        if self._taken[who] >= self._shares.each or self.running >= self._shares.all:
            raise ThreadsBusy
        job = Job(name=name, who=who, work=work)
        self._taken[who] += 1
        thread = self._idle.pop() if self._idle else _Thread()
        counts = _JobState(self._taken)
        thread.take(job, partial(self._ended, thread, job, counts))
        try:
            return await job.done
        except asyncio.CancelledError:
            if counts.taken is not None:
                self._lose(job, counts)
            raise

    def close(self) -> None:
        """End the idle threads. A running one ends with the process."""
        while self._idle:
            self._idle.pop().end()

    def _lose(self, job: Job, place: _JobState) -> None:
        self.abandoned += 1
        if self._lost[job.who] < self._shares.lost_each and self.lost < self._shares.lost_all:
            place.move(job.who, self._lost)

    def _ended(self, thread: _Thread, job: Job, place: _JobState, value: Any, error: BaseException | None) -> None:
        place.move(job.who, None)
        if len(self._idle) < self._shares.all:
            self._idle.append(thread)
        else:
            thread.end()
        job.settle(value, error)


class _JobState:
    """Membership of a job in the counts."""

    __slots__ = ("taken",)

    def __init__(self, taken: Counter[str]) -> None:
        self.taken: Counter[str] | None = taken

    def move(self, who: str, to: Counter[str] | None) -> None:
        if self.taken is not None:
            self.taken[who] -= 1
            if not self.taken[who]:
                del self.taken[who]
        self.taken = to
        if to is not None:
            to[who] += 1


class _Thread:
    """Daemon thread: its function may run for ever without preventing the process from ending."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Job, Callable[[Any, BaseException | None], None]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="toolgen-function", daemon=True).start()

    def take(self, job: Job, then: Callable[[Any, BaseException | None], None]) -> None:
        self._jobs.put((job, then))

    def end(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (taken := self._jobs.get()) is not None:
            job, then = taken
            value, error = None, None
            try:
                value = job.context.run(job.work)
            except BaseException as raised:  # noqa: BLE001 - whatever somebody's function may raise
                error = telling(raised)
            if not job.notify_home(then, value, error):
                return
            del taken, job, then, value, error  # drop references to the call while waiting for the next one


class LoopWatch(Struct, frozen=True, kw_only=True):
    """Interval of pings to the loop, and times without an answer after which it counts as blocked, and as lost."""

    every_s: float = 0.5
    blocked_s: float = 1.0
    lost_s: float = 10.0
