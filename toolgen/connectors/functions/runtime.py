"""Runtime of the functions of a project: threads, an event loop, and the time limits of calls until the gateway stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

from toolgen.connectors.executor import InnerCalls
from toolgen.connectors.functions.event_loop import FunctionLoop
from toolgen.connectors.functions.signature import FunctionTool
from toolgen.connectors.functions.threads import FunctionThreads, LoopWatch, Shares, ThreadsBusy
from toolgen.connectors.functions.work_folder import WorkFolders
from toolgen.connectors.health import FunctionCounts

__all__ = ["FunctionRuntime"]

_MAX_LOST_LOOPS = 4
_WATCH = LoopWatch()
_SHARES = Shares()


class FunctionRuntime:
    """Runtime for all functions of a gateway. All async functions run on one event loop and can share a database client, for example.

    In a gateway `inner` makes the calls of functions to other tools, and `resource_updated` is called with the URI of a changed resource.
    """

    def __init__(
        self,
        shares: Shares = _SHARES,
        watch: LoopWatch = _WATCH,
        folder: Path | None = None,
        inner: InnerCalls | None = None,
        resource_updated: Callable[[str], None] | None = None,
    ) -> None:
        self.folders = WorkFolders(folder)
        self.inner = inner
        self.resource_updated = resource_updated
        self._threads = FunctionThreads(shares)
        self._watch = watch
        self._loops: list[FunctionLoop] = []  # the last one is in use, unless it is lost like all before it
        self._blocked = 0
        self._waits: set[asyncio.Timeout] = set()
        self.leaving = False

    @property
    def counts(self) -> FunctionCounts:
        """Counts of threads and event loops."""
        return FunctionCounts(
            threads=self._threads.running,
            threads_lost=self._threads.lost,
            threads_abandoned=self._threads.abandoned,
            loops_lost=sum(loop.lost and loop.alive for loop in self._loops),
            loops_blocked=self._blocked,
        )

    async def run(self, offer: FunctionTool, arguments: dict[str, Any], *, who: str, name: str) -> Any:
        """Run the function and return its result.

        Raises the exceptions of the function, `Escaped` in place of an exception that is not an `Exception`, and `ThreadsBusy`.
        """
        work = partial(offer.function, **arguments)
        if offer.is_async:
            return await self._loop_now().run(who, name, work)
        return await self._threads.run(who, name, work)

    async def apart(self, who: str, name: str, work: Callable[[], Any]) -> Any:
        """Run other work that may hang: the import of a module. Raises as `run` does."""
        return await self._threads.run(who, name, work)

    @contextlib.asynccontextmanager
    async def time_limit(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Return the time limit of a call; it ends at once when the gateway gives functions up."""
        async with asyncio.timeout(0 if self.leaving else seconds) as wait:
            self._waits.add(wait)
            try:
                yield wait
            finally:
                self._waits.discard(wait)

    def give_up(self) -> None:
        """End the waiting of all calls for their functions, because the gateway stops."""
        self.leaving = True
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        """Start no more work, and wait for none: running functions end with the process."""
        self._threads.close()
        loops, self._loops = self._loops, []
        for loop in loops:
            if not loop.lost:
                await loop.close()
        await asyncio.to_thread(self.folders.close)

    def _loop_now(self) -> FunctionLoop:
        self._loops = [loop for loop in self._loops if loop.alive]
        if not self._loops or self._loops[-1].lost:
            if len(self._loops) >= _MAX_LOST_LOOPS:
                raise ThreadsBusy
            self._loops.append(FunctionLoop(self._watch, self._found))
        return self._loops[-1]

    def _found(self) -> None:
        self._blocked += 1
