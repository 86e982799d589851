"""PostgreSQL: a read-only transaction per statement, behind a cursor, through the extended protocol, always rolled back.

https://www.postgresql.org/docs/current/sql-declare.html: only SELECT and VALUES can be declared, so no other statement can run: no COPY, no
SET, no data-modifying WITH.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.connections import LostConnectionError
from toolgen.connectors.sql.execution.engine_errors import (
    GATHERED,
    explain_sqlstate,
    failure_with_advice,
    not_a_change,
    not_a_query,
)
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import DatabaseUnreachableError, SessionPool, most_received
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError
from toolgen.model.call import Statement
from toolgen.model.database import GATHERED_SETTING
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Failed, Success

try:
    import psycopg
    from psycopg import pq, sql

    from toolgen.connectors.sql.execution.metered_connection import MeteredConnection
    from toolgen.connectors.sql.execution.postgres_cascades import cascades, touched
    from toolgen.connectors.sql.execution.postgres_session import (
        WORK_MEMORY_KB,
        SessionRole,
        begin,
        role_of,
        work_memory,
    )
    from toolgen.connectors.sql.execution.postgres_values import RowReader, adapters, values_of
except ImportError as error:
    raise ConfigError(
        "the driver of PostgreSQL is not installed", suggestion='install it with: pip install "toolgen[postgres]"'
    ) from error

__all__ = ["PostgresEngine"]

_EXPLAIN: Final = b"EXPLAIN (VERBOSE FALSE) "
_CURSOR: Final = "toolgen"
_MAX_FETCHED: Final = 512  # rows per fetch: one at first, more while they are small
_FEW_BYTES: Final = 65_536  # bytes per fetch that are read on the event loop
_CREDENTIALS: Final = (
    "the database does not accept the gateway's credentials",
    "the operator should check user and password",
)
_REFUSALS: Final = (
    ("authentication failed", *_CREDENTIALS),
    ("no password supplied", *_CREDENTIALS),
    ("pg_hba.conf", *_CREDENTIALS),
    ('role "', *_CREDENTIALS),
    ('database "', "the server has no such database", "the operator should check its name"),
    ("too many", "the database server takes no more connections", ""),
    ("starting up", "the database server is starting up or shutting down", ""),
    ("shutting down", "the database server is starting up or shutting down", ""),
    ("SSL", "no TLS connection to the database can be made", "the operator should check sslmode"),
    ("certificate", "no TLS connection to the database can be made", "the operator should check sslmode"),
)
_READ_ALL: Final = "pg_read_all_data"

# Process ids are reused, so the id alone does not identify a backend.
_BACKEND: Final = (
    "SELECT pid || ' ' || backend_start FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()"
)
_STILL_THERE: Final = "SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid || ' ' || backend_start = %s"


_Cursor: TypeAlias = psycopg.AsyncCursor[tuple[object, ...]] | psycopg.AsyncRawCursor[tuple[object, ...]]


class _PostgresSession(Struct, kw_only=True):
    connection: MeteredConnection
    backend: str = ""  # identifies one backend among all past ones
    role: SessionRole
    types: dict[int, str] = {}


class PostgresEngine:
    """Engine for statements on the database at `location`."""

    def __init__(self, location: ServerLocation, reach: Reach, clock: Clock) -> None:
        self._sessions = SessionPool(_PostgresDriver(location, reach), location, clock)

    async def run(self, statement: Statement) -> Success | Failed:
        async def work(session: _PostgresSession) -> Success | Failed:
            try:
                await _confine(session, statement)
                return await _read(session, statement)
            except psycopg.Error as error:
                return _explained(error, session, statement)

        return await self._sessions.run(statement, work, (psycopg.Error,))

    async def change(self, statement: Statement) -> Success | Failed:
        change = CommitState(statement)

        async def work(session: _PostgresSession) -> Success | Failed:
            try:
                return await _change(session, change)
            except psycopg.Error as error:
                explained = _explained(error, session, statement)
                change.committing = False  # the server refused
                return explained

        return change.ended(await self._sessions.run(statement, work, (psycopg.Error,)))

    async def explain(self, statement: Statement) -> Success | Failed:
        async def work(session: _PostgresSession) -> Success | Failed:
            try:
                await _confine(session, statement)
                # Declared first: a statement that is not a query has no plan either. EXPLAIN itself cannot be declared.
                await _declare(session, statement)
                async with psycopg.AsyncRawCursor(session.connection) as cursor:
                    await cursor.execute(_EXPLAIN + statement.sql.encode(), values_of(statement))
                    return await _answered(session, statement, cursor)
            except psycopg.Error as error:
                return _explained(error, session, statement)

        return await self._sessions.run(statement, work, (psycopg.Error,))

    async def close(self) -> None:
        await self._sessions.close()


class _PostgresDriver:
    """Driver of the sessions of a server: `toolgen.connectors.sql.execution.connections.Driver`."""

    def __init__(self, location: ServerLocation, reach: Reach) -> None:
        self._location = location
        self._reach = reach
        self._adapters = adapters()

    async def open(self) -> _PostgresSession:
        try:
            addresses: Sequence[str] = await self._reach.addresses(self._location)
        except OSError as error:
            raise DatabaseUnreachableError(
                "the name of the database server cannot be resolved", "the operator should check its host"
            ) from error
        try:
            connection = await self._connect(addresses)
            try:
                role = await role_of(connection)
                found = await (await connection.execute(_BACKEND)).fetchone()
                return _PostgresSession(connection=connection, role=role, backend=str(found[0]) if found else "")
            except BaseException:
                await connection.close()
                raise
        except psycopg.Error as error:
            raise _unreachable(error) from None  # libpq quotes host, user and options

    async def _connect(self, addresses: Sequence[str]) -> MeteredConnection:
        location = self._location
        secret = await self._reach.password()
        arguments = location.libpq_arguments(secret.reveal() if secret is not None else "", "toolgen")
        if addresses:  # each address was permitted, and no other is dialled
            arguments |= {"host": ",".join([location.host] * len(addresses)), "hostaddr": ",".join(addresses)}
        connection = await MeteredConnection.connect(
            **arguments, autocommit=True, prepare_threshold=None, context=_Context(self._adapters)
        )
        connection.add_notice_handler(_ignore)
        return connection

    async def begin(self, session: _PostgresSession, timeout_s: float) -> None:
        try:
            await session.connection.execute(begin(session.role, timeout_s))
        except psycopg.Error as error:
            raise LostConnectionError from error

    async def end(self, session: _PostgresSession) -> None:
        session.connection.most = 0
        await session.connection.execute("ROLLBACK")
        await session.connection.execute("DISCARD ALL")
        if session.connection.info.transaction_status is not pq.TransactionStatus.IDLE:
            raise LostConnectionError

    async def abandon(self, session: _PostgresSession) -> bool:
        active = session.connection.info.transaction_status is pq.TransactionStatus.ACTIVE
        try:
            if active:
                await session.connection.cancel_safe(timeout=3.0)
        finally:
            await session.connection.close()
        return not active

    async def gone(self, session: _PostgresSession) -> bool:
        """Return True if the backend has ended. Some functions cannot be interrupted, and a backend notices a closed connection at its
        next write.
        """
        async with await self._connect(await self._reach.addresses(self._location)) as connection:
            found = await connection.execute(_STILL_THERE, (session.backend,))
            return not await found.fetchone()


class _Context(Struct, frozen=True):
    """psycopg's AdaptContext with the loaders of every connection."""

    adapters: psycopg.adapt.AdaptersMap
    connection: None = None


