"""MySQL and MariaDB: a prepared statement in a read-only transaction on a connection that was reset; KILL ends a statement over its
limit.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from toolgen.connectors.secrets import Secret
from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.connections import LostConnectionError
from toolgen.connectors.sql.execution.engine_errors import explain_errno, failed, not_a_change, not_a_query
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import DatabaseUnreachableError, SessionPool, most_received
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError
from toolgen.model.call import Statement
from toolgen.model.database import MYSQL_CASCADES_OF, MYSQL_TABLE_NAMES, Cascade, mysql_table_names
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Delivery, Failed, Success
from toolgen.model.schema import Json

try:
    from pymysql.err import InterfaceError, MySQLError

    from toolgen.connectors.sql.execution.mysql_protocol import (
        NamedContext,
        PreparedStatement,
        ResultField,
        WireConnection,
    )
except ImportError as error:
    raise ConfigError(
        "the driver of MySQL and MariaDB is not installed", suggestion='install it with: pip install "toolgen[mysql]"'
    ) from error

__all__ = ["MysqlEngine"]

_LOST: Final = frozenset({0, 2006, 2013, 2014, 2055, 1053, 1080, 1927, 4031})
# Without ANSI_QUOTES, NO_BACKSLASH_ESCAPES, PIPES_AS_CONCAT and IGNORE_SPACE: the guard reads '…' and "…" as texts with backslashes.
_TRANSACTIONAL: Final = (
    "SELECT 1 FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine"
    " WHERE t.table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND t.table_name = ? AND e.transactions = 'YES'"
)
_STILL_THERE: Final = "SELECT 1 FROM information_schema.processlist WHERE id = ?"
_FEW_BYTES: Final = 65_536
# MariaDB silently stops a recursion of more than 1,000 steps, and MySQL raises an error: here time and space limit it.
_MARIADB: Final = (
    "max_recursive_iterations = 4294967295",
    "tmp_disk_table_size = 268435456",
    "max_session_mem_used = 268435456",
)
_EXPLAIN: Final = "EXPLAIN "
_MYSQL: Final = ("cte_max_recursion_depth = 4294967295",)
_SQL_MODE: Final = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


class _MySQLSession(Struct, kw_only=True):
    connection: WireConnection
    mariadb: bool
    table_names: str = ""  # the server's comparison of table names, as in `Database`
    streams: bool = False  # rows are still arriving, so no other command can be sent


class MysqlEngine:
    """Engine for statements on the database at `location`."""

    def __init__(self, location: ServerLocation, reach: Reach, clock: Clock) -> None:
        self._sessions = SessionPool(_MysqlDriver(location, reach), location, clock)

    async def run(self, statement: Statement) -> Success | Failed:
        async def work(session: _MySQLSession) -> Success | Failed:
            return await _guarded(session, statement, explain=False)

        return await self._sessions.run(statement, work, (MySQLError,))

    async def change(self, statement: Statement) -> Success | Failed:
        change = CommitState(statement)

        async def work(session: _MySQLSession) -> Success | Failed:
            try:
                return await _change(session, change)
            except MySQLError as error:
                explained = _explained(error, session, statement)
                change.committing = False  # the server refused
                return explained

        return change.ended(await self._sessions.run(statement, work, (MySQLError,)))

    async def explain(self, statement: Statement) -> Success | Failed:
        async def work(session: _MySQLSession) -> Success | Failed:
            return await _guarded(session, statement, explain=True)

        return await self._sessions.run(statement, work, (MySQLError,))

    async def close(self) -> None:
        await self._sessions.close()


class _MysqlDriver:
    """Driver of the sessions of a server: `toolgen.connectors.sql.execution.connections.Driver`."""

    def __init__(self, location: ServerLocation, reach: Reach) -> None:
        self._location = location
        self._reach = reach

    async def open(self) -> _MySQLSession:
        connection = await self._connect()
        session = _MySQLSession(connection=connection, mariadb="mariadb" in str(connection.get_server_info()).lower())
        try:
            session.table_names = mysql_table_names((await _listed(session, MYSQL_TABLE_NAMES, []))[0][0])
        except BaseException:
            connection.close()
            raise
        return session

    async def _connect(self) -> WireConnection:
        location = self._location
        try:
            addresses = await self._reach.addresses(location)
        except OSError as error:
            raise DatabaseUnreachableError(
                "the name of the database server cannot be resolved", "the operator should check its host"
            ) from error
        secret = await self._reach.password()
        failure: MySQLError | None = None
        for address in addresses or [""]:
            connection = self._connection(address, secret)
            try:
                async with asyncio.timeout(location.connect_timeout_s):
                    await connection.connect()
            except MySQLError as error:
                failure = error
                connection.close()
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise _unreachable(failure)

    def _connection(self, address: str, secret: Secret | None) -> WireConnection:
        location = self._location
        return WireConnection(
            host=address,
            port=location.port,
            unix_socket=location.socket or None,
            user=location.user,
            # aiomysql sends passwords in Latin-1 and servers store UTF-8: so the UTF-8 bytes are passed as Latin-1.
            password=secret.reveal().encode().decode("latin-1") if secret is not None else "",
            db=location.database,
            charset="utf8mb4",
            autocommit=None,
            # our own timeout surrounds it: before Python 3.12 `wait_for` can lose a cancellation
            connect_timeout=None,
            ssl=_tls(location),
            program_name="toolgen",
            requires_tls=location.sslmode if location.sslmode not in {"disable", "prefer"} else "",
        )

    async def begin(self, session: _MySQLSession, timeout_s: float) -> None:
        try:
            connection = session.connection
            await connection.reset()
            await connection.command(_settings(timeout_s, mariadb=session.mariadb))
            await connection.command("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await connection.command("START TRANSACTION READ ONLY")
        except MySQLError as error:
            raise LostConnectionError from error

    async def end(self, session: _MySQLSession) -> None:
        if session.streams:
            raise LostConnectionError
        await session.connection.command("ROLLBACK")

    async def abandon(self, session: _MySQLSession) -> bool:
        """Kill the connection at the server. A closed connection does not end its statement: the server notices at its next write, which
        may never come.
        """
        session.connection.close()
        if session.streams:
            killer = await self._connect()
            try:
                await killer.command(
                    f"KILL {'HARD' if session.mariadb else ''} CONNECTION {int(session.connection.thread_id())}"
                )
            finally:
                killer.close()
        return not session.streams

    async def gone(self, session: _MySQLSession) -> bool:
        """Return True if the server no longer lists the connection. A killed connection is listed until its statement checks, and some
        functions do not.
        """
        other = await self.open()
        try:
            return not await _listed(other, _STILL_THERE, [int(session.connection.thread_id())])
        finally:
            other.connection.close()


def _tls(location: ServerLocation) -> ssl.SSLContext | None:
    if location.sslmode == "disable" or location.socket:
        return None
    context = NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.name = location.host
    context.check_hostname = location.sslmode == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if location.sslmode.startswith("verify") else ssl.CERT_NONE
    files = location.certificates
    try:
        if context.verify_mode is ssl.CERT_REQUIRED:
            context.load_default_certs() if "sslrootcert" not in files else context.load_verify_locations(
                files["sslrootcert"]
            )
        if "sslcert" in files:
            context.load_cert_chain(files["sslcert"], files.get("sslkey"))
    except OSError as error:
        raise DatabaseUnreachableError(
            "a certificate for the database cannot be read", "the operator should check sslrootcert, sslcert and sslkey"
        ) from error
    return context


def _settings(timeout_s: float, *, mariadb: bool) -> str:
    milliseconds = max(1, int(timeout_s * 1000))
    limit = f"max_statement_time = {milliseconds / 1000:.3f}" if mariadb else f"max_execution_time = {milliseconds}"
    waiting = max(1, min(int(timeout_s), 2))
    return ", SESSION ".join(
        (
            f"SET NAMES utf8mb4, SESSION sql_mode = '{_SQL_MODE}'",
            limit,
            f"lock_wait_timeout = {waiting}",
            f"innodb_lock_wait_timeout = {waiting}",
            "tmp_table_size = 33554432",
            "max_heap_table_size = 33554432",
            # Up to seven tables are joined in the best order. Without a limit a server searches for it among 19 filtered tables for
            # minutes.
            "optimizer_search_depth = 0",
            *(_MARIADB if mariadb else _MYSQL),
            "sql_safe_updates = 1",
            "autocommit = 0",
        )
    )


def _compares_otherwise(session: _MySQLSession, statement: Statement) -> Failed | None:
    """Return a failure if the server compares names of tables differently than at the build: it could take two names of the guard for
    one.
    """
    if statement.table_names in {"", session.table_names}:
        return None
    return failed(
        "upstream_error",
        "the database server compares names of tables differently than at the build of this source (lower_case_table_names)",
        "the operator should run `toolgen build` again",
        Delivery(sql=statement.sql),
    )


async def _guarded(session: _MySQLSession, statement: Statement, *, explain: bool) -> Success | Failed:
    if refused := _compares_otherwise(session, statement):
        return refused
    try:
        # The server parses it before anything runs: a statement without a result is not a query. A plan is made only of a query.
        prepared = await _prepare(session, statement.sql)
        if not prepared.columns or prepared.parameters != len(statement.parameters):
            return not_a_query(statement)
        # ANALYZE TABLE and similar statements have rows and run in a read-only transaction, but have no plan.
        plan = await _prepare(session, _EXPLAIN + statement.sql)
        return await _read(session, plan if explain else prepared, statement)
    except MySQLError as error:
        return _explained(error, session, statement)


def _explained(error: MySQLError, session: _MySQLSession, statement: Statement) -> Failed:
    """Return our own message for an error of the server. Raises it again if the connection is lost."""
    number = _number(error)
    if number in _LOST or isinstance(error, InterfaceError) or session.connection.closed:
        raise error
    session.streams = False  # an error ends the stream
    return explain_errno(number, statement, str(error))


async def _change(session: _MySQLSession, change: CommitState) -> Success | Failed:
    """Run a change in a transaction that may write, which replaces the read-only one. The end of the session rolls back an uncommitted
    change.
    """
    statement, connection = change.statement, session.connection
    if refused := _compares_otherwise(session, statement):
        return refused
    await connection.command("ROLLBACK")
    # The limit is the number of rows, not keys: the rows counted before the commit may have any WHERE.
    await connection.command("SET SESSION sql_safe_updates = 0")
    await connection.command("SET SESSION TRANSACTION READ WRITE")
    await connection.command("START TRANSACTION READ WRITE")
    for table in sorted(statement.tables):
        if not await _rolls_back(session, table):
            return failed(
                "upstream_error",
                "the table's storage engine cannot roll back a change, so its rows cannot be counted before the commit",
                "the operator can move the table to InnoDB",
                Delivery(sql=statement.sql),
            )
    prepared = await _prepare(session, statement.sql)
    if prepared.columns or prepared.parameters != len(statement.parameters):
        return not_a_change(statement)
    session.streams = True  # if the call is cancelled now, the statement must be killed
    rows = await connection.change(prepared, statement.parameters)
    session.streams = False
    if not statement.cascades and (refused := change.cascading(await _cascades(session, statement))):
        return refused
    if refused := change.refused(rows):
        return refused
    change.committing = True
    await connection.command("COMMIT")
    return change.done(rows)


async def _cascades(session: _MySQLSession, statement: Statement) -> list[Cascade]:
    found: list[Cascade] = []
    for table in statement.tables:
        listed = await _listed(session, MYSQL_CASCADES_OF, [table.rpartition(".")[2]] * 4)
        found += [
            Cascade(on=str(kind), by=str(what), columns=(str(column),) if column else ())
            for _, kind, what, column in listed
        ]
    return found


async def _rolls_back(session: _MySQLSession, table: str) -> bool:
    schema, _, name = table.rpartition(".")
    return bool(await _listed(session, _TRANSACTIONAL, [schema, name]))


async def _listed(session: _MySQLSession, question: str, values: list[Json]) -> list[Sequence[object]]:
    """Return all rows of a query of our own."""
    prepared = await _prepare(session, question)
    session.streams = True
    fields = await session.connection.execute(prepared, values)
    found: list[Sequence[object]] = [row async for row in session.connection.rows(fields, _FEW_BYTES, _FEW_BYTES)]
    session.streams = False
    return found


async def _prepare(session: _MySQLSession, sql: str) -> PreparedStatement:
    session.streams = True
    prepared = await session.connection.prepare(sql)
    session.streams = False
    return prepared


async def _read(session: _MySQLSession, prepared: PreparedStatement, statement: Statement) -> Success | Failed:
    session.streams = True
    fields = await session.connection.execute(prepared, statement.parameters)
    if not fields:
        session.streams = False
        return not_a_query(statement)
    answer = RowCollector(statement, [_column(field) for field in fields])
    rows = session.connection.rows(fields, most_received(statement), statement.max_cell_bytes)
    async for row in rows:
        nested = any(isinstance(value, (list, dict)) for value in row)
        # Rows with documents are processed in a thread, because the event loop has other work.
        if not (await asyncio.to_thread(answer.take, row) if nested else answer.take(row)):
            return answer.success()  # rows are still arriving: `end` detects that and discards the connection
    session.streams = False
    return answer.success()


def _column(field: ResultField) -> AnswerColumn:
    return AnswerColumn(name=field.name, type=field.type, computed=not field.table)


def _number(error: BaseException) -> int:
    number = error.args[0] if error.args else 0
    return number if isinstance(number, int) else 0


def _unreachable(error: BaseException | None) -> DatabaseUnreachableError:
    match _number(error) if error is not None else 0:
        case 1045 | 1044 | 1698 | 2061:
            return DatabaseUnreachableError(
                "the database does not accept the gateway's credentials", "the operator should check user and password"
            )
        case 1049:
            return DatabaseUnreachableError("the server has no such database", "the operator should check its name")
        case 1040 | 1203 | 1226:
            return DatabaseUnreachableError("the database server takes no more connections")
        case 2026:
            return DatabaseUnreachableError(
                "no TLS connection to the database can be made", "the operator should check sslmode"
            )
    return DatabaseUnreachableError("the database server cannot be reached", "the operator should check it")
