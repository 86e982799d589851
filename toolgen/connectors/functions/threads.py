"""Threads for functions that are not async: a bounded share of them for each principal, and none that keeps the process from ending.

One call of a function that runs in another thread, and how what became of it comes back to the gateway's loop.
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
    """All threads that could run a function are taken by functions that have not ended."""


class Escaped(Exception):  # noqa: N818 - wraps what is no error of its own
    """A function raised what would end the thread, loop or task that it runs in: `SystemExit`, say."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


class Job:
    """Job that runs one function. `home` is the loop that waits for `done`; everything but `work` and `told` runs on that loop.

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

    def told(self, then: Callable[[Any, BaseException | None], None], value: Any, error: BaseException | None) -> bool:
        """From the function's thread: has `then` called at home. False where there is no home any more."""
        try:
            self.home.call_soon_threadsafe(then, value, error)
        except RuntimeError:  # the gateway's loop is closed
            return False
        return True

    def settle(self, value: Any, error: BaseException | None) -> None:
        """The call that waits for the job has its answer."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(value)
        else:
            self.done.set_exception(error)

    async def ending(self, seconds: float) -> None:
        """Waits a little for a function that was told to end, and whose first `done` was cancelled with the call that waited for it."""
        self.given_up = True
        self.done = self.home.create_future()
        try:
            await asyncio.wait([self.done], timeout=seconds)
        finally:
            if not self.done.cancel():
                with contextlib.suppress(BaseException):
                    self.done.result()  # nobody else asks how it ended


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
    """Number of functions that may run at once, and of those given up that may run besides: in all, and of one principal."""

    all: int = 64
    each: int = 16
    lost_all: int = 128
    lost_each: int = 32


_SHARES = Shares()


class FunctionThreads:
    """A thread cannot be stopped from outside. One whose call was given up is lost: another takes its place, within bounds, so that a
    function that hangs takes nothing from anybody else, and from its own callers only what it takes for good.

    What is counted is counted on the gateway's loop alone.
    """

    def __init__(self, shares: Shares = _SHARES) -> None:
        self._shares = shares
        self._idle: list[_Thread] = []
        self._taken = Counter[str]()
        self._lost = Counter[str]()
        self.abandoned = 0

    @property
    def running(self) -> int:
        """Number of functions that run in a thread whose call is waited for, or that nothing could replace."""
        return self._taken.total()

    @property
    def lost(self) -> int:
        """Number of functions that run on although nobody waits for them, with another thread in their place."""
        return self._lost.total()

    async def run(self, who: str, name: str, work: Callable[[], Any]) -> Any:
        """Run `work` in a thread of its own and return its result. Raises `ThreadsBusy` at once if this principal can get no thread."""
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
        """Ends the threads that wait for work. One that still runs ends with the process."""
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
    """In which of the counts a job stands."""

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
    """A daemon: what runs in it may run for ever, and the process ends all the same."""

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
            if not job.told(then, value, error):
                return
            del taken, job, then, value, error  # nothing of a call stays while there is no other


class LoopWatch(Struct, frozen=True, kw_only=True):
    """Interval at which the loop is asked for a sign of life, and times without one after which it is called blocked, and lost."""

    every_s: float = 0.5
    blocked_s: float = 1.0
    lost_s: float = 10.0
