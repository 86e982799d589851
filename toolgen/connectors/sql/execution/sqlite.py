"""SQLite: a file, opened read-only unless a statement changes it; its errors are replaced by our own messages."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.engine_errors import (
    BROKEN_RULE,
    UNKNOWN,
    Reason,
    failed,
    failure_with_advice,
    not_a_change,
    not_a_query,
    timed_out,
)
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.connectors.sql.execution.sqlite_session import MAX_VALUE_LENGTH, CachedConnection, writer
from toolgen.connectors.sql.execution.statement_watch import StatementWatch
from toolgen.model.call import Statement
from toolgen.model.database import Cascade
from toolgen.model.result import Delivery, Failed, Success

__all__ = ["EXPLAIN", "MEMORY", "change", "query", "rest"]

EXPLAIN: Final = "EXPLAIN QUERY PLAN "
MEMORY: Final = 256 * 2**20
"""Maximum bytes of memory for statements."""

_READER: Final = CachedConnection()

# Starts of SQLite's messages. The rest may quote values of the data, so only our own messages are passed on.
_REASONS: Final = (
    ("no such function", Reason("a function is not built into this database", "compute it another way", ("function",))),
    (
        "wrong number of arguments",
        Reason(
            "a function was called with the wrong number of arguments", "check the function's arguments", ("function",)
        ),
    ),
    (
        "misuse of aggregate",
        Reason("an aggregate is not allowed in its place", "use HAVING, or a subquery", ("grouping",)),
    ),
    (
        "misuse of window function",
        Reason("a window function is not allowed in its place", "use a subquery", ("grouping",)),
    ),
    (
        "misuse of aliased window",
        Reason("a window function is not allowed in its place", "use a subquery", ("grouping",)),
    ),
    ("ambiguous column name", Reason("a column name is ambiguous", "write table.column")),
    ("malformed JSON", Reason("a value is not JSON", "filter with json_valid first")),
    ("JSON path error", Reason("a JSON path is malformed", "write paths like '$.name'")),
    ("bad JSON path", Reason("a JSON path is malformed", "write paths like '$.name'")),
    ("integer overflow", Reason("a sum or product is too large for an integer", "use total() or convert to REAL")),
    (
        "SELECTs to the left and right",
        Reason("the sides of a set operation have different numbers of columns", "make them the same"),
    ),
    (
        "sub-select returns",
        Reason("a subquery returns the wrong number of columns", "select as many columns as it is compared with"),
    ),
    (
        "ORDER BY term",
        Reason("an ORDER BY term does not match a column of the result", "order by a column of the result"),
    ),
    ("row value misused", Reason("a row value is used in the place of a single value", "compare columns one by one")),
)
_UNDECLARED: Final = Reason(
    "the database refused an action that the statement did not declare",
    "if its tables changed, the operator should run `toolgen build` again; otherwise simplify the statement",
)
_TERM: Final = re.compile(r"\d+(st|nd|rd|th) (ORDER|GROUP) BY term")
_NO_VALUE: Final = Reason(
    "SQLite has no such value: an integer has at most 64 bits, and a text has no unpaired surrogates",
    "send another value",
)
_NO_TERM: Final = Reason("a number in ORDER BY or GROUP BY is not a column of the result", "name the column")


def rest() -> None:
    """Close the cached connection after a time without statements."""
    _READER.close()


def query(path: Path, statement: Statement, prefix: str, watch: StatementWatch) -> Success | Failed:
    """Return the statement's rows, or its plan, in a separate transaction. `prefix` is the dialect's EXPLAIN, or ""."""
    try:
        with _READER.session(path, statement, watch) as connection:
            return _read(connection, prefix, statement)
    except sqlite3.Error as error:
        return _explained(error, statement, watch)
    except (OverflowError, UnicodeEncodeError):
        return failure_with_advice(_NO_VALUE, statement)


def change(path: Path, change: CommitState, watch: StatementWatch, committing: Callable[[], None]) -> Success | Failed:
    """Make the change. `committing` is called at the point after which only the reply to the commit shows if the change was made."""
    statement = change.statement
    try:
        with writer(path, statement, watch) as connection:
            return _write(connection, change, watch, committing)
    except sqlite3.Error as error:
        change.committing = False  # the library reports that itself
        return _explained(error, statement, watch)
    except (OverflowError, UnicodeEncodeError):
        return failure_with_advice(_NO_VALUE, statement)


def _read(connection: sqlite3.Connection, prefix: str, statement: Statement) -> Success | Failed:
    cursor = connection.execute(prefix + statement.sql, statement.parameters)
    if cursor.description is None:
        return not_a_query(statement)
    names = [column[0] for column in cursor.description]
    types = statement.types if not prefix and len(statement.types) == len(names) else ("",) * len(names)
    columns = [AnswerColumn(name=name, type="", declared=kind) for name, kind in zip(names, types, strict=True)]
    answer = RowCollector(statement, columns)
    for row in cursor:
        if not answer.take(row):
            break
    return answer.success()


def _write(
    connection: sqlite3.Connection, change: CommitState, watch: StatementWatch, committing: Callable[[], None]
) -> Success | Failed:
    """Make the change in a transaction. Closing the connection rolls it back unless it is committed."""
    statement = change.statement
    # Stated explicitly, because a table's own key may delete conflicting rows or skip the new row.
    kind, _, rest = statement.sql.partition(" ")
    spoken = f"{kind} {'' if statement.writes == 'delete' else 'OR ABORT '}{rest}"
    cursor = connection.execute(spoken, statement.parameters)
    if cursor.description is not None:
        return not_a_change(statement)
    rows = cursor.rowcount
    # Including rows changed by triggers and foreign keys: https://www.sqlite.org/c3ref/total_changes.html
    everything = connection.total_changes
    uncounted = [Cascade(on=statement.writes, by="what SQLite counted")] if everything > rows else []
    if refused := change.cascading(uncounted) or change.refused(max(rows, everything)):
        return refused
    if watch.stop():
        return timed_out(statement)
    connection.set_authorizer(None)
    change.committing = True
    committing()
    connection.execute("COMMIT")
    return change.done(rows)


def _explained(error: sqlite3.Error, statement: Statement, watch: StatementWatch) -> Failed:
    """Return our own message for an error of SQLite, because its text may quote the data."""
    code = getattr(error, "sqlite_errorname", "")
    delivery = Delivery(sql=statement.sql)
    if watch.stop() or code == "SQLITE_INTERRUPT":
        return timed_out(statement)
    match code:
        case "SQLITE_TOOBIG":
            return failed(
                "response_too_large",
                f"a value grew beyond {MAX_VALUE_LENGTH} bytes",
                "select less of it, for example with substr",
                delivery,
            )
        case "SQLITE_AUTH":
            return failure_with_advice(_UNDECLARED, statement)
        case _ if code.startswith("SQLITE_CONSTRAINT"):
            return failure_with_advice(BROKEN_RULE, statement)
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return failed("upstream_error", "the database is busy", "try again", delivery)
        case "SQLITE_CANTOPEN" | "SQLITE_NOTADB" | "SQLITE_CORRUPT" | "SQLITE_IOERR":
            return failed(
                "upstream_error", "the database cannot be read", "the operator should check the file", delivery
            )
    text = str(error)
    for beginning, reason in _REASONS:
        if text.startswith(beginning):
            return failure_with_advice(reason, statement)
    if _TERM.match(text):
        return failure_with_advice(_NO_TERM, statement)
    own_fault = code == "SQLITE_ERROR" or isinstance(error, sqlite3.ProgrammingError)
    return failure_with_advice(UNKNOWN._replace(code="sql_failed") if own_fault else UNKNOWN, statement)
