"""Pipes to child processes, read and written by threads, for event loops that cannot wait for pipes (Windows).

A pipe of subprocess.Popen has no overlapped I/O there, so neither poll(2) nor asyncio's loop can wait for it. Each pipe has a thread here,
which ends with the pipe.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from contextlib import suppress
from typing import IO

__all__ = ["ReadingThread", "WritingThread"]

_PIECE = 64 * 1024
_MAX_AHEAD = 16


class ReadingThread(asyncio.BaseTransport):
    """Transport that reads a pipe in a thread and passes the data to its protocol, at most 1 MiB ahead of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = loop
        self._pipe = pipe
        self._protocol = protocol
        self._room = threading.Semaphore(_MAX_AHEAD)
        self._closed = False
        threading.Thread(target=self._read, name="toolgen-pipe-reader", daemon=True).start()

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Pass no more data to the protocol. The thread closes the pipe when its other end is closed."""
        self._closed = True
        self._room.release()

    def _read(self) -> None:
        with self._pipe:
            while True:
                self._room.acquire()
                try:
                    data = os.read(self._pipe.fileno(), _PIECE)
                except OSError:
                    data = b""
                try:
                    self._loop.call_soon_threadsafe(self._arrived, data)
                except RuntimeError:  # the loop is closed
                    self._closed = True
                if not data:
                    return
                if self._closed:
                    self._room.release()

    def _arrived(self, data: bytes) -> None:
        self._room.release()
        if data and not self._closed:
            self._protocol.data_received(data)
        elif not data:
            self._protocol.connection_lost(None)


class WritingThread(asyncio.WriteTransport):
    """Transport that writes a pipe in a thread. Data that the other process has not read yet is kept in memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._loop = loop
        self._pipe = pipe
        self._protocol = protocol
        self._change = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._closed = False
        threading.Thread(target=self._write, name="toolgen-pipe-writer", daemon=True).start()

    def is_closing(self) -> bool:
        return self._closed

    def get_write_buffer_size(self) -> int:
        return self._size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes to the pending ones."""
        with self._change:
            if not self._closed:
                self._waiting.append(bytes(data))
                self._size += len(data)
                self._change.notify()

    def close(self) -> None:
        """Close the pipe once everything is written."""
        with self._change:
            self._closed = True
            self._change.notify()

    def _write(self) -> None:
        try:
            while (data := self._next()) is not None:
                left = memoryview(data)
                while left:
                    left = left[os.write(self._pipe.fileno(), left) :]
                with self._change:
                    self._size -= len(data)
        except OSError:
            self._closed = True
        with suppress(OSError):
            self._pipe.close()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._protocol.connection_lost, None)

    def _next(self) -> bytes | None:
        with self._change:
            while not self._waiting and not self._closed:
                self._change.wait()
            return self._waiting.popleft() if self._waiting else None
