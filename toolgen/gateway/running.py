"""Calls that run on to their end when whoever asked for them has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Running"]

T = TypeVar("T")


class Running:
    """Keeps hold of every call in flight: a front end that is cancelled loses the answer, never the record of the outcome."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, call: Coroutine[Any, Any, T]) -> T:
        """The call's result. Cancelling the caller does not cancel the call."""
        task = asyncio.get_running_loop().create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Waits until nothing is in flight; calls end by themselves, because every executor has its timeouts."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
