"""Background tasks that run as long as a gateway: a failure is reported, and the task starts again after a pause."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import place_of

__all__ = ["Background", "FaultLog", "SeldomLog", "cancel", "each"]

_logger = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 30.0
_STABLE_S = 60.0
_AGAIN_S = 60.0
_CANCELLED_AGAIN_S = 1.0


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and return when all have ended, whatever they raise then. It is repeated each second, because a library may lose a
    cancellation: `asyncio.wait_for` of Python 3.11 does if its own task has just ended.
    """
    left = running = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCELLED_AGAIN_S)
    for task in running:
        if not task.cancelled():
            task.exception()  # so that the event loop does not report it as unread


async def each(*steps: Callable[[], Awaitable[object]]) -> None:
    """Take all steps, one after the other, even if one raises; raise the exceptions at the end."""
    async with contextlib.AsyncExitStack() as left:
        for step in reversed(steps):
            left.push_async_callback(step)


class Background:
    """Background tasks of one gateway, by their purposes."""

    def __init__(self) -> None:
        self._faults: dict[str, str] = {}
        self.restarts: dict[str, int] = {}
        """Number of restarts of each task that ever failed."""

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `work` in a task, again whenever it ends with an exception, until it returns or the task is cancelled."""
        return asyncio.create_task(self._run(name, work), name=name)

    def faults(self) -> tuple[str, ...]:
        """Return the faults of tasks that do not run properly now, as sentences."""
        return tuple(self._faults.values())

    async def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE_S
        while True:
            began = loop.time()
            try:
                await self._watched(name, work)
            except Exception as error:  # noqa: BLE001 - whatever it is, what the task does has to go on
                if loop.time() - began > _STABLE_S:
                    pause = _FIRST_PAUSE_S
                _logger.error("%s failed and starts again in %g s: %s", name, pause, place_of(error))  # noqa: TRY400
                self._faults[name] = f"{name} failed ({type(error).__name__}) and is restarted"
                self.restarts[name] = self.restarts.get(name, 0) + 1
                await asyncio.sleep(pause)
                pause = min(_MAX_PAUSE_S, 2 * pause)
            else:
                return

    async def _watched(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work; a fault of an earlier run is cleared once this run lasts longer than the pause before it."""
        timer = asyncio.get_running_loop().call_later(2 * _FIRST_PAUSE_S, self._faults.pop, name, None)
        try:
            await work()
            self._faults.pop(name, None)
        finally:
            timer.cancel()


class FaultLog:
    """Current fault of one component. The same sentence is logged at most once a minute."""

    def __init__(self, clock: Clock, what: str) -> None:
        self._clock = clock
        self._what = what
        self._told: dict[str, float] = {}
        self.fault = ""
        """Text of the fault; "" if there is none."""
        self.lasting = ""
        """Text of the fault, if it will not end without intervention."""

    def say(self, fault: str, *, passing: bool) -> None:
        """Set the current fault. `passing` means that it may end without intervention (a dependency is unreachable)."""
        self.fault, self.lasting = f"{self._what}: {fault}", "" if passing else f"{self._what}: {fault}"
        now = self._clock.monotonic()
        if now - self._told.get(fault, -_AGAIN_S) >= _AGAIN_S:
            self._told = {known: at for known, at in self._told.items() if now - at < _AGAIN_S} | {fault: now}
            _logger.error("%s", self.fault)

    def clear(self) -> None:
        """Clear the fault."""
        self.fault = self.lasting = ""


class SeldomLog:
    """Log of repeated events: a sentence at most once a minute, with the number of its repetitions since. Its sentences are few: they name
    configured things, and never a caller.
    """

    def __init__(self, logger: logging.Logger, clock: Clock | None = None) -> None:
        self._logger = logger
        self._clock = clock or SystemClock()
        self._told: dict[str, tuple[float, int]] = {}

    def say(self, sentence: str) -> None:
        """Log a sentence, at most once a minute."""
        now = self._clock.monotonic()
        at, more = self._told.get(sentence, (-_AGAIN_S, 0))
        if now - at < _AGAIN_S:
            self._told[sentence] = (at, more + 1)
            return
        self._told[sentence] = (now, 0)
        self._logger.warning("%s%s", sentence, f" (and {more} times since the last message)" if more else "")
