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

_MAX_AGE_S: Final = 300.0  # a rotated password, a moved server and a changed role are noticed after this long
_ABANDON_S: Final = 5.0
_FIRST_LOOK_S: Final = 0.05


class PoolExhaustedError(Exception):
    """Every connection stayed in use for as long as a call may wait for one."""


class LostConnectionError(Exception):
    """The connection was gone before anything of a statement was sent over it."""


C = TypeVar("C")


class Driver(Protocol[C]):
    """Driver of an engine's connections for a pool.

    `open` raises the engine's own error if the server cannot be reached. `begin` prepares a connection for one statement, and raises
    `LostConnectionError` if the connection is dead. `end` undoes everything that a statement may have left; if it fails, the pool discards
    the connection. `abandon` closes a connection whose state is unclear and asks the server to stop the statement that still runs on it; it
    returns True if none does. `gone` asks the server whether the statement of an abandoned connection has ended.
    """

    async def open(self) -> C: ...

    async def begin(self, connection: C, timeout_s: float) -> None: ...

    async def end(self, connection: C) -> None: ...

    async def abandon(self, connection: C) -> bool: ...

    async def gone(self, connection: C) -> bool: ...


class _Idle(Struct, Generic[C], frozen=True, kw_only=True):
    connection: C
    opened: float  # of clock.monotonic()


class Pool(Generic[C]):
    """At most `size` connections. A caller waits `wait_s` for one of them, and is then told that there is none.

    A statement that goes on after its connection was abandoned counts as a connection until the server says that it is gone: a database
    is never asked to do more at once than `size` statements, whatever becomes of those who asked.
    """

    def __init__(self, driver: Driver[C], *, size: int, wait_s: float, clock: Clock) -> None:
        self._driver = driver
        self._free = asyncio.Semaphore(size)
        self._wait_s = wait_s
        self._clock = clock
        self._idle: list[_Idle[C]] = []
        self._closed = False
        self._lingering: set[asyncio.Task[None]] = set()
        self._kept = 0  # places of sessions that left while their statements linger

    @asynccontextmanager
    async def session(self, timeout_s: float) -> AsyncIterator[C]:
        """A connection that has begun. Leaving with an exception abandons it, and waits until it is.

        Raises `PoolExhaustedError`, and what opening and beginning raise.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise PoolExhaustedError from None
        try:
            entry = await self._begun(timeout_s)
            try:
                yield entry.connection
            except BaseException:
                await self._abandon(entry.connection)
                raise
            await self._give_back(entry)
        finally:
            self._leave()

    async def close(self) -> None:
        """Closes what is idle; what is in use is closed when it is given back."""
        self._closed = True
        for task in self._lingering:
            task.cancel()
        idle, self._idle = self._idle, []
        await self._abandon(*(one.connection for one in idle))

    async def _begun(self, timeout_s: float) -> _Idle[C]:
        """An idle connection that turns out to be dead says that its siblings are: all are thrown away, and a new one is opened."""
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
        """To its end even when the caller is cancelled meanwhile: a statement nobody waits for must not go on. The caller ends then."""
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
            task = asyncio.create_task(self._linger(connection))
            self._lingering.add(task)
            task.add_done_callback(self._lingering.discard)

    async def _linger(self, connection: C) -> None:
        """Keeps the place of a session until the server says that nothing of it is left."""
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
            self._leave()

    def _leave(self) -> None:
        if self._kept:
            self._kept -= 1
        else:
            self._free.release()
