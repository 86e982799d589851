"""The calls that are under way inside of one call, and end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["UnderWay"]

T = TypeVar("T")


class UnderWay:
    """Inner calls in flight of one outer call, made from code or from threads. All of them end with the outer call."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = False

    async def made(self, making: Coroutine[Any, Any, T]) -> T:
        """Run one inner call and return its result. Raises `CancelledError` if the outer call is over, or ends meanwhile."""
        if self._over:
            making.close()
            raise asyncio.CancelledError
        task = asyncio.create_task(making)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await task

    async def end(self) -> None:
        """The call is over: calls off those that have not ended. None begins any more."""
        self._over = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
