"""Lines of a process's output. Each is read whole up to a size limit; the rest of a longer line is skipped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

__all__ = ["LineReader", "LongLine"]

_EDGE = 256  # what is kept of either end of a line that is too long
_MAX_SKIPPED_LENGTH = 256 * 1024 * 1024


class LongLine(Struct, frozen=True):
    """A line of more bytes than are kept: how it begins, and how it ends."""

    head: bytes
    tail: bytes


class LineReader(asyncio.Protocol):
    """Cuts what is read into lines of at most `largest` bytes, and never holds much more than one.

    `heard` is given each, and `ended` what happened when there are no more: "" at the end, a reason for a line without end.
    """

    def __init__(self, largest: int, heard: Callable[[bytes | LongLine], None], ended: Callable[[str], None]) -> None:
        self._largest = largest
        self._heard = heard
        self._ended = ended
        self._held = bytearray()
        self._head = b""  # of a line that is too long
        self._skipped = 0
        self._is_over = False

    def data_received(self, data: bytes) -> None:
        start = 0
        while not self._is_over and (end := data.find(b"\n", start) + 1):
            self._heard(self._line(data[start:end]))
            start = end
        if not self._is_over:
            self._keep(data[start:])

    def connection_lost(self, exc: Exception | None) -> None:
        if self._held and not self._is_over and not self._skipped:
            self._heard(self._line(b""))
        self.end("")

    def end(self, reason: str) -> None:
        """Reads no further."""
        if not self._is_over:
            self._is_over = True
            self._ended(reason)

    def _line(self, last: bytes) -> bytes | LongLine:
        """The line that ends with this piece."""
        line = bytes(self._held) + last if self._held else last
        self._held.clear()
        if self._skipped:
            self._skipped = 0
            return LongLine(self._head, line[-_EDGE:])
        return line if len(line) <= self._largest + 1 else LongLine(line[:_EDGE], line[-_EDGE:])

    def _keep(self, piece: bytes) -> None:
        """Takes what has no end yet; of a line that is too long its head and the last of it."""
        self._held += piece
        if self._skipped or len(self._held) > self._largest:
            self._head = self._head if self._skipped else bytes(self._held[:_EDGE])
            self._skipped += len(self._held) if not self._skipped else len(piece)
            del self._held[:-_EDGE]
            if self._skipped > _MAX_SKIPPED_LENGTH:
                self.end("wrote a line without end")
