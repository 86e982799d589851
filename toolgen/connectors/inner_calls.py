"""Inner calls of one outer call: those in flight, which end with it, and what their answers say about rows that the policy hides."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from toolgen.core.background import cancel
from toolgen.model.result import Envelope

__all__ = ["RowNotes", "UnderWay"]

_MAX_ROW_NOTES = 50


class RowNotes:
    """Notes on hidden rows in the answers of inner calls, for the answer of the outer call: each once, in the order of the calls."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}

    def add(self, notes: Iterable[str]) -> None:
        """Add the notes of an answer."""
        self._notes.update(dict.fromkeys(notes))

    @property
    def told(self) -> tuple[str, ...]:
        """Return the first fifty notes, and the number of the others."""
        notes = tuple(self._notes)
        left = len(notes) - _MAX_ROW_NOTES
        return notes if left <= 0 else (*notes[:_MAX_ROW_NOTES], f"and {left} more such notes")


class UnderWay:
    """Inner calls in flight of one outer call, made from code or from threads. All of them end with the outer call.

    `row_notes` are those of the answers that came before it ended.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = False
        self.row_notes = RowNotes()

    async def made(self, making: Coroutine[Any, Any, Envelope]) -> Envelope:
        """Run one inner call and return its result. Raises `CancelledError` if the outer call is over, or ends meanwhile."""
        if self._over:
            making.close()
            raise asyncio.CancelledError
        task = asyncio.create_task(making)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        envelope = await task
        self.row_notes.add(envelope.meta.row_notes)
        return envelope

    async def end(self) -> None:
        """The call is over: calls off those that have not ended. None begins any more."""
        self._over = True
        await cancel(*self._tasks)
