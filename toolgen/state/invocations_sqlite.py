"""Invocations in a SQLite file: seen by every process of one machine, and there again after a crash."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from toolgen.errors import StateError
from toolgen.state.invocations import Invocation, as_json, from_json

__all__ = ["SqliteInvocations"]

T = TypeVar("T")
_BUSY_S = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS invocations (
  id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT NOT NULL, principal TEXT NOT NULL, asked REAL NOT NULL, ended REAL NOT NULL,
  body BLOB NOT NULL
) WITHOUT ROWID
"""


class SqliteInvocations:
    """Made at the first call that has to wait; until then there is no file. Only its owner may read it (mode 0600).

    What is removed is overwritten. One thread speaks to SQLite, so that a slow disk holds up nobody else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="invocations")
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._seen = -1  # SQLite's data_version, which the commits of other connections change
        self._own = False  # whether this connection committed something since `changed` was asked

    async def add(self, invocation: Invocation, *, each: int, total: int) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            waiting = (
                "SELECT count(*), count(CASE WHEN principal = ? THEN 1 END) FROM invocations WHERE status = 'pending'"
            )
            with _transaction(connection):
                everybody, own = connection.execute(waiting, (invocation.principal.id,)).fetchone()
                if everybody >= total or own >= each:
                    return False
                connection.execute("INSERT INTO invocations VALUES (?, ?, ?, ?, ?, ?, ?)", _row(invocation))
            return True

        return await self._run(work, create=True, absent=False)

    async def get(self, call_id: str) -> Invocation | None:
        def work(connection: sqlite3.Connection) -> Invocation | None:
            row = connection.execute("SELECT body FROM invocations WHERE id = ?", (call_id,)).fetchone()
            return None if row is None else from_json(row[0])

        return await self._run(work, absent=None)

    async def unfinished(self) -> tuple[Invocation, ...]:
        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            rows = connection.execute("SELECT body FROM invocations WHERE status <> 'ended' ORDER BY asked, id")
            return tuple(from_json(row[0]) for row in rows)

        return await self._run(work, absent=())

    async def replace(self, known: Invocation, changed: Invocation) -> Invocation | None:
        kept = msgspec.structs.replace(changed, version=known.version + 1)

        def work(connection: sqlite3.Connection) -> Invocation | None:
            found = connection.execute(
                "UPDATE invocations SET version = ?2, status = ?3, principal = ?4, asked = ?5, ended = ?6, body = ?7"
                " WHERE id = ?1 AND version = ?8",
                (*_row(kept), known.version),
            )
            return kept if found.rowcount == 1 else None

        return await self._run(work, absent=None)

    async def forget(self, before: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            old = "FROM invocations WHERE status = 'ended' AND ended < ?"
            if connection.execute(f"SELECT 1 {old} LIMIT 1", (before,)).fetchone() is not None:
                connection.execute(f"DELETE {old}", (before,))

        await self._run(work, absent=None)

    async def changed(self) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            version, own = connection.execute("PRAGMA data_version").fetchone()[0], self._own
            news = own or version != self._seen
            self._seen, self._own = version, False
            return news

        return await self._run(work, absent=False)

    async def close(self) -> None:
        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown()

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, absent: T, create: bool = False) -> T:
        """What `work` returns, or `absent` where there is no file and none is to be made."""
        if self._connection is None and not create and not self._path.exists():
            return absent
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._open()
            before = connection.total_changes
            done = work(connection)
            self._own = self._own or connection.total_changes != before
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise StateError(f"the calls that wait cannot be kept: {reason}", where=str(self._path)) from error
        return done

    def _open(self) -> sqlite3.Connection:
        """The connection, made again where the file was replaced: what nobody else can see is kept for nobody."""
        if self._connection is not None:
            if self._path.exists() and self._path.stat().st_ino == self._inode:
                return self._connection
            self._connection.close()
            self._connection = None
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        status = self._path.stat()
        if status.st_mode & 0o077:
            self._path.chmod(0o600)
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        self._connection, self._inode, self._seen = connection, status.st_ino, -1
        return connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _row(invocation: Invocation) -> tuple[object, ...]:
    return (
        invocation.id,
        invocation.version,
        invocation.status,
        invocation.principal.id,
        invocation.asked,
        invocation.ended,
        as_json(invocation),
    )
