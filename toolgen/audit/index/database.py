"""Database of the index: its interface, its tables (the same in SQLite and PostgreSQL except for types), and the SQLite file."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import AuditError
from toolgen.model.database import DialectName

__all__ = ["INDEXES", "TABLES", "VERSION", "IndexDatabase", "SqliteDatabase", "remove", "schema", "took_too_long"]

VERSION = 4
"""Version of the tables below. An index of another version is rebuilt."""

TABLES = ("audit_calls", "audit_entries", "audit_streams", "audit_sums", "audit_index")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS audit_index (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS audit_streams (
  id {key} PRIMARY KEY, name TEXT NOT NULL, log TEXT NOT NULL, origin {bytes} NOT NULL UNIQUE,
  segment BIGINT NOT NULL, place BIGINT NOT NULL, seq BIGINT NOT NULL, hash {bytes} NOT NULL
);
CREATE TABLE IF NOT EXISTS audit_entries (
  id {key} PRIMARY KEY, stream BIGINT NOT NULL, time BIGINT NOT NULL, event TEXT NOT NULL, call_id TEXT {sorted},
  prev {bytes} NOT NULL, hash {bytes} NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS audit_calls (
  id {key} PRIMARY KEY, call_id TEXT {sorted} NOT NULL UNIQUE, time BIGINT NOT NULL, principal TEXT {sorted} NOT NULL,
  on_behalf_of TEXT {sorted}, tool TEXT {sorted} NOT NULL, verdict TEXT {sorted} NOT NULL, rule TEXT {sorted} NOT NULL,
  status TEXT {sorted} NOT NULL, code TEXT {sorted}, session TEXT {sorted}, duration_ms {real},
  began BIGINT NOT NULL, ended BIGINT NOT NULL, policy_digest TEXT {sorted}, words TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS audit_sums (
  kind TEXT {sorted} NOT NULL, step BIGINT NOT NULL, name TEXT {sorted} NOT NULL, status TEXT {sorted} NOT NULL, calls BIGINT NOT NULL,
  PRIMARY KEY (kind, step, name, status)
);
CREATE INDEX IF NOT EXISTS audit_entries_call ON audit_entries (call_id) WHERE call_id IS NOT NULL
"""
# Search indexes. They are created after the first filling: sorting once is several times faster than keeping sorted.
INDEXES = (
    "CREATE INDEX IF NOT EXISTS audit_entries_time ON audit_entries (time)",
    "CREATE INDEX IF NOT EXISTS audit_calls_time ON audit_calls (time)",
    *(
        f"CREATE INDEX IF NOT EXISTS audit_calls_{name} ON audit_calls ({name}, time)"
        + (f" WHERE {name} IS NOT NULL" if partial else "")
        for name, partial in (
            ("principal", False),
            ("on_behalf_of", True),
            ("tool", False),
            ("verdict", False),
            ("rule", False),
            ("status", False),
            ("code", True),
            ("session", True),
            ("policy_digest", True),
        )
    ),
)


class IndexDatabase(Protocol):
    """A connection to the index. Statements have `?` for their values. Errors are raised as `AuditError`.

    `shared` is True if other logs are indexed in the same database.
    """

    dialect: DialectName
    shared: bool

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""

    def search(self, statement: str, values: Sequence[object], within_s: float) -> list[tuple[Any, ...]]:
        """Run a statement that may have to scan everything; raises `AuditError` after the time limit."""

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        """Run a statement that returns nothing."""

    def many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        """Run the statement once for each tuple of values."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run everything inside as one transaction; only one writer of the index runs at a time."""

    def finish(self) -> None:
        """Create the search indexes and update the planner's statistics, after many writes."""

    def clear(self) -> None:
        """Drop all tables and create them again, empty."""

    def close(self) -> None:
        """Close the connection."""


def took_too_long(within_s: float) -> AuditError:
    """Return the error for a search that was stopped."""
    return AuditError(
        f"the search was stopped after {within_s:g} s",
        suggestion="narrow it by time, principal, tool or rule, which have indexes; text has to be scanned",
    )


def schema(dialect: DialectName) -> list[str]:
    """Return the statements that create the tables if they do not exist."""
    types = (
        {"bytes": "BLOB", "key": "INTEGER", "real": "REAL", "sorted": ""}
        if dialect == "sqlite"
        else {"bytes": "BYTEA", "key": "BIGINT", "real": "DOUBLE PRECISION", "sorted": 'COLLATE "C"'}
    )
    return [statement for statement in _SCHEMA.format(**types).split(";\n") if statement.strip()]


_BUSY_S = 60.0
_CACHE_KIB = 40_960
"""Cache for pages, and again for sorting: a command that builds the index of a long log stays below 200 MB."""
_STEPS = 1000  # steps of SQLite's virtual machine between two checks of the clock
_AGAIN = "`toolgen audit index --rebuild` rebuilds it from the log"


class SqliteDatabase:
    """SQLite index. Only its owner may read the file (mode 0600). Without a path it is a temporary file, which is deleted on close.

    One thread at a time may use it.
    """

    dialect: DialectName = "sqlite"
    shared = False

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._connection = self._open()

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._told():
            return self._connection.execute(statement, values).fetchall()

    def search(self, statement: str, values: Sequence[object], within_s: float) -> list[tuple[Any, ...]]:
        until = time.monotonic() + within_s
        self._connection.set_progress_handler(lambda: time.monotonic() >= until, _STEPS)
        try:
            return self.rows(statement, values)
        except AuditError as error:
            broken_off = getattr(error.__cause__, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
            raise (took_too_long(within_s) if broken_off else error) from error.__cause__
        finally:
            self._connection.set_progress_handler(None, 0)

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        with self._told():
            self._connection.execute(statement, values)

    def many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        with self._told():
            self._connection.executemany(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def finish(self) -> None:
        with self._told():
            for statement in INDEXES:
                self._connection.execute(statement)
            self._connection.execute("PRAGMA analysis_limit = 2000")
            self._connection.execute("ANALYZE")

    def clear(self) -> None:
        self.close()
        if self._path is not None:
            remove(self._path)
        self._connection = self._open()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(open_descriptor(self._path, "RDWR", "CREAT", "NOFOLLOW"))
            except OSError as error:
                raise AuditError(
                    f"the index of the log cannot be written: {error.strerror or type(error).__name__}",
                    where=str(self._path),
                ) from error
        with self._told():
            connection = sqlite3.connect(
                self._path or "", timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # A power failure may lose the last transactions, which are filled in again, but never the file.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        if 0 < version < VERSION:  # filled again from the log, which has all entries
            for table in TABLES:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
        elif version:
            raise AuditError(
                "the index of the log was made by another version", where=str(self._path), suggestion=_AGAIN
            )
        for statement in schema(self.dialect):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise AuditError(
                f"the index of the log cannot be used: {error}", where=str(self._path or ""), suggestion=_AGAIN
            ) from error


def remove(path: Path) -> None:
    """Delete an index, with SQLite's other files beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