def _ignore(_: psycopg.errors.Diagnostic) -> None:
    """Ignore the server's notices. They may quote data, and nothing needs them."""


async def _confine(session: _PostgresSession, statement: Statement) -> None:
    """Read as `pg_read_all_data` if the role is a superuser: that role has no files, no large objects of others, no other servers and no
    signals.

    Tables with row security are an exception: a superuser sees every row there and that role none, and the gateway must not change the
    visible rows.
    """
    role = session.role
    if role.lowers and not (statement.tables & role.row_security):
        await session.connection.execute(f"SET LOCAL ROLE {_READ_ALL}".encode())


async def _declare(session: _PostgresSession, statement: Statement) -> None:
    memory = work_memory(statement.sql)
    if memory < WORK_MEMORY_KB:
        await session.connection.execute(f"SET LOCAL work_mem = {memory}".encode())
    async with psycopg.AsyncRawCursor(session.connection) as cursor:
        declared = f"DECLARE {_CURSOR} NO SCROLL CURSOR FOR {statement.sql}"
        await cursor.execute(declared.encode(), values_of(statement))


async def _read(session: _PostgresSession, statement: Statement) -> Success | Failed:
    await _declare(session, statement)
    session.connection.most = most_received(statement)
    answer: RowCollector | None = None
    size = 1
    async with psycopg.AsyncCursor(session.connection) as cursor:
        while True:
            await cursor.execute(sql.SQL("FETCH FORWARD {} FROM {}").format(size, sql.Identifier(_CURSOR)))
            if answer is None:
                columns = await _columns(session, cursor)
                if columns is None:
                    return not_a_query(statement)
                answer = RowCollector(statement, columns)
            count, weight, goes_on = await _take(session, cursor, answer)
            if not goes_on or count < size:
                return answer.success()
            size = max(1, min(4 * size, _FEW_BYTES * size // max(weight, 1), _MAX_FETCHED))


async def _take(session: _PostgresSession, cursor: _Cursor, answer: RowCollector) -> tuple[int, int, bool]:
    """Add the rows of a cursor. Returns their number, their bytes as the server sent them, and True if all were taken."""
    if cursor.pgresult is None:
        return 0, 0, False
    reader = RowReader(session.connection, cursor.pgresult, answer.statement.max_cell_bytes)

    def take() -> bool:
        return all(map(answer.take, reader.rows()))

    goes_on = take() if reader.size <= _FEW_BYTES else await asyncio.to_thread(take)
    return cursor.pgresult.ntuples, reader.size, goes_on


async def _change(session: _PostgresSession, change: CommitState) -> Success | Failed:
    """Run a change in a transaction that may write, which replaces the read-only one. The end of the session rolls back an uncommitted
    change.

    READ COMMITTED, so that the catalog is read in its state behind the statement's lock: no trigger can be added before the commit.
    """
    statement = change.statement
    connection = session.connection
    await connection.execute(b"ROLLBACK; " + begin(session.role, statement.timeout_s, "READ COMMITTED READ WRITE"))
    before = await touched(connection) if statement.cascades else 0
    async with psycopg.AsyncRawCursor(connection) as cursor:
        # Binary, because only then a message is never more than one statement.
        await cursor.execute(statement.sql.encode(), values_of(statement), binary=True)
        if cursor.description is not None:
            return not_a_change(statement)
        rows = cursor.rowcount
    if statement.cascades:
        await connection.execute(b"SET CONSTRAINTS ALL IMMEDIATE")
        after = await touched(connection)
        counted = max(rows, after - before) if min(before, after) >= 0 else -1
    else:
        counted = rows
        if refused := change.cascading(await cascades(connection, statement)):
            return refused
    if refused := change.refused(counted):
        return refused
    change.committing = True
    await connection.execute("COMMIT")
    return change.done(rows)


async def _answered(session: _PostgresSession, statement: Statement, cursor: _Cursor) -> Success | Failed:
    columns = await _columns(session, cursor)
    if columns is None:
        return not_a_query(statement)
    answer = RowCollector(statement, columns)
    await _take(session, cursor, answer)
    return answer.success()


async def _columns(session: _PostgresSession, cursor: _Cursor) -> list[AnswerColumn] | None:
    result = cursor.pgresult
    if cursor.description is None or result is None:
        return None
    oids = [column.type_code for column in cursor.description]
    await _name_types(session, [oid for oid in oids if oid not in session.types])
    return [
        AnswerColumn(name=column.name, type=session.types[oid], computed=not result.ftable(index))
        for index, (column, oid) in enumerate(zip(cursor.description, oids, strict=True))
    ]


async def _name_types(session: _PostgresSession, oids: Sequence[int]) -> None:
    """Store the names of types in the session, such as `integer`, `text[]`, `order_status`. psycopg knows the built-in ones, the server the
    others.
    """
    asked: list[int] = []
    for oid in oids:
        info = session.connection.adapters.types.get(oid)
        if info is None:
            asked.append(oid)
        else:
            session.types[oid] = info.regtype + "[]" * (oid == info.array_oid and oid != info.oid)
    if not asked:
        return
    named = await session.connection.execute(
        "SELECT oid::int8, pg_catalog.format_type(oid, NULL) FROM pg_catalog.pg_type WHERE oid = ANY(%s::oid[])",
        (asked,),
    )
    session.types.update({int(str(oid)): str(name) for oid, name in await named.fetchall()})
    session.types.update({oid: "unknown" for oid in asked if oid not in session.types})


def _explained(error: psycopg.Error, session: _PostgresSession, statement: Statement) -> Failed:
    """Return our own message for an error of PostgreSQL. Raises it again if the connection is lost."""
    if session.connection.closed or error.sqlstate is None:
        if isinstance(error, psycopg.DataError | psycopg.ProgrammingError) and not session.connection.closed:
            return explain_sqlstate("22000", statement)  # error of psycopg itself: a parameter that cannot be sent
        raise error
    if GATHERED_SETTING in (error.diag.message_primary or ""):
        return failure_with_advice(GATHERED, statement)
    return explain_sqlstate(error.sqlstate, statement)


def _unreachable(error: psycopg.Error) -> DatabaseUnreachableError:
    """Return the reason why no session could be opened. libpq has no SQLSTATE then, so its text is searched, but not passed on."""
    said = str(error)
    for word, reason, suggestion in _REFUSALS:
        if word in said:
            return DatabaseUnreachableError(reason, suggestion)
    return DatabaseUnreachableError("the database server cannot be reached", "the operator should check it")
