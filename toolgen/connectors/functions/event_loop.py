"""Event loop in a separate thread for async functions, with a watchdog: a function that blocks it does not block the gateway."""

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
    """Runner of coroutines of functions for the gateway's loop, which waits for them and watches the loop while any runs.

    A `lost` loop gets no more work. If the blocking function ends after all, the loop's calls run to their end, and then it stops.
    """

    def __init__(self, watch: LoopWatch, on_blocked: Callable[[], None]) -> None:
        self._watch_by = watch
        self._on_blocked = on_blocked
        self._jobs: dict[Job, asyncio.Task[_Outcome] | None] = {}
        # A served gateway uses uvloop, which hands work over faster.
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
        """Stop the loop, and wait a second for that: tasks that functions left running are cancelled."""
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join, _GRACE_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stop.wait()

    def _begin(self, job: Job) -> None:
        if job.given_up:  # while this loop was blocked
            job.notify_home(partial(self._ended, job), None, None)
            return
        _CURRENT.set(job)  # this callback has its own context, which the task and its children inherit
        task = self._jobs[job] = self._loop.create_task(_run_job(job))
        task.add_done_callback(partial(self._report_result, job))

    def _cancel(self, job: Job) -> None:
        if (task := self._jobs.get(job)) is not None:
            task.cancel()

    def _report_result(self, job: Job, task: asyncio.Task[_Outcome]) -> None:
        value, error = (None, telling(asyncio.CancelledError())) if task.cancelled() else task.result()
        job.notify_home(partial(self._ended, job), value, error)

    def _ended(self, job: Job, value: Any, error: BaseException | None) -> None:
        del self._jobs[job]
        job.settle(value, error)
        self._stop_if_lost()

    def _stop_if_lost(self) -> None:
        if self.lost and not self._jobs:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _watch(self, home: asyncio.AbstractEventLoop) -> None:
        """Send a ping, and check that the last one was answered. Runs on the gateway's loop, and only while a function runs."""
        now, asked = home.time(), self._asked_at
        if asked is None:
            if not self._jobs or self.lost:
                self._watching = False
                return
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._answer)
        elif now - asked >= self._watch_by.blocked_s and not self._reported:
            self._reported = True
            self._on_blocked()
            self._report(now - asked)
        elif now - asked >= self._watch_by.lost_s and not self.lost:
            self.lost = True
            _logger.error(
                "async functions get a new event loop: the previous one has been blocked for %.1f s", now - asked
            )
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
        """Return the tool whose function (or a task of it) runs now; all running ones if that is unknown."""
        task = asyncio.current_task(self._loop)
        context = getattr(task, "get_context", None)  # Python 3.12
        job = next((job for job, own in list(self._jobs.items()) if own is task), None)
        if job is None and context is not None:
            job = context().get(_CURRENT)
        if job is not None:
            return f"the function of {job.name}"
        return f"one of the functions of {', '.join(sorted({one.name for one in list(self._jobs)}))}"

    def _place(self) -> str:
        """Return the current place of its thread: files and lines, without any value."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        if frame is None:
            return "  (it has just continued)"
        stack = traceback.extract_stack(frame)[-_MAX_DEPTH:]
        return "\n".join(f"  {one.filename}:{one.lineno} in {one.name}" for one in stack)


async def _run_job(job: Job) -> _Outcome:
    try:
        return await job.work(), None
    except BaseException as raised:  # noqa: BLE001 - whatever somebody's function may raise
        return None, telling(raised)
