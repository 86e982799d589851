"""What runs the functions of a project: threads, an event loop, and the time that each call has until the gateway leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from toolgen.execute.base import FunctionCounts
from toolgen.execute.function_job import Crowded
from toolgen.execute.function_loop import FunctionLoop, Watch
from toolgen.execute.function_threads import FunctionThreads, Shares
from toolgen.signatures import Offer

__all__ = ["FunctionRuntime"]

_MOST_LOST_LOOPS = 4
_WATCH = Watch()
_SHARES = Shares()


class FunctionRuntime:
    """One for all functions of a gateway: what they share, a client of a database say, lives on the one loop of them all."""

    def __init__(self, shares: Shares = _SHARES, watch: Watch = _WATCH) -> None:
        self._threads = FunctionThreads(shares)
        self._watch = watch
        self._loops: list[FunctionLoop] = []  # the last is in use, unless it is lost as all before it are
        self._blocked = 0
        self._waits: set[asyncio.Timeout] = set()
        self.leaving = False

    @property
    def counts(self) -> FunctionCounts:
        """What there is to say of it in numbers."""
        return FunctionCounts(
            threads=self._threads.running,
            threads_lost=self._threads.lost,
            threads_abandoned=self._threads.abandoned,
            loops_lost=sum(loop.lost and loop.alive for loop in self._loops),
            loops_blocked=self._blocked,
        )

    async def run(self, offer: Offer, arguments: dict[str, Any], *, who: str, name: str) -> Any:
        """What the function answers. Raises what it raises, `Escaped` for what is no error, and `Crowded`."""
        work = partial(offer.function, **arguments)
        if offer.is_async:
            return await self._loop_now().run(who, name, work)
        return await self._threads.run(who, name, work)

    async def apart(self, who: str, name: str, work: Callable[[], Any]) -> Any:
        """Any other work that may hang: the import of a module. Raises as `run` does."""
        return await self._threads.run(who, name, work)

    @contextlib.asynccontextmanager
    async def patience(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """The time that a call has; it is over at once when the gateway gives functions up."""
        async with asyncio.timeout(0 if self.leaving else seconds) as wait:
            self._waits.add(wait)
            try:
                yield wait
            finally:
                self._waits.discard(wait)

    def give_up(self) -> None:
        """Every call that waits for a function has waited long enough: the gateway leaves."""
        self.leaving = True
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        """Begins nothing more, and waits for nothing: what still runs ends with the process."""
        self._threads.close()
        loops, self._loops = self._loops, []
        for loop in loops:
            if not loop.lost:
                await loop.close()

    def _loop_now(self) -> FunctionLoop:
        self._loops = [loop for loop in self._loops if loop.alive]
        if not self._loops or self._loops[-1].lost:
            if len(self._loops) >= _MOST_LOST_LOOPS:
                raise Crowded
            self._loops.append(FunctionLoop(self._watch, self._found))
        return self._loops[-1]

    def _found(self) -> None:
        self._blocked += 1
