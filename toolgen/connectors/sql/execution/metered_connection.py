"""PostgreSQL connection with a size limit. libpq keeps a whole result before it returns any of it, so bytes are counted as they arrive."""

from __future__ import annotations

import socket
import struct
from collections.abc import Generator
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import wait_async

from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError
from toolgen.core.system_modules import system_module

__all__ = ["MeteredConnection"]

_fcntl, _termios = system_module("fcntl"), system_module("termios")
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None)
_RECEIVED: Final = struct.Struct("<Q")
_RECEIVED_AT: Final = 128  # tcpi_bytes_received of linux/tcp.h: after 8 bytes, 24 numbers of four and three of eight
_WAITING: Final = struct.Struct("i")
_LOOK_S: Final = 0.1
T = TypeVar("T")


class MeteredConnection(psycopg.AsyncConnection[tuple[object, ...]]):
    """Connection that receives at most `most` bytes per sent message; any number without `most`."""

    most: int = 0

    async def wait(self, gen: PQGen[T], *arguments: Any, **named: Any) -> T:
        """Wait for an exchange with the server. Raises `AnswerTooLargeError`; the connection is unusable afterwards.

        When cancelled, psycopg's own method asks the server to stop and waits for that. Here the pool does both.
        """
        metered = self._metered(gen) if self.most else gen
        if not arguments:
            named.setdefault("interval", _LOOK_S)
        return await wait_async(metered, self.pgconn.socket, *arguments, **named)

    def _metered(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        file = self.pgconn.socket
        began = _received(file)
        read = 0
        ready: Any = None  # starts the generator
        while True:
            waiting = _waiting(file)
            try:
                state = gen.send(ready)
                ended = None
            except StopIteration as stopped:
                ended = stopped
            # The kernel's count; without one (a Unix socket), the bytes seen in its buffer, which are fewer.
            read = _received(file) - began if began >= 0 else read + max(waiting - _waiting(file), 0)
            if read > self.most:
                raise AnswerTooLargeError
            if ended is not None:
                value: T = ended.value
                return value
            ready = yield state


def _received(file: int) -> int:
    """Return all bytes ever received over a TCP socket; -1 if the system has no count."""
    if _TCP_INFO is None:
        return -1
    borrowed = socket.socket(fileno=file)
    try:
        told = borrowed.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _RECEIVED_AT + _RECEIVED.size)
    except OSError:
        return -1
    finally:
        borrowed.detach()
    count: int = _RECEIVED.unpack_from(told, _RECEIVED_AT)[0] if len(told) >= _RECEIVED_AT + _RECEIVED.size else -1
    return count


def _waiting(file: int) -> int:
    if _fcntl is None or _termios is None:
        return 0
    data = bytearray(_WAITING.size)
    _fcntl.ioctl(file, _termios.FIONREAD, data, True)
    count: int = _WAITING.unpack(data)[0]
    return count
