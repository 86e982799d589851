"""Pool of connections to one database server: opened on demand, reset after use, replaced when broken or old, bounded in number."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from toolgen.core.clock import Clock

__all__ = ["Driver", "LostConnectionError", "Pool", "PoolExhaustedError"]

_MAX_AGE_S: Final = 300.0  # seconds until a rotated password, a moved server and a changed role are noticed
_ABANDON_S: Final = 5.0
_FIRST_LOOK_S: Final = 0.05


class PoolExhaustedError(Exception):
    """All connections were in use for the maximum waiting time of a call."""


class LostConnectionError(Exception):
    """Lost connection, before any part of a statement was sent over it."""


C = TypeVar("C")


class Driver(Protocol[C]):
    """Driver of an engine's connections for a pool.

    `open` raises the engine's own error if the server cannot be reached. `begin` prepares a connection for one statement, and raises
    `LostConnectionError` if the connection is dead. `end` undoes all effects of a statement on the session; if it fails, the pool discards
    the connection. `abandon` closes a connection in an unclear state and asks the server to stop the statement on it; it returns True if no
    statement runs any more. `gone` asks the server if the statement of an abandoned connection has ended.
    """

    async def open(self) -> C: ...

    async def begin(self, connection: C, timeout_s: float) -> None: ...

    async def end(self, connection: C) -> None: ...

    async def abandon(self, connection: C) -> bool: ...

    async def gone(self, connection: C) -> bool: ...


class _Idle(Struct, Generic[C], frozen=True, kw_only=True):
    connection: C
    opened: float  # time of clock.monotonic()


class Pool(Generic[C]):
    """Pool of at most `size` connections. A caller waits up to `wait_s` for one of them, and then gets an error.

    A statement that continues after its connection was abandoned counts as a connection until the server reports its end: a database never
    runs more than `size` statements at once, even if callers give up.
    """

    def __init__(self, driver: Driver[C], *, size: int, wait_s: float, clock: Clock) -> None:
        self._driver = driver
        self._free = asyncio.Semaphore(size)
        self._wait_s = wait_s
        self._clock = clock
        self._idle: list[_Idle[C]] = []
        self._closed = False
        self._lingering: set[asyncio.Task[None]] = set()
        self._kept = 0  # places of ended sessions whose statements still run

    @asynccontextmanager
    async def session(self, timeout_s: float) -> AsyncIterator[C]:
        """Return a prepared connection. Leaving with an exception abandons it, and waits for that.

        Raises `PoolExhaustedError`, and the errors of opening and beginning.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise PoolExhaustedError from None
        try:
            entry = await self._prepared_connection(timeout_s)
            try:
                yield entry.connection
            except BaseException:
                await self._abandon(entry.connection)
                raise
            await self._give_back(entry)
        finally:
            self._free_place()

    async def close(self) -> None:
        """Close idle connections; a connection in use is closed when it is returned."""
        self._closed = True
        for task in self._lingering:
            task.cancel()
        idle, self._idle = self._idle, []
        await self._abandon(*(one.connection for one in idle))

    async def _prepared_connection(self, timeout_s: float) -> _Idle[C]:
        """Return a prepared connection. If an idle connection is dead, all idle connections are discarded and a new one is opened."""
        while self._idle:
            entry = self._idle.pop()
            if self._clock.monotonic() - entry.opened > _MAX_AGE_S:
                await self._abandon(entry.connection)
                continue
            try:
                await self._driver.begin(entry.connection, timeout_s)
            except LostConnectionError:
                idle, self._idle = [entry, *self._idle], []
                await self._abandon(*(one.connection for one in idle))
            except BaseException:
                await self._abandon(entry.connection)
                raise
            else:
                return entry
        opened = self._clock.monotonic()
        connection = await self._driver.open()
        try:
            await self._driver.begin(connection, timeout_s)
        except BaseException:
            await self._abandon(connection)
            raise
        return _Idle(connection=connection, opened=opened)

    async def _give_back(self, entry: _Idle[C]) -> None:
        try:
            async with asyncio.timeout(_ABANDON_S):
                await self._driver.end(entry.connection)
        except BaseException as error:
            await self._abandon(entry.connection)
            if not isinstance(error, Exception):
                raise
            return
        if self._closed:
            await self._abandon(entry.connection)
        else:
            self._idle.append(entry)

    async def _abandon(self, *connections: C) -> None:
        """Abandon connections completely, even if the caller is cancelled: an unneeded statement must not continue. The cancellation
        follows then.
        """
        closing = asyncio.ensure_future(self._each_abandoned(connections))
        cancelled: asyncio.CancelledError | None = None
        while not closing.done():
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _each_abandoned(self, connections: Sequence[C]) -> None:
        for connection in connections:
            await self._bounded(connection)

    async def _bounded(self, connection: C) -> None:
        ended = False
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_ABANDON_S):
                ended = await self._driver.abandon(connection)
        if not ended and not self._closed:
            self._kept += 1
            task = asyncio.create_task(self._wait_for_end(connection))
            self._lingering.add(task)
            task.add_done_callback(self._lingering.discard)

    async def _wait_for_end(self, connection: C) -> None:
        """Keep the place of a session until the server reports that its statement has ended."""
        wait_s = _FIRST_LOOK_S
        try:
            while True:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_ABANDON_S):
                        if await self._driver.gone(connection):
                            return
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _ABANDON_S)
        finally:
            self._free_place()

    def _free_place(self) -> None:
        if self._kept:
            self._kept -= 1
        else:
            self._free.release()
