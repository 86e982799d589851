"""Event loop in a thread of its own for functions that are async, and a watchdog over it: one that blocks it blocks no gateway."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from toolgen.connectors.functions.threads import Job, LoopWatch, telling

__all__ = ["FunctionLoop"]

_GRACE_S = 1.0
_MAX_DEPTH = 5
_CURRENT: contextvars.ContextVar[Job | None] = contextvars.ContextVar("toolgen_function", default=None)
_Outcome: TypeAlias = tuple[Any, BaseException | None]
_logger = logging.getLogger("toolgen.tools")


class FunctionLoop:
    """Runs coroutines of functions for the gateway's loop, which waits for them and watches while any is under way.

    A loop that is `lost` is given no more work. Where what blocks it ends after all, its calls run to their end, and then it stops.
    """

    def __init__(self, watch: LoopWatch, found: Callable[[], None]) -> None:
        self._watch_by = watch
        self._found = found
        self._jobs: dict[Job, asyncio.Task[_Outcome] | None] = {}
        # A served gateway's is uvloop's, which hands work over for less.
        self._loop = type(asyncio.get_running_loop())()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="toolgen-async-functions", daemon=True)
        self._thread.start()
        self._watching = False
        self._asked_at: float | None = None
        self._reported = False
        self.lost = False

    @property
    def alive(self) -> bool:
        """True while the loop's thread runs."""
        return self._thread.is_alive()

    async def run(self, who: str, name: str, work: Callable[[], Any]) -> Any:
        """Run the coroutine that `work` makes and return its result. When cancelled, wait up to a second for the function to clean up."""
        job = Job(name=name, who=who, work=work)
        self._jobs[job] = None
        if not self._watching:
            self._watching = True
            job.home.call_later(self._watch_by.every_s, self._watch, job.home)
        self._loop.call_soon_threadsafe(self._begin, job)
        try:
            return await job.done
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(self._cancel, job)
            await job.ending(_GRACE_S)
            raise

    async def close(self) -> None:
        """Stops it, and waits a second for that: tasks that functions have left running are cancelled."""
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join, _GRACE_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stop.wait()

    def _begin(self, job: Job) -> None:
        if job.given_up:  # while this loop was blocked
            job.told(partial(self._ended, job), None, None)
            return
        _CURRENT.set(job)  # this callback has a context of its own, which the task and all that it starts inherit
        task = self._jobs[job] = self._loop.create_task(_carried_out(job))
        task.add_done_callback(partial(self._tell, job))

    def _cancel(self, job: Job) -> None:
        if (task := self._jobs.get(job)) is not None:
            task.cancel()

    def _tell(self, job: Job, task: asyncio.Task[_Outcome]) -> None:
        value, error = (None, telling(asyncio.CancelledError())) if task.cancelled() else task.result()
        job.told(partial(self._ended, job), value, error)

    def _ended(self, job: Job, value: Any, error: BaseException | None) -> None:
        del self._jobs[job]
        job.settle(value, error)
        self._stop_if_lost()

    def _stop_if_lost(self) -> None:
        if self.lost and not self._jobs:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _watch(self, home: asyncio.AbstractEventLoop) -> None:
        """Asks for a sign of life, and looks whether the last one came. At home, and only while a function is under way."""
        now, asked = home.time(), self._asked_at
        if asked is None:
            if not self._jobs or self.lost:
                self._watching = False
                return
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._answer)
        elif now - asked >= self._watch_by.blocked_s and not self._reported:
            self._reported = True
            self._found()
            self._report(now - asked)
        elif now - asked >= self._watch_by.lost_s and not self.lost:
            self.lost = True
            _logger.error("async functions get a new event loop: the one they had is blocked for %.1f s", now - asked)
        home.call_later(self._watch_by.every_s, self._watch, home)

    def _answer(self) -> None:
        self._asked_at, self._reported = None, False

    def _report(self, seconds: float) -> None:
        _logger.error(
            "%s blocks the event loop of async functions since %.1f s; make it a function that is not async, or await. It is at:\n%s",
            self._blocking(),
            seconds,
            self._place(),
        )

    def _blocking(self) -> str:
        """The tool whose function, or a task of whose function, runs now; all that are under way where that cannot be told."""
        task = asyncio.current_task(self._loop)
        context = getattr(task, "get_context", None)  # Python 3.12
        job = next((job for job, own in list(self._jobs.items()) if own is task), None)
        if job is None and context is not None:
            job = context().get(_CURRENT)
        if job is not None:
            return f"the function of {job.name}"
        return f"one of the functions of {', '.join(sorted({one.name for one in list(self._jobs)}))}"

    def _place(self) -> str:
        """Current place of its thread: files and lines, without any value."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        if frame is None:
            return "  (it has just gone on)"
        stack = traceback.extract_stack(frame)[-_MAX_DEPTH:]
        return "\n".join(f"  {one.filename}:{one.lineno} in {one.name}" for one in stack)


async def _carried_out(job: Job) -> _Outcome:
    try:
        return await job.work(), None
    except BaseException as raised:  # noqa: BLE001 - whatever somebody's function may raise
        return None, telling(raised)
