"""Threads for functions that are not async: a bounded share of them for each principal, and none that keeps the process from ending."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from toolgen.execute.function_job import Crowded, Job, telling

__all__ = ["FunctionThreads", "Shares"]

_MOST_IDLE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How many functions may run at once, and how many that were given up may run besides: in all, and of one principal."""

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
        """How many functions run in a thread whose call is waited for, or that nothing could replace."""
        return self._taken.total()

    @property
    def lost(self) -> int:
        """How many run on although nobody waits for them, with another thread in their place."""
        return self._lost.total()

    async def run(self, who: str, name: str, work: Callable[[], Any]) -> Any:
        """What `work` comes to, in a thread of its own. Raises `Crowded` at once where there is none for this principal."""
        if self._taken[who] >= self._shares.each or self.running >= self._shares.all:
            raise Crowded
        job = Job(name=name, who=who, work=work)
        self._taken[who] += 1
        thread = self._idle.pop() if self._idle else _Thread()
        counts = _Place(self._taken)
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

    def _lose(self, job: Job, place: _Place) -> None:
        self.abandoned += 1
        if self._lost[job.who] < self._shares.lost_each and self.lost < self._shares.lost_all:
            place.move(job.who, self._lost)

    def _ended(self, thread: _Thread, job: Job, place: _Place, value: Any, error: BaseException | None) -> None:
        place.move(job.who, None)
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(thread)
        else:
            thread.end()
        job.settle(value, error)


class _Place:
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
