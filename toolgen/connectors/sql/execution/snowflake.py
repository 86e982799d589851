"""Snowflake: statements over its SQL API, by a role that was checked to read only.

A statement has no session: each request names role, warehouse and database, and limits of time and rows. The server ends a statement over
its time by itself, and is asked to cancel one whose caller left.
"""

from __future__ import annotations

from typing import Final

from toolgen.connectors.sql.execution.engine_errors import (
    CHANGED,
    CONVERT,
    FUNCTION,
    GROUPING,
    UNKNOWN,
    Reason,
    failed,
    failure_with_advice,
    not_a_change,
)
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import DatabaseUnreachableError, SessionPool, most_received
from toolgen.connectors.sql.execution.snowflake_api import (
    TRANSPORT_ERRORS,
    ApiConnection,
    ApiStatement,
    FailedStatementError,
    connect,
)
from toolgen.connectors.sql.execution.snowflake_rights import refuse_writers
from toolgen.connectors.sql.execution.snowflake_values import bindings, cell, type_name
from toolgen.core.clock import Clock
from toolgen.core.errors import connection_failure
from toolgen.model.call import Statement
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Delivery, Failed, Success

__all__ = ["SnowflakeEngine", "statement_of"]

_EXPLAIN: Final = "EXPLAIN USING TEXT "
_CHECK_S: Final = 300.0  # seconds for which the rights of the role are taken as checked
# Numbers of errors, which no text follows: a text of the server may quote data.
# https://docs.snowflake.com/en/user-guide/sql-api-error-codes has a part, https://docs.snowflake.com/en/developer-guide/sql-api/reference
# the form. The class of SQLSTATE decides on those that are not listed.
_CODES: Final = {
    "001003": Reason("the database parses the statement differently", "write it more simply", ("function",)),
    "002003": CHANGED,
    "000904": CHANGED,
    "002140": FUNCTION,
    "000979": GROUPING,
    "100038": CONVERT,
    "100051": Reason("division by zero", "use NULLIF(divisor, 0)"),
    "000606": Reason("the statement has no warehouse to run on", "tell the operator", code="upstream_error"),
    "003001": Reason("the role of the gateway may not do this", "tell the operator", code="upstream_error"),
}
_STATES: Final = (
    ("22012", Reason("division by zero", "use NULLIF(divisor, 0)")),
    ("22", CONVERT),
    ("42601", Reason("the database parses the statement differently", "write it more simply", ("function",))),
    ("42501", Reason("the role of the gateway may not do this", "tell the operator", code="upstream_error")),
    ("42S", CHANGED),
    ("02000", CHANGED),
    ("0A000", Reason("the database cannot do this", "write it another way")),
)


class SnowflakeEngine:
    """Engine for statements on a database of an account."""

    def __init__(self, location: ServerLocation, reach: Reach, clock: Clock) -> None:
        self._sessions = SessionPool(_SnowflakeDriver(location, reach, clock), location, clock)

    async def run(self, statement: Statement) -> Success | Failed:
        return await self._read(statement, "")

    async def change(self, statement: Statement) -> Success | Failed:
        return not_a_change(statement)

    async def explain(self, statement: Statement) -> Success | Failed:
        return await self._read(statement, _EXPLAIN)

    async def close(self) -> None:
        await self._sessions.close()

    async def _read(self, statement: Statement, prefix: str) -> Success | Failed:
        async def work(connection: ApiConnection) -> Success | Failed:
            return await _answered(connection, statement, prefix)

        return await self._sessions.run(statement, work, TRANSPORT_ERRORS)


class _SnowflakeDriver:
    """Driver of connections: `toolgen.connectors.sql.execution.connections.Driver`."""

    def __init__(self, location: ServerLocation, reach: Reach, clock: Clock) -> None:
        self._location = location
        self._reach = reach
        self._clock = clock
        self._checked_until = -1.0

    async def open(self) -> ApiConnection:
        connection = await self._connect()
        try:
            await self._check(connection)
        except FailedStatementError as error:
            await connection.close()
            raise DatabaseUnreachableError(
                "the rights of the role cannot be read", "check the role of the location, and that its user has it"
            ) from error
        except TRANSPORT_ERRORS as error:
            await connection.close()
            raise DatabaseUnreachableError(f"Snowflake does not answer: {connection_failure(error)[0]}") from None
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _connect(self) -> ApiConnection:
        return await connect(self._location, self._reach, await self._reach.password())

    async def _check(self, connection: ApiConnection) -> None:
        if self._clock.monotonic() < self._checked_until:
            return
        await refuse_writers(connection, self._location.connect_timeout_s)
        self._checked_until = self._clock.monotonic() + _CHECK_S

    async def begin(self, connection: ApiConnection, timeout_s: float) -> None:
        """Do nothing: a request has its own settings."""

    async def end(self, connection: ApiConnection) -> None:
        """Do nothing: a statement has no effect on the next one."""

    async def abandon(self, connection: ApiConnection) -> bool:
        """Cancel the statement over a separate connection, because an answer may still arrive on this one."""
        await connection.close()
        if connection.running:
            other = await self._connect()
            try:
                other.running = connection.running
                if await other.cancel():
                    connection.running = ""
            finally:
                await other.close()
        return not connection.running

    async def gone(self, connection: ApiConnection) -> bool:
        other = await self._connect()
        try:
            other.running = connection.running
            return await other.ended()
        finally:
            await other.close()


def statement_of(statement: Statement, prefix: str = "") -> ApiStatement:
    """Return a checked statement for the API, with one row more than are answered."""
    return ApiStatement(
        sql=f"{prefix}{statement.sql}",
        bindings=bindings(statement.parameters),
        timeout_s=statement.timeout_s,
        max_rows=statement.max_rows + 1,
        most=most_received(statement),
    )


async def _answered(connection: ApiConnection, statement: Statement, prefix: str) -> Success | Failed:
    try:
        columns, rows = await connection.execute(statement_of(statement, prefix))
        answer = RowCollector(statement, [AnswerColumn(name=column.name, type=type_name(column)) for column in columns])
        async for row in rows:
            if not answer.take(cell(text, column) for text, column in zip(row, columns, strict=True)):
                break
        return answer.success()
    except FailedStatementError as error:
        return _explained(error, statement)
    except DatabaseUnreachableError as error:
        return failed("upstream_unavailable", error.reason, error.suggestion, Delivery(sql=statement.sql))


def _explained(error: FailedStatementError, statement: Statement) -> Failed:
    reason = _CODES.get(error.code)
    if reason is None:
        reason = next((known for state, known in _STATES if error.state.startswith(state)), UNKNOWN)
    return failure_with_advice(reason, statement)
