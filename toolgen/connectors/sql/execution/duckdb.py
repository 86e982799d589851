"""DuckDB: a file, opened read-only for one statement, without access to files, extensions, other databases or Python's variables.

https://duckdb.org/docs/stable/operations_manual/securing_duckdb/overview: it has no users and no privileges on tables, so only the guard
decides which tables a statement reads. A file is open only while statements run, so that a writer can open it in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.engine_errors import (
    BROKEN_RULE,
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
    timed_out,
    unavailable,
)
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.connectors.sql.execution.statement_watch import StatementWatch
from toolgen.core.errors import ConfigError
from toolgen.model.call import Statement
from toolgen.model.result import Delivery, Failed, Success

try:
    import duckdb

    from toolgen.connectors.sql.execution.duckdb_values import cast_type, is_ambiguous, read_value
except ImportError as error:
    raise ConfigError(
        "the driver of DuckDB is not installed", suggestion='install it with: pip install "toolgen[duckdb]"'
    ) from error

__all__ = ["EXPLAIN", "MEMORY", "change", "query", "rest"]

EXPLAIN: Final = "EXPLAIN "
MEMORY: Final = 768 * 2**20
"""Maximum bytes of memory for statements."""

# Settings of every connection to a source's file; they cannot be changed afterwards.
_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_unsigned_extensions": "false",
        "allow_persistent_secrets": "false",
        "python_enable_replacements": "false",
        "max_temp_directory_size": "0KB",
        "memory_limit": "256MB",
        "threads": "2",
        "max_expression_depth": "250",
        "lock_configuration": "true",
    }
)

_CHANGES: Final = (duckdb.StatementType.INSERT, duckdb.StatementType.UPDATE, duckdb.StatementType.DELETE)
_FETCHED: Final = 64  # rows per fetch
_RETRY_S: Final = 1.0
# Messages by DuckDB's own classes of errors; its texts may quote the data.
_REASONS: Final = (
    (duckdb.ConstraintException, BROKEN_RULE),
    (duckdb.ConversionException, Reason(CONVERT.message, "use TRY_CAST, or filter such values out first", ("types",))),
    (
        duckdb.OutOfRangeException,
        Reason("a number is out of range", "use a wider type, or filter such values out first"),
    ),
    (
        duckdb.BinderException,
        Reason(
            "a column or a function for these argument types is not found",
            "check names and cast arguments",
            ("function", "types"),
        ),
    ),
    (duckdb.CatalogException, CHANGED),
    (
        duckdb.ParserException,
        Reason("the database parses the statement differently", "write it more simply", ("function",)),
    ),
    (
        duckdb.PermissionException,
        Reason("the session may not do what the statement requires", "send a SELECT over the listed tables"),
    ),
    (
        duckdb.InvalidInputException,
        Reason("a value is not valid for the operation", "check the function's arguments"),
    ),
    (duckdb.NotImplementedException, Reason("the database cannot do this", "write it another way")),
)
# Parts of the library's own texts; the rest of them is not passed on.
_KINDS: Final = (
    ("GROUP BY", GROUPING),
    ("cannot contain aggregates", GROUPING),
    ("cannot contain window", GROUPING),
    ("Function with name", FUNCTION),
    ("term out of range", Reason("a number in ORDER BY or GROUP BY is not a column of the result", "name the column")),
)


def rest() -> None:
    """Do nothing: no connection is kept between statements, because an open file is locked for every writer."""


def query(path: Path, statement: Statement, prefix: str, watch: StatementWatch) -> Success | Failed:
    """Return the statement's rows, or its plan, from a separate connection. `prefix` is the dialect's EXPLAIN, or ""."""
    try:
        # The library creates a missing database file, even read-only.
        if not path.is_file():
            return _unreadable()
        with duckdb.connect(str(path), read_only=True, config=dict(_SETTINGS)) as connection:
            watch.interruptible(connection.interrupt)
            try:
                return timed_out(statement) if watch.stop() else _read(connection, statement, prefix, watch)
            finally:
                watch.interruptible(None)
    except duckdb.Error as error:
        return _explained(error, statement, watch)


def change(path: Path, change: CommitState, watch: StatementWatch, committing: Callable[[], None]) -> Success | Failed:
    """Make the change on a connection with write access. DuckDB opens none while another connection reads the file.

    `committing` is called at the point after which only the reply to the commit shows if the change was made.
    """
    statement = change.statement
    try:
        if not path.is_file():
            return _unreadable()
        with duckdb.connect(str(path), config=dict(_SETTINGS)) as connection:
            watch.interruptible(connection.interrupt)
            try:
                return timed_out(statement) if watch.stop() else _write(connection, change, watch, committing)
            finally:
                watch.interruptible(None)
    except duckdb.Error as error:
        change.committing = False  # the library reports that itself
        return _explained(error, statement, watch)


def _unreadable() -> Failed:
    return failed("upstream_error", "the database cannot be read", "the operator should check the file")


def _read(
    connection: duckdb.DuckDBPyConnection, statement: Statement, prefix: str, watch: StatementWatch
) -> Success | Failed:
    parsed = connection.extract_statements(statement.sql)
    if len(parsed) != 1 or parsed[0].type is not duckdb.StatementType.SELECT:
        return not_a_query(statement)
    answer = _answer(connection, statement, prefix, watch, dates=False)
    if answer is None and not watch.stop():
        answer = _answer(connection, statement, prefix, watch, dates=True)
    return timed_out(statement) if answer is None else answer.success()


def _answer(
    connection: duckdb.DuckDBPyConnection, statement: Statement, prefix: str, watch: StatementWatch, *, dates: bool
) -> RowCollector | None:
    """Return the rows, or None if the time is up, or if a date may be infinity and `dates` are not read as texts."""
    connection.execute(prefix + statement.sql, list(statement.parameters))
    described = [(str(name), kind) for name, kind, *_ in connection.description or ()]
    casts = [cast_type(kind, dates=dates) for _, kind in described]
    if any(casts):
        # `#1` is the first column of the source in FROM, whose order DuckDB keeps.
        seen = ", ".join(f"CAST(#{place} AS {cast})" if cast else f"#{place}" for place, cast in enumerate(casts, 1))
        connection.execute(f"SELECT {seen} FROM ({statement.sql})", list(statement.parameters))  # noqa: S608 - the guard's text
    kinds = [kind for _, kind in described]
    answer = RowCollector(
        statement, [AnswerColumn(name=name, type=str(kind).strip('"').lower()) for name, kind in described]
    )
    while rows := connection.fetchmany(_FETCHED):
        if watch.stop():
            return None
        for row in rows:
            if not dates and any(map(is_ambiguous, row)):
                return None
            if not answer.take(map(read_value, row, kinds)):
                return answer
    return answer


def _write(
    connection: duckdb.DuckDBPyConnection, change: CommitState, watch: StatementWatch, committing: Callable[[], None]
) -> Success | Failed:
    """Make the change in a transaction. Closing the connection rolls it back unless it is committed."""
    statement = change.statement
    parsed = connection.extract_statements(statement.sql)
    if len(parsed) != 1 or parsed[0].type not in _CHANGES:
        return not_a_change(statement)
    connection.execute("BEGIN")
    counted = connection.execute(statement.sql, list(statement.parameters)).fetchone()
    rows = int(counted[0]) if counted else -1
    if refused := change.refused(rows):
        return refused
    if watch.stop():
        return timed_out(statement)
    change.committing = True
    watch.interruptible(None)
    committing()
    connection.execute("COMMIT")
    return change.done(rows)


def _explained(error: duckdb.Error, statement: Statement, watch: StatementWatch) -> Failed:
    """Return our own message for an error of DuckDB, because its text may quote the data."""
    delivery = Delivery(sql=statement.sql)
    if watch.stop() or isinstance(error, duckdb.InterruptException):
        return timed_out(statement)
    if isinstance(error, duckdb.OutOfMemoryException):
        return failed(
            "response_too_large",
            "the statement exceeds its memory limit",
            "reduce the result: filter, or aggregate",
            delivery,
        )
    if isinstance(error, duckdb.IOException | duckdb.ConnectionException):
        return unavailable(
            "the database file cannot be opened: it is being written, or it is not a database",
            retry_after_s=_RETRY_S,
        )
    if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
        text = str(error)
        for words, reason in _KINDS:
            if words in text:
                return failure_with_advice(reason, statement)
    return failure_with_advice(
        next((reason for kind, reason in _REASONS if isinstance(error, kind)), UNKNOWN), statement
    )
