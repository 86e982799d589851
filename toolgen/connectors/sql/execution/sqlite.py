"""SQLite: a file, opened read-only unless a statement changes it; what it says of a failure is put in our own words."""

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
    not_a_change,
    not_a_query,
    timed_out,
    told,
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
"""Bytes that statements may take."""

_READER: Final = CachedConnection()

# What SQLite says begins like this; what follows may quote values of the data, so only our own words go on.
_REASONS: Final = (
    ("no such function", Reason("a function is not built into this database", "compute it another way", ("function",))),
    (
        "wrong number of arguments",
        Reason(
            "a function was called with the wrong number of arguments", "check the function's arguments", ("function",)
        ),
    ),
    ("misuse of aggregate", Reason("an aggregate stands where it may not", "use HAVING, or a subquery", ("grouping",))),
    ("misuse of window function", Reason("a window function stands where it may not", "use a subquery", ("grouping",))),
    ("misuse of aliased window", Reason("a window function stands where it may not", "use a subquery", ("grouping",))),
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
    ("row value misused", Reason("a row value stands where one value belongs", "compare columns one by one")),
)
_UNDECLARED: Final = Reason(
    "the database would not do something the statement did not declare",
    "if its tables changed, the operator runs `toolgen build` again; otherwise write the statement more simply",
)
_TERM: Final = re.compile(r"\d+(st|nd|rd|th) (ORDER|GROUP) BY term")
_NO_VALUE: Final = Reason(
    "SQLite has no such value: an integer has 64 bits, and a text no half of a surrogate pair", "send another value"
)
_NO_TERM: Final = Reason("a number in ORDER BY or GROUP BY is no column of the result", "name the column")


def rest() -> None:
    """No statement came for a while: from here on nothing of the file is held."""
    _READER.close()


def query(path: Path, statement: Statement, prefix: str, watch: StatementWatch) -> Success | Failed:
    """The statement's rows, or its plan, in a transaction of its own. `prefix`: that of the dialect's EXPLAIN, or ""."""
    try:
        with _READER.session(path, statement, watch) as connection:
            return _read(connection, prefix, statement)
    except sqlite3.Error as error:
        return _explained(error, statement, watch)
    except (OverflowError, UnicodeEncodeError):
        return told(_NO_VALUE, statement)


def change(path: Path, change: CommitState, watch: StatementWatch, committing: Callable[[], None]) -> Success | Failed:
    """Makes the change. `committing` is called when from here on only the commit's answer says whether it was made."""
    statement = change.statement
    try:
        with writer(path, statement, watch) as connection:
            return _write(connection, change, watch, committing)
    except sqlite3.Error as error:
        change.committing = False  # the library says so itself
        return _explained(error, statement, watch)
    except (OverflowError, UnicodeEncodeError):
        return told(_NO_VALUE, statement)


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
    """Rolled back by closing the connection wherever it is not committed."""
    statement = change.statement
    # Said here, because a table may say of its own keys that what stands in the way of a new row is deleted, or the row left out.
    kind, _, rest = statement.sql.partition(" ")
    spoken = f"{kind} {'' if statement.writes == 'delete' else 'OR ABORT '}{rest}"
    cursor = connection.execute(spoken, statement.parameters)
    if cursor.description is not None:
        return not_a_change(statement)
    rows = cursor.rowcount
    # With what triggers and foreign keys changed: https://www.sqlite.org/c3ref/total_changes.html
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
    """Our own words for what SQLite said: its text may quote the data, so it goes no further."""
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
            return told(_UNDECLARED, statement)
        case _ if code.startswith("SQLITE_CONSTRAINT"):
            return told(BROKEN_RULE, statement)
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return failed("upstream_error", "the database is busy", "try again", delivery)
        case "SQLITE_CANTOPEN" | "SQLITE_NOTADB" | "SQLITE_CORRUPT" | "SQLITE_IOERR":
            return failed(
                "upstream_error", "the database cannot be read", "the operator should check the file", delivery
            )
    text = str(error)
    for beginning, reason in _REASONS:
        if text.startswith(beginning):
            return told(reason, statement)
    if _TERM.match(text):
        return told(_NO_TERM, statement)
    own_fault = code == "SQLITE_ERROR" or isinstance(error, sqlite3.ProgrammingError)
    return told(UNKNOWN._replace(code="sql_failed") if own_fault else UNKNOWN, statement)
