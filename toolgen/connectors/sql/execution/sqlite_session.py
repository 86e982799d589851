"""Session of SQLite: a transaction that permits exactly the declared actions of one statement, for a limited time.

The guard has already refused all other actions; the session refuses them again with SQLite's own means:
https://www.sqlite.org/security.html
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from toolgen.connectors.sql.execution.statement_watch import StatementWatch
from toolgen.model.call import Statement

__all__ = ["MAX_VALUE_LENGTH", "CachedConnection", "writer"]

_STEPS = 2_000  # virtual machine instructions between two checks of the time: well below a millisecond
# Maximum bytes of a value during execution: a row with hundreds of such columns is still limited.
MAX_VALUE_LENGTH = 262_144
_TABLE_FUNCTIONS = ("json_each", "json_tree")
# Names of operators and keywords in calls of the authorizer.
_OPERATORS = frozenset({"like", "glob", "->", "->>", "current_date", "current_time", "current_timestamp"})

_WRITES = {"insert": sqlite3.SQLITE_INSERT, "update": sqlite3.SQLITE_UPDATE, "delete": sqlite3.SQLITE_DELETE}

_READS = frozenset({sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION})
_MAX_AUTHORIZERS = 64
_MAX_CASCADED = 100  # deep: https://www.sqlite.org/c3ref/c_limit_attached.html, SQLITE_LIMIT_TRIGGER_DEPTH

_Asked: TypeAlias = tuple[int, str | None, str | None, str | None]
_Authorizer: TypeAlias = Callable[[int, str | None, str | None, str | None, str | None], int]

_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_LENGTH),
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
    """Columns, tables, functions and views that reading a view accesses."""

    columns: set[tuple[str, str]] = set()
    tables: set[str] = set()
    functions: set[str] = set()
    views: set[str] = set()

    def note(
        self, action: int, first: str | None, second: str | None, _database: str | None, source: str | None
    ) -> int:
        """Allow every action and record it."""
        if action == sqlite3.SQLITE_READ:
            self.columns.add(((first or "").lower(), (second or "").lower()))
            self.tables.add((first or "").lower())
        elif action == sqlite3.SQLITE_FUNCTION:
            self.functions.add((second or "").lower())
        if source:
            self.views.add(source.lower())
        return sqlite3.SQLITE_OK


class CachedConnection:
    """Connection of the last query, reused for the next one on the same file, because opening one mostly means reading the schema.

    No transaction is open between two queries, and each statement has its own authorizer, which is kept for an equal statement under the
    same schema. The connection is closed after an error, and when the file has been replaced or written to. With a write-ahead log it is
    never kept, because an open connection prevents others from removing the log. After a statement with table functions it is closed too:
    the next statement may not have declared them.
    """

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[object, ...] = ()
        self._kinds: dict[str, str] = {}
        self._version: int | None = None
        self._has_log = False
        self._authorizers: dict[tuple[frozenset[str], ...], _Authorizer] = {}

    @contextlib.contextmanager
    def session(self, path: Path, statement: Statement, watch: StatementWatch) -> Iterator[sqlite3.Connection]:
        """Return a connection inside a read transaction that permits only `statement`. Raises `sqlite3.Error`."""
        file = (path, _busy_s(statement), *_state(path))
        connection = self._connection
        if connection is None or file != self._file:
            self.close()
            connection, self._file, self._version = _opened(path, statement, watch), file, None
        self._connection = None
        try:
            connection.set_progress_handler(watch.stop, _STEPS)
            connection.execute("BEGIN")
            # https://www.sqlite.org/pragma.html#pragma_schema_version: the number changes with the schema.
            version = connection.execute("PRAGMA schema_version").fetchone()[0]
            if version != self._version:
                self._kinds, self._version = _kinds(connection), version
                self._authorizers.clear()
                self._has_log = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            connection.set_authorizer(self._authorizer(connection, statement))
            yield connection
            connection.set_authorizer(None)
            connection.execute("ROLLBACK")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        if self._has_log or not statement.functions.isdisjoint(_TABLE_FUNCTIONS):
            self.close()

    def _authorizer(self, connection: sqlite3.Connection, statement: Statement) -> _Authorizer:
        if not statement.functions.isdisjoint(_TABLE_FUNCTIONS):
            return _authorizer_of(connection, statement, self._kinds)
        key = (statement.tables, statement.columns, statement.functions)  # all inputs of the authorizer of a query
        found = self._authorizers.get(key)
        if found is None:
            if len(self._authorizers) >= _MAX_AUTHORIZERS:
                self._authorizers.clear()
            found = self._authorizers[key] = _authorizer_of(connection, statement, self._kinds)
        return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _state(path: Path) -> tuple[int, ...]:
    """Return a value that changes when the file is replaced or written to. SQLite itself detects changes in a write-ahead log."""
    try:
        found = path.stat()
    except OSError:
        return ()  # opening it will fail too
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextlib.contextmanager
def writer(path: Path, statement: Statement, watch: StatementWatch) -> Iterator[sqlite3.Connection]:
    """Return a separate connection inside a transaction that permits only `statement`. Raises `sqlite3.Error`."""
    connection = _opened(path, statement, watch)
    try:
        connection.execute("PRAGMA query_only=OFF")
        connection.execute("PRAGMA foreign_keys=ON")
        if statement.cascades:
            connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, _MAX_CASCADED)
        connection.execute("BEGIN IMMEDIATE")
        connection.set_authorizer(_authorizer_of(connection, statement, _kinds(connection)))
        yield connection
    finally:
        connection.close()


def _opened(path: Path, statement: Statement, watch: StatementWatch) -> sqlite3.Connection:
    """Return a connection with every limit set. Raises `sqlite3.Error` when the file is not a readable database."""
    uri = f"{path.absolute().as_uri()}?mode={'rw' if statement.writes else 'ro'}"
    connection = sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        timeout=_busy_s(statement),
        cached_statements=0,
        check_same_thread=True,
    )
    try:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.set_progress_handler(watch.stop, _STEPS)
        for category, limit in _LIMITS:
            connection.setlimit(category, limit)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _busy_s(statement: Statement) -> float:
    """Return the seconds to wait for a lock of another process."""
    return min(statement.timeout_s, 5.0)


def _kinds(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the kind of each table and view of the file, by its name in lower case."""
    schema = "SELECT name, type FROM main.sqlite_schema WHERE type IN ('table', 'view')"
    return {name.lower(): kind for name, kind in connection.execute(schema)}


