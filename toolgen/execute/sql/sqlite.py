"""SQLite: a file, opened read-only for one statement; what it says of a failure is put in our own words.

One read-only SQLite connection that may do exactly what one statement declared, for as long as it was given.

The guard has already refused everything else; this session refuses it again, with the database's own means: https://www.sqlite.org/security.html
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from toolgen.execute.sql.engine import BROKEN_RULE, UNKNOWN, Change, Reason, Watch, not_a_change, told
from toolgen.execute.sql.result_rows import Answer, Column, failed, not_a_query, timed_out
from toolgen.model.call import Statement
from toolgen.model.database import Cascade
from toolgen.model.result import Delivery, Failed, Success

__all__ = ["DIALECT", "change", "query"]

_STEPS = 2_000  # virtual machine instructions between two looks at the clock: well below a millisecond
# Bytes a value may have while the statement computes: hundreds of columns of it are still a bounded row.
_MAX_VALUE_LENGTH = 262_144
_TABLE_FUNCTIONS = ("json_each", "json_tree")
# What operators and keywords are called when the authorizer is asked about them.
_OPERATORS = frozenset({"like", "glob", "->", "->>", "current_date", "current_time", "current_timestamp"})

_WRITES = {"insert": sqlite3.SQLITE_INSERT, "update": sqlite3.SQLITE_UPDATE, "delete": sqlite3.SQLITE_DELETE}

_READS = frozenset({sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION})
_MAX_CASCADED = 100  # deep: https://www.sqlite.org/c3ref/c_limit_attached.html, SQLITE_LIMIT_TRIGGER_DEPTH

_Asked: TypeAlias = tuple[int, str | None, str | None, str | None]

_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_LENGTH),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 200_000),
    (sqlite3.SQLITE_LIMIT_COLUMN, 500),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 500),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (sqlite3.SQLITE_LIMIT_VDBE_OP, 250_000),
    (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 100),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 500),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)

_PRAGMAS = (
    "PRAGMA query_only=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA cell_size_check=ON",
    "PRAGMA mmap_size=0",
    "PRAGMA cache_size=-8000",
)


class _Footprint(Struct):
    """What reading a view reads below it."""

    columns: set[tuple[str, str]] = set()
    tables: set[str] = set()
    functions: set[str] = set()
    views: set[str] = set()

    def note(
        self, action: int, first: str | None, second: str | None, _database: str | None, source: str | None
    ) -> int:
        """An authorizer that allows everything and writes down what was asked."""
        if action == sqlite3.SQLITE_READ:
            self.columns.add(((first or "").lower(), (second or "").lower()))
            self.tables.add((first or "").lower())
        elif action == sqlite3.SQLITE_FUNCTION:
            self.functions.add((second or "").lower())
        if source:
            self.views.add(source.lower())
        return sqlite3.SQLITE_OK


def open_session(path: Path, statement: Statement, watch: Watch) -> sqlite3.Connection:
    """A connection inside a transaction, ready for `statement` and nothing else, reading unless it writes. The caller closes it.

    Raises `sqlite3.Error` when the file is not a database that can be opened.
    """
    uri = f"file:{quote(str(path))}?mode={'rw' if statement.writes else 'ro'}"
    connection = sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        timeout=min(statement.timeout_s, 5.0),
        cached_statements=0,
        check_same_thread=True,
    )
    try:
        _harden(connection, watch)
        if statement.writes:
            connection.execute("PRAGMA query_only=OFF")
            connection.execute("PRAGMA foreign_keys=ON")
        if statement.cascades:
            connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, _MAX_CASCADED)
        connection.execute("BEGIN IMMEDIATE" if statement.writes else "BEGIN")
        _confine(connection, statement)
    except BaseException:
        connection.close()
        raise
    return connection


def _harden(connection: sqlite3.Connection, watch: Watch) -> None:
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.set_progress_handler(watch.stop, _STEPS)
    for category, limit in _LIMITS:
        connection.setlimit(category, limit)
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _confine(connection: sqlite3.Connection, statement: Statement) -> None:
    """Installs the authorizer. It is asked while a statement is compiled: a refused read or function never runs."""
    kinds = {
        name.lower(): kind
        for name, kind in connection.execute(
            "SELECT name, type FROM main.sqlite_schema WHERE type IN ('table', 'view')"
        )
    }
    tables = {name.lower() for name in statement.tables}
    below = _below(connection, [name for name in tables if kinds.get(name) == "view"])
    if any(name in statement.functions for name in _TABLE_FUNCTIONS):
        # Their first use declares them, which asks for writes; so that happens before there is anybody to ask.
        for name in _TABLE_FUNCTIONS:
            connection.execute(f"SELECT 1 FROM {name}('[]')")  # noqa: S608  one of two constants
    around = _around(connection, statement)
    connection.set_authorizer(_authorizer(statement, set(kinds), tables, below, around))


def _around(connection: sqlite3.Connection, statement: Statement) -> frozenset[_Asked]:
    """What the database itself does around a change, whatever the statement says beside its kind, table and columns.

    Foreign keys, CHECK and triggers read; what would write, is in here only where the policy opens that.
    """
    asked: set[_Asked] = set()

    def note(action: int, first: str | None, second: str | None, _database: str | None, source: str | None) -> int:
        if statement.cascades or action in _READS:
            asked.add((action, first, second, source))
        return sqlite3.SQLITE_OK

    for table in statement.tables if statement.writes else ():
        name = _quoted(table)
        sets = ", ".join(f"{_quoted(column)} = NULL" for column in statement.sets)
        bare = {
            "insert": f"INSERT INTO main.{name} DEFAULT VALUES",
            "update": f"UPDATE main.{name} SET {sets} WHERE 0" if sets else "",  # noqa: S608  the database's own names, quoted
            "delete": f"DELETE FROM main.{name} WHERE 0",  # noqa: S608  the database's own name, quoted
        }[statement.writes]
        connection.set_authorizer(note)
        with contextlib.suppress(sqlite3.Error):  # then nothing more is allowed, and the statement says what is wrong
            connection.execute(f"EXPLAIN {bare}").close()
        connection.set_authorizer(None)
    return frozenset(asked)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _below(connection: sqlite3.Connection, views: list[str]) -> _Footprint:
    footprint = _Footprint()
    if views:
        connection.set_authorizer(footprint.note)
        for name in views:
            connection.execute(f"EXPLAIN SELECT * FROM main.{_quoted(name)}")  # noqa: S608  the database's own name, quoted
        connection.set_authorizer(None)
    return footprint


def _authorizer(
    statement: Statement, physical: set[str], tables: set[str], below: _Footprint, around: frozenset[_Asked]
) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    columns = {column.lower() for column in statement.columns}
    functions = {name.lower() for name in statement.functions} | _OPERATORS
    views = below.views & physical

    def may_read(table: str, column: str, source: str) -> bool:
        if not column:
            # Rows are counted and nothing is read. Common table expressions are asked about by name here; base tables are known by theirs.
            return (
                table in tables or table in below.tables or (table not in physical and not table.startswith("sqlite_"))
            )
        if f"{table}.{column}" in columns:
            return True
        if table in _TABLE_FUNCTIONS and table in functions and table not in physical:
            return True
        # A common table expression can pose as a view in `source`; the guard refuses one with a view's name.
        return source in views and (table, column) in below.columns

    writes = _WRITES.get(statement.writes)

    def may_write(table: str, column: str, source: str) -> bool:
        """Its own table alone; what a trigger would change elsewhere is asked with the trigger's name in `source`."""
        return not source and table in tables and (not column or f"{table}.{column}" in columns)

    def authorize(action: int, first: str | None, second: str | None, _database: str | None, source: str | None) -> int:
        match action:
            case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
                allowed = True
            case sqlite3.SQLITE_READ:
                allowed = may_read((first or "").lower(), (second or "").lower(), (source or "").lower())
            case sqlite3.SQLITE_FUNCTION:
                name = (second or "").lower()
                allowed = name in functions or (bool(source) and name in below.functions)
            case _ if action == writes:
                allowed = may_write((first or "").lower(), (second or "").lower(), (source or "").lower())
            case _:
                allowed = False
        allowed = allowed or (action, first, second, source) in around
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    return authorize


