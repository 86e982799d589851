"""Tasks that have to run for as long as a gateway does: one that fails is told of, and starts again after a pause."""

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
    """Cancels tasks, and returns when all have ended: again each second, for a library may take one cancellation for a fault of its own."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCELLED_AGAIN_S)


async def each(*steps: Callable[[], Awaitable[object]]) -> None:
    """Takes all steps, one after the other, whatever one of them raises; raises that when all are taken."""
    async with contextlib.AsyncExitStack() as left:
        for step in reversed(steps):
            left.push_async_callback(step)


class Background:
    """The background tasks of one gateway, by what they do."""

    def __init__(self) -> None:
        self._faults: dict[str, str] = {}
        self.restarts: dict[str, int] = {}
        """How often each task that ever failed was started again."""

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Runs `work` in a task, again whenever it ends with an exception, until it returns or the task is cancelled."""
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
                self._faults[name] = f"{name} failed ({type(error).__name__}) and is started again"
                self.restarts[name] = self.restarts.get(name, 0) + 1
                await asyncio.sleep(pause)
                pause = min(_MAX_PAUSE_S, 2 * pause)
            else:
                return

    async def _watched(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """The work; a fault of an earlier run is over once this one has gone on for longer than the pause before it."""
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
        """Why it is wrong; "" while it is right."""
        self.lasting = ""
        """The same, where it will not pass by itself."""

    def say(self, fault: str, *, passing: bool) -> None:
        """Set the current fault. `passing` means that it may end by itself soon (a dependency is unreachable)."""
        self.fault, self.lasting = f"{self._what}: {fault}", "" if passing else f"{self._what}: {fault}"
        now = self._clock.monotonic()
        if now - self._told.get(fault, -_AGAIN_S) >= _AGAIN_S:
            self._told = {known: at for known, at in self._told.items() if now - at < _AGAIN_S} | {fault: now}
            _logger.error("%s", self.fault)

    def clear(self) -> None:
        """Clear the fault."""
        self.fault = self.lasting = ""


class SeldomLog:
    """Says what happens again and again once a minute, and how often it happened meanwhile. Its sentences are few: they name what is
    configured, and never who asked."""

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
        self._logger.warning("%s%s", sentence, f" (and {more} times since this was said last)" if more else "")