def _authorizer_of(connection: sqlite3.Connection, statement: Statement, kinds: Mapping[str, str]) -> _Authorizer:
    """Return the authorizer of a statement, which is asked while SQLite compiles it: a refused read or function never runs."""
    tables = {name.lower() for name in statement.tables}
    below = _below(connection, [name for name in tables if kinds.get(name) == "view"])
    if any(name in statement.functions for name in _TABLE_FUNCTIONS):
        # Their first use declares them, which requires writes; so that happens before the authorizer is set.
        for name in _TABLE_FUNCTIONS:
            connection.execute(f"SELECT 1 FROM {name}('[]')")  # noqa: S608  one of two constants
    around = _around(connection, statement)
    return _authorizer(statement, set(kinds), tables, below, around)


def _around(connection: sqlite3.Connection, statement: Statement) -> frozenset[_Asked]:
    """Return the actions that SQLite itself performs with a change, independent of the statement beyond its kind, table and columns.

    Foreign keys, CHECK constraints and triggers read. Actions that write are included only if the policy allows cascades.
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
        with contextlib.suppress(sqlite3.Error):  # then nothing more is allowed, and the statement reports the error
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
) -> _Authorizer:
    columns = {column.lower() for column in statement.columns}
    functions = {name.lower() for name in statement.functions} | _OPERATORS
    views = below.views & physical

    def may_read(table: str, column: str, source: str) -> bool:
        if not column:
            # Rows are counted without reading a column. SQLite asks about common table expressions by name here, and about base tables by
            # theirs.
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
        """Return True for the statement's own table. Changes by a trigger in other tables come with the trigger's name in `source`."""
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
