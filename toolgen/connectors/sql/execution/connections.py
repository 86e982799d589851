"""A few connections to one server, handed out clean: opened when first needed, replaced when dead or old, never more than a number.

What PostgreSQL and MySQL share: a statement on a pooled session, bounded in time as a whole, and what a lost server is called.

How a database server is reached: its name resolved, every address put to the policy, its password resolved just before it is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.connector import EgressRefusal, Resolver, system_resolver
from toolgen.connectors.secrets import Secret, SecretReference, SecretResolver
from toolgen.connectors.sql.execution.result_rows import failed, timed_out, unavailable
from toolgen.core.clock import Clock
from toolgen.model.call import Statement
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Delivery, Error, Failed, Success
from toolgen.model.verdict import Allow, Ask, Deny

__all__ = [
    "AnswerTooLargeError",
    "DatabaseUnreachableError",
    "Driver",
    "LostConnectionError",
    "Pool",
    "PoolExhaustedError",
    "Reach",
    "SessionPool",
    "most_received",
]

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


_WAIT_S: Final = 1.0  # for a session while all are in use
_GRACE_S: Final = 1.0  # beyond the statement's own time, which the server keeps
_RETRY_S: Final = 1.0

_SLACK: Final = 8_000_000  # bytes: a row may hold more than is given of it, but not any amount


class AnswerTooLargeError(Exception):
    """The server sends more than is read of one answer. What is left of it is on its way, so the connection is of no use."""


def most_received(statement: Statement) -> int:
    """Number of bytes that a server may send at once of what is cut to the statement's limits afterwards."""
    return 4 * statement.max_bytes + _SLACK


class DatabaseUnreachableError(Exception):
    """No session could be made. `reason` and `suggestion` are our own words, for the caller and the operator."""

    def __init__(self, reason: str, suggestion: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.suggestion = suggestion


class SessionPool(Generic[C]):
    """The sessions of one source. The pool is made at the first statement: it belongs to the loop that runs it."""

    def __init__(self, driver: Driver[C], location: ServerLocation, clock: Clock, *, wait_s: float = _WAIT_S) -> None:
        self._driver = driver
        self._location = location
        self._clock = clock
        self._wait_s = wait_s
        self._pool: Pool[C] | None = None

    async def run(
        self, statement: Statement, work: Callable[[C], Awaitable[Success | Failed]], lost: tuple[type[Exception], ...]
    ) -> Success | Failed:
        """Run `work` with a session from the pool and return its result. A session is lost if `work` raises an exception in `lost`."""
        connect_s = self._location.connect_timeout_s
        try:
            async with asyncio.timeout(self._wait_s + connect_s + statement.timeout_s + 2 * _GRACE_S):
                async with self._opened().session(statement.timeout_s) as session:
                    async with asyncio.timeout(statement.timeout_s + _GRACE_S):
                        return await work(session)
        except PoolExhaustedError:
            return unavailable(
                f"all {self._location.pool_size} connections to the database are in use",
                "the operator can raise pool_size",
                retry_after_s=_RETRY_S,
            )
        except DatabaseUnreachableError as error:
            return unavailable(error.reason, error.suggestion, retry_after_s=_RETRY_S)
        except EgressRefusal as refusal:
            verdict = refusal.verdict
            return Failed(
                error=Error(
                    code="egress_refused", message=verdict.reason, suggestion=verdict.suggestion, rule=verdict.rule
                )
            )
        except LostConnectionError:
            return unavailable("the database closed the connection", retry_after_s=_RETRY_S)
        except AnswerTooLargeError:
            return failed(
                "response_too_large",
                f"one row of the answer has more than {most_received(statement) // 1_000_000} MB",
                "select less of it, for example with substr, or fewer rows in an aggregate",
                Delivery(sql=statement.sql),
            )
        except TimeoutError:
            return timed_out(statement)
        except lost:
            # Whatever ended it may be the statement itself: what made a server give up is not to be sent again as it is.
            return failed(
                "upstream_error",
                "the database ended the connection while the statement ran",
                "ask for less in one statement; if a small one fails too, tell the operator",
                Delivery(sql=statement.sql),
            )

    async def close(self) -> None:
        """Closes what is idle."""
        if self._pool is not None:
            await self._pool.close()

    def _opened(self) -> Pool[C]:
        if self._pool is None:
            self._pool = Pool(self._driver, size=self._location.pool_size, wait_s=self._wait_s, clock=self._clock)
        return self._pool


_MAX_ADDRESSES = 8


class Reach:
    """`permit` None lets every address through: for a reader of a schema, which the operator starts by hand."""

    def __init__(
        self,
        *,
        password: SecretReference | None,
        secrets: SecretResolver,
        permit: Permit | None,
        resolver: Resolver = system_resolver,
    ) -> None:
        self._password = password
        self._secrets = secrets
        self._permit = permit
        self._resolver = resolver

    async def password(self) -> Secret | None:
        """Raises `SecretError` when there should be one and it cannot be had."""
        return await self._secrets.fetch(self._password) if self._password is not None else None

    async def addresses(self, location: ServerLocation) -> Sequence[str]:
        """Every address of the server, each of them permitted; none for a Unix socket, which is a file of this machine.

        Raises `EgressRefusal`, and `OSError` when the name has no address.
        """
        if location.socket:
            return ()
        async with asyncio.timeout(location.connect_timeout_s):
            found = (
                [location.host] if _is_literal(location.host) else await self._resolver(location.host, location.port)
            )
        if not found:
            raise OSError("the name has no address")
        for address in found[:_MAX_ADDRESSES]:
            self._check(Destination(host=location.host, port=location.port, address=address, service="database"))
        return found[:_MAX_ADDRESSES]

    def _check(self, destination: Destination) -> None:
        if self._permit is None:
            return
        match self._permit(destination):
            case Allow():
                return
            case Deny() as verdict:
                raise EgressRefusal(verdict)
            case Ask(rule=rule, reason=reason):
                raise EgressRefusal(Deny(rule=rule, reason=reason, code="egress_refused"))


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