DIALECT: Final = "sqlite"

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
_NO_TERM: Final = Reason("a number in ORDER BY or GROUP BY is no column of the result", "name the column")


def query(path: Path, statement: Statement, prefix: str, watch: Watch) -> Success | Failed:
    """The statement's rows, or its plan, on a connection of its own. `prefix`: that of the dialect's EXPLAIN, or ""."""
    try:
        connection = open_session(path, statement, watch)
        try:
            return _read(connection, prefix, statement)
        finally:
            connection.close()
    except sqlite3.Error as error:
        return _explained(error, statement, watch)


def change(path: Path, change: Change, watch: Watch, committing: Callable[[], None]) -> Success | Failed:
    """Makes the change. `committing` is called when from here on only the commit's answer says whether it was made."""
    statement = change.statement
    try:
        connection = open_session(path, statement, watch)
        try:
            return _write(connection, change, watch, committing)
        finally:
            connection.close()
    except sqlite3.Error as error:
        change.committing = False  # the library says so itself
        return _explained(error, statement, watch)


def _read(connection: sqlite3.Connection, prefix: str, statement: Statement) -> Success | Failed:
    cursor = connection.execute(prefix + statement.sql, statement.parameters)
    if cursor.description is None:
        return not_a_query(statement)
    names = [column[0] for column in cursor.description]
    types = statement.types if not prefix and len(statement.types) == len(names) else ("",) * len(names)
    columns = [Column(name=name, type="", declared=kind) for name, kind in zip(names, types, strict=True)]
    answer = Answer(statement, columns)
    for row in cursor:
        if not answer.take(row):
            break
    return answer.success()


def _write(
    connection: sqlite3.Connection, change: Change, watch: Watch, committing: Callable[[], None]
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


def _explained(error: sqlite3.Error, statement: Statement, watch: Watch) -> Failed:
    """Our own words for what SQLite said: its text may quote the data, so it goes no further."""
    code = getattr(error, "sqlite_errorname", "")
    delivery = Delivery(sql=statement.sql)
    if watch.stop() or code == "SQLITE_INTERRUPT":
        return timed_out(statement)
    match code:
        case "SQLITE_TOOBIG":
            return failed(
                "response_too_large", "a value grew too large", "select less of it, for example with substr", delivery
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
