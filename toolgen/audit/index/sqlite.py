"""The index in a SQLite file of its own, or in a temporary one."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from toolgen.audit.index.schema import INDEXES, VERSION, schema, took_too_long
from toolgen.errors import AuditError

__all__ = ["SqliteDatabase", "remove"]

_BUSY_S = 60.0
_CACHE_KIB = 65_536
_STEPS = 1000  # of SQLite's machine, between two looks at the clock
_AGAIN = "`toolgen audit index --rebuild` makes it anew from the log"


class SqliteDatabase:
    """Only its owner may read the file (mode 0600). With no path it is in a temporary file that goes when this is closed.

    One thread at a time may use it.
    """

    dialect = "sqlite"
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
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
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
        # A power cut may cost the last transactions, which are filled in again, and never the file.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        if version not in {0, VERSION}:
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
    """Deletes an index, with the files that SQLite has beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
