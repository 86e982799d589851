"""SQL Server: a statement by `sp_executesql` in a transaction that is rolled back; an attention message ends one over its limit.

The driver blocks, so that each exchange runs in a thread of the source. No SQL Server took part in the tests: see
docs/how-to/databases/sql-server.md.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from msgspec import Struct

from toolgen.connectors.sql.execution.connections import LostConnectionError
from toolgen.connectors.sql.execution.engine_errors import (
    BUSY,
    CHANGED,
    CONVERT,
    FUNCTION,
    GROUPING,
    UNKNOWN,
    Reason,
    failed,
    failure_with_advice,
    not_a_change,
    not_a_query,
)
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector, shortest_float
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import DatabaseUnreachableError, SessionPool, most_received
from toolgen.connectors.sql.execution.tds_connection import (
    BrokenConnectionError,
    TdsConnection,
    TdsServerError,
    dial,
    tls_context,
)
from toolgen.core.clock import Clock
from toolgen.model.call import Statement
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Delivery, Failed, Success

__all__ = ["RIGHTS", "SETTINGS", "TsqlEngine", "numbered", "reason_of"]

SETTINGS: Final = (
    "SET NOCOUNT ON; SET XACT_ABORT ON; SET QUOTED_IDENTIFIER ON; SET ANSI_NULLS ON; SET ANSI_PADDING ON; SET ANSI_WARNINGS ON;"
    " SET ARITHABORT ON; SET CONCAT_NULL_YIELDS_NULL ON; SET NUMERIC_ROUNDABORT OFF; SET IMPLICIT_TRANSACTIONS OFF;"
    " SET ROWCOUNT 0; SET TEXTSIZE 2147483647; SET LANGUAGE us_english; SET DATEFORMAT ymd; SET DATEFIRST 7;"
    " SET DEADLOCK_PRIORITY LOW; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCK_TIMEOUT {}; BEGIN TRANSACTION;"
)
"""Settings of a session, with its milliseconds for a lock. QUOTED_IDENTIFIER: the guard reads "…" as a name."""

# Rights of an account that only reads, and that every account has by PUBLIC.
# https://learn.microsoft.com/en-us/sql/relational-databases/system-functions/sys-fn-my-permissions-transact-sql
_HARMLESS: Final = (
    "N'CONNECT', N'CONNECT SQL', N'SELECT', N'REFERENCES', N'SHOWPLAN', N'VIEW DEFINITION', N'VIEW DATABASE STATE',"
    " N'VIEW DATABASE PERFORMANCE STATE', N'VIEW SECURITY DEFINITION', N'VIEW PERFORMANCE DEFINITION', N'VIEW ANY DATABASE',"
    " N'VIEW ANY DEFINITION', N'VIEW ANY COLUMN MASTER KEY DEFINITION', N'VIEW ANY COLUMN ENCRYPTION KEY DEFINITION',"
    " N'VIEW ANY PERFORMANCE DEFINITION', N'VIEW ANY SECURITY DEFINITION', N'VIEW SERVER STATE',"
    " N'VIEW SERVER PERFORMANCE STATE', N'VIEW SERVER SECURITY STATE', N'VIEW DATABASE SECURITY STATE', N'VIEW LEDGER CONTENT'"
)
# Texts of catalogs can have several collations, which a UNION does not take.
RIGHTS: Final = (
    "SELECT p.entity_name COLLATE Latin1_General_BIN2 AS place, p.permission_name COLLATE Latin1_General_BIN2 AS permission"  # noqa: S608 - texts of our own
    f" FROM sys.fn_my_permissions(NULL, N'SERVER') AS p WHERE p.permission_name NOT IN ({_HARMLESS})"
    " UNION ALL SELECT p.entity_name COLLATE Latin1_General_BIN2, p.permission_name COLLATE Latin1_General_BIN2"
    f" FROM sys.fn_my_permissions(NULL, N'DATABASE') AS p WHERE p.permission_name NOT IN ({_HARMLESS})"
    " UNION ALL SELECT (s.name + N'.' + o.name) COLLATE Latin1_General_BIN2, p.name COLLATE Latin1_General_BIN2"
    " FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id"
    " CROSS JOIN (SELECT N'INSERT' AS name UNION ALL SELECT N'UPDATE' UNION ALL SELECT N'DELETE' UNION ALL SELECT N'EXECUTE'"
    " UNION ALL SELECT N'ALTER' UNION ALL SELECT N'CONTROL' UNION ALL SELECT N'TAKE OWNERSHIP') AS p"
    " WHERE o.is_ms_shipped = 0 AND HAS_PERMS_BY_NAME(QUOTENAME(s.name) + N'.' + QUOTENAME(o.name), N'OBJECT', p.name) = 1"
)
"""Query for the rights of the account that go beyond reading: on the server, on the database and on its objects."""

_MAX_RIGHTS: Final = 100_000  # bytes
_ROLLBACK: Final = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;"
_ATTENTION_S: Final = 3.0
_MAX_LOCK_S: Final = 2.0
_LOGIN_FAILED: Final = frozenset({18456, 18452, 18486, 18487, 18488})
_NO_DATABASE: Final = frozenset({4060, 911})
_DENIED: Final = Reason(
    "the database account may not read this", "the operator should compare the account with the policy: toolgen doctor"
)
_TOO_MUCH: Final = Reason(
    "the statement needs more memory or space than the server gives", "reduce the result: filter, or aggregate"
)
_ZERO: Final = Reason("division by zero", "use NULLIF(divisor, 0)")
_RANGE: Final = Reason("a number is out of range", "cast it to bigint, decimal(38, 6) or float first")
_SYNTAX: Final = Reason("the database parses the statement differently", "write it more simply", ("function",))
# https://learn.microsoft.com/en-us/sql/relational-databases/errors-events/database-engine-events-and-errors
_NUMBERS: Final = {
    102: _SYNTAX, 105: _SYNTAX, 156: _SYNTAX, 170: _SYNTAX, 319: _SYNTAX,
    145: Reason("ORDER BY of a SELECT DISTINCT has a column that is not selected", "select the column too"),
    147: GROUPING, 164: GROUPING, 8120: GROUPING, 8121: GROUPING, 8124: GROUPING, 8127: GROUPING, 130: GROUPING,
    169: Reason("ORDER BY has a column twice", "name each column once"),
    174: FUNCTION, 189: FUNCTION, 195: FUNCTION, 10764: FUNCTION, 4121: FUNCTION,
    205: Reason("the sides of a set operation have different numbers of columns", "make them the same"),
    207: CHANGED, 208: CHANGED, 4104: CHANGED, 4413: CHANGED, 2812: CHANGED,
    209: Reason("a column name is ambiguous", "write table.column"),
    220: _RANGE, 232: _RANGE, 8115: _RANGE, 517: Reason("a date is out of range", "use dates that exist"),
    229: _DENIED, 230: _DENIED, 297: _DENIED, 300: _DENIED, 262: _DENIED, 371: _DENIED, 916: _DENIED,
    241: CONVERT, 242: CONVERT, 243: CONVERT, 244: CONVERT, 245: CONVERT, 248: CONVERT, 257: CONVERT, 295: CONVERT,
    8114: CONVERT, 8169: CONVERT, 529: CONVERT, 206: CONVERT, 402: CONVERT, 8117: CONVERT, 9807: CONVERT,
    306: Reason("a column of type text, ntext, image or xml is compared or sorted", "cast it to nvarchar(4000)"),
    468: Reason("two texts are compared by different collations", "add COLLATE DATABASE_DEFAULT to one of them"),
    512: Reason("a subquery returns more than one row where one is allowed", "write SELECT TOP 1, or use IN"),
    530: Reason("a recursion has more than 100 steps", "end it earlier, with a condition in its second query"),
    537: Reason("a length or a position is negative", "check the numbers"),
    536: Reason("a length or a position is negative", "check the numbers"),
    701: _TOO_MUCH, 802: _TOO_MUCH, 1105: _TOO_MUCH, 8645: _TOO_MUCH, 8623: _TOO_MUCH, 8631: _TOO_MUCH, 8632: _TOO_MUCH,
    1033: Reason("ORDER BY is in a subquery without TOP", "leave it out there, or write TOP"),
    1205: BUSY, 1222: BUSY, 3960: BUSY,
    8134: _ZERO,
    8155: Reason("a column of a subquery has no name", "give each a name with AS"),
    8156: Reason("two columns of a subquery have one name", "give one another name with AS"),
    13608: Reason("a JSON path does not exist", "write paths like '$.name'"),
    13609: Reason("a value is not JSON", "filter with ISJSON(x) = 1 first"),
}  # fmt: skip
T = TypeVar("T")


class _TsqlSession(Struct, kw_only=True):
    connection: TdsConnection
    working: Future[Any] | None = None
    """Exchange in a thread, while it runs."""


class TsqlEngine:
    """Engine for statements on the database at `location`."""

    def __init__(self, location: ServerLocation, reach: Reach, clock: Clock) -> None:
        self._driver = _TsqlDriver(location, reach)
        self._sessions = SessionPool(self._driver, location, clock)

    async def run(self, statement: Statement) -> Success | Failed:
        async def work(session: _TsqlSession) -> Success | Failed:
            return await self._driver.exchange(session, lambda: _read(session.connection, statement))

        return await self._sessions.run(statement, work, (BrokenConnectionError,))

    async def change(self, statement: Statement) -> Success | Failed:
        return not_a_change(statement)

    async def explain(self, statement: Statement) -> Success | Failed:
        """Refuse: no tool asks for a plan, which would need a session that answers every statement with its plan."""
        return failed(
            "sql_failed",
            "plans of SQL Server are not shown",
            "run the statement with TOP 10",
            Delivery(sql=statement.sql),
        )

    async def close(self) -> None:
        await self._sessions.close()
        self._driver.end_threads()


class _TsqlDriver:
    """Driver of the sessions of a server: `toolgen.connectors.sql.execution.connections.Driver`."""

    def __init__(self, location: ServerLocation, reach: Reach) -> None:
        self._location = location
        self._reach = reach
        # Abandoned sessions use a thread until the server answers or their socket is closed.
        self._threads = ThreadPoolExecutor(max_workers=2 * location.pool_size + 1, thread_name_prefix="tds")

    def end_threads(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def exchange(self, session: _TsqlSession, work: Callable[[], T]) -> T:
        """Run `work` in a thread. If the caller is cancelled, it continues until `abandon`."""
        try:
            working = self._threads.submit(work)
        except RuntimeError:  # the engine was closed
            raise BrokenConnectionError from None
        session.working = working
        return await asyncio.wrap_future(working)

    async def open(self) -> _TsqlSession:
        location = self._location
        try:
            addresses = await self._reach.addresses(location)
        except OSError as error:
            raise DatabaseUnreachableError(
                "the name of the database server cannot be resolved", "the operator should check its host"
            ) from error
        try:
            context = tls_context(location)
        except OSError as error:
            raise DatabaseUnreachableError(
                "a certificate for the database cannot be read",
                "the operator should check sslrootcert, sslcert and sslkey",
            ) from error
        secret = await self._reach.password()
        failure: Exception | None = None
        for address in addresses:
            try:
                dialled = await self._dial(address)
            except OSError as error:
                failure = error
                continue
            session = _TsqlSession(connection=TdsConnection(dialled, location, context))
            try:
                await self._enter(session, secret.reveal() if secret is not None else "")
            except (TdsServerError, BrokenConnectionError) as error:
                session.connection.close()
                failure = error
            except BaseException:
                session.connection.close()
                raise
            else:
                return session
        raise _unreachable(failure)

    async def _dial(self, address: str) -> socket.socket:
        """Connect to an address. If the caller is cancelled meanwhile, the socket is closed."""
        try:
            dialling = self._threads.submit(dial, address, self._location)
        except RuntimeError as error:
            raise OSError("the engine was closed") from error
        try:
            async with asyncio.timeout(self._location.connect_timeout_s):
                return await asyncio.wrap_future(dialling)
        except BaseException:
            dialling.add_done_callback(_close_dialled)
            raise

    async def _enter(self, session: _TsqlSession, password: str) -> None:
        async with asyncio.timeout(2 * self._location.connect_timeout_s):
            await self.exchange(session, lambda: _enter(session.connection, password))

    async def begin(self, session: _TsqlSession, timeout_s: float) -> None:
        waiting = max(1, int(1000 * min(timeout_s, _MAX_LOCK_S)))
        try:
            await self.exchange(session, lambda: session.connection.batch(SETTINGS.format(waiting)))
        except (TdsServerError, BrokenConnectionError) as error:
            raise LostConnectionError from error

    async def end(self, session: _TsqlSession) -> None:
        await self.exchange(session, lambda: session.connection.batch(_ROLLBACK))

    async def abandon(self, session: _TsqlSession) -> bool:
        """Ask the server to stop the statement, and close the connection. Return True if nothing runs, or the server reported the end."""
        working, connection = session.working, session.connection
        try:
            if working is None or working.done():
                return True
            # The attention waits if the statement is still being sent to a server that does not read.
            ending = [asyncio.wrap_future(one) for one in (self._threads.submit(connection.cancel), working)]
            for one in ending:
                one.add_done_callback(_ignore_result)
            await asyncio.wait(ending, timeout=_ATTENTION_S)
        except RuntimeError:
            pass  # the engine was closed
        finally:
            connection.close()
        return connection.acknowledged

    async def gone(self, _session: _TsqlSession) -> bool:
        """Return True if the server takes a new connection. An account that only reads does not see other sessions, so that the end of a
        statement that was not acknowledged is not known: the server ends it when it notices the closed connection.
        """
        other = await self.open()
        other.connection.close()
        return True


def _close_dialled(dialling: Future[socket.socket]) -> None:
    if not dialling.cancelled() and dialling.exception() is None:
        dialling.result().close()


def _ignore_result(ended: asyncio.Future[Any]) -> None:
    """Take the exception of an exchange whose caller is gone, so that it is not logged."""
    if not ended.cancelled():
        ended.exception()


def _enter(connection: TdsConnection, password: str) -> None:
    """Log in, and refuse an account that may do more than read. Raises `DatabaseUnreachableError` for it."""
    connection.login(password)
    connection.execute(RIGHTS, [], _MAX_RIGHTS)
    found = next(connection.rows(), None)
    if found is None:
        connection.end()
    else:
        raise DatabaseUnreachableError(
            "the account of the database may do more than read",
            "the operator should use an account with SELECT alone: toolgen doctor lists its rights",
        )


def _unreachable(failure: Exception | None) -> DatabaseUnreachableError:
    match failure:
        case TdsServerError(number=number) if number in _LOGIN_FAILED:
            return DatabaseUnreachableError(
                "the database does not accept the gateway's credentials", "the operator should check user and password"
            )
        case TdsServerError(number=number) if number in _NO_DATABASE:
            return DatabaseUnreachableError("the server has no such database", "the operator should check its name")
        case TdsServerError() | BrokenConnectionError():
            return DatabaseUnreachableError(
                "no session with the database server can be opened", "the operator should check sslmode and the server"
            )
    return DatabaseUnreachableError("the database server cannot be reached", "the operator should check it")


def _read(connection: TdsConnection, statement: Statement) -> Success | Failed:
    try:
        columns = connection.execute(numbered(statement.sql), statement.parameters, most_received(statement))
        if not columns:
            connection.end()
            return not_a_query(statement)
        answer = RowCollector(
            statement,
            [
                AnswerColumn(name=column.name or f"column_{place}", type=column.type)
                for place, column in enumerate(columns, 1)
            ],
        )
        short = [place for place, column in enumerate(columns) if column.type == "real"]
        for row in connection.rows():
            for place in short:
                if isinstance(value := row[place], float):
                    row[place] = shortest_float(value)
            if not answer.take(row):
                connection.stop()
                return answer.success()
        return not_a_query(statement) if connection.end() else answer.success()
    except TdsServerError as error:
        connection.stop()
        return failure_with_advice(reason_of(error.number), statement)


def reason_of(number: int) -> Reason:
    """Return our own message for the number of an error of the server."""
    return _NUMBERS.get(number, UNKNOWN)


def numbered(sql: str) -> str:
    """Return a rendered text with `@P1`, `@P2` and so on for each `?` outside of quotes. One with numbers has no `?`."""
    parts: list[str] = []
    quote = ""
    count = 0
    for sign in sql:
        if quote:
            quote = "" if sign == quote else quote
        elif sign == "'":
            quote = "'"
        elif sign == "[":
            quote = "]"
        elif sign == "?":
            count += 1
            parts.append(f"@P{count}")
            continue
        parts.append(sign)
    return "".join(parts)
