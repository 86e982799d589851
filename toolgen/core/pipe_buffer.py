"""Bytes of a pipe that a thread reads, for systems whose event loops cannot wait for pipes (Windows)."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import IO, Final

__all__ = ["POLLS_PIPES", "PipeBuffer"]

POLLS_PIPES: Final = hasattr(select, "poll")
"""True if the system waits for pipes without a thread."""
_PIECE = 64 * 1024


class PipeBuffer:
    """Buffer of a pipe that a thread reads to its end, and then closes. `at_end` is called in that thread."""

    def __init__(self, pipe: IO[bytes], at_end: Callable[[], object] | None = None) -> None:
        self._pipe = pipe
        self._at_end = at_end
        self._change = threading.Condition()
        self._data = bytearray()
        self._ended = False
        self._listener: Callable[[], object] | None = None
        threading.Thread(target=self._read, name="toolgen-pipe-buffer", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Return True once there are bytes or the pipe has ended, False if nothing happened in this time."""
        with self._change:
            return self._change.wait_for(self._has_data, seconds)

    def take(self) -> bytes | None:
        """Return the read bytes, b"" at the end of the pipe, and None while nothing has arrived."""
        with self._change:
            data = bytes(self._data)
            self._data.clear()
            return data if data or self._ended else None

    def listen(self, listener: Callable[[], object] | None) -> bool:
        """Register `listener`, called in the thread when data arrives; None removes it. Return True if data is already there."""
        with self._change:
            self._listener = listener
            return self._has_data()

    def _has_data(self) -> bool:
        return self._ended or bool(self._data)

    def _read(self) -> None:
        with self._pipe:
            data = b"-"
            while data:
                try:
                    data = os.read(self._pipe.fileno(), _PIECE)
                except OSError:
                    data = b""
                with self._change:
                    self._data += data
                    self._ended = not data
                    self._change.notify_all()
                    if self._listener is not None:
                        self._listener()
        if self._at_end is not None:
            self._at_end()
