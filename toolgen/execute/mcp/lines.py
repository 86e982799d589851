"""The lines that a command writes: each read whole up to a bound, or skipped to its end when it is longer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

__all__ = ["EndlessError", "Lines", "LongLine"]

_PIECE = 65_536
_EDGE = 256  # what is kept of either end of a line that is too long
_LONGEST_SKIPPED = 256 * 1024 * 1024


class EndlessError(Exception):
    """A line went on for longer than anybody reads, even to throw it away."""


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line of more bytes than are kept: how it begins, and how it ends."""

    head: bytes
    tail: bytes


class Lines:
    """Reads lines of at most `largest` bytes, and never holds much more than one."""

    def __init__(self, stream: asyncio.StreamReader, largest: int) -> None:
        self._stream = stream
        self._largest = largest
        self._held = bytearray()

    async def read(self) -> bytes | LongLine | None:
        """The next line; None when there are no more. Raises `EndlessError`."""
        looked = 0
        while (end := self._held.find(b"\n", looked)) < 0:
            looked = len(self._held)
            if looked > self._largest:
                return await self._skip()
            piece = await self._stream.read(_PIECE)
            if not piece:
                return self._take(looked) if looked else None
            self._held += piece
        line = self._take(end + 1)
        return line if end <= self._largest else LongLine(line[:_EDGE], line[-_EDGE:])

    async def _skip(self) -> LongLine | None:
        size = len(self._held)
        line = self._take(size)
        head, tail = line[:_EDGE], line[-_EDGE:]
        while piece := await self._stream.read(_PIECE):
            line, newline, rest = piece.partition(b"\n")
            tail = (tail + line)[-_EDGE:]
            if newline:
                self._held += rest
                return LongLine(head, tail)
            size += len(piece)
            if size > _LONGEST_SKIPPED:
                raise EndlessError
        return None

    def _take(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken
