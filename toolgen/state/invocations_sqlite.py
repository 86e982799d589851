"""Invocations in a SQLite file: seen by every process of one machine, and there again after a crash."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from toolgen.clock import Clock
from toolgen.state.invocations import Invocation, as_json, from_json
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["SqliteInvocations"]

T = TypeVar("T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS invocations (
  id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT NOT NULL, principal TEXT NOT NULL, asked REAL NOT NULL, ended REAL NOT NULL,
  body BLOB NOT NULL
) WITHOUT ROWID
"""


class SqliteInvocations:
    """Made at the first call that has to wait; until then there is no file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = SqliteFile(path, kept="the calls that wait", schema=_SCHEMA, pragmas=DURABLE)
        self._clock = clock
        self._seen = (0, 0, 0)

    async def add(self, invocation: Invocation, *, each: int, total: int) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            waiting = (
                "SELECT count(*), count(CASE WHEN principal = ? THEN 1 END) FROM invocations WHERE status = 'pending'"
            )
            with transaction(connection):
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
                " WHERE id = ?1 AND version = ?8 AND status <> 'ended'",
                (*_row(kept), known.version),
            )
            return kept if found.rowcount == 1 else None

        return await self._run(work, absent=None)

    async def now(self) -> float:
        return self._clock.now()

    async def forget(self, before: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            old = "FROM invocations WHERE status = 'ended' AND ended < ?"
            if connection.execute(f"SELECT 1 {old} LIMIT 1", (before,)).fetchone() is not None:
                connection.execute(f"DELETE {old}", (before,))

        await self._run(work, absent=None)

    async def changed(self) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            # The first changes with commits of other connections, the second with our own.
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            seen, self._seen = self._seen, (self._file.opened, others, connection.total_changes)
            return seen != self._seen

        return await self._run(work, absent=False)

    async def close(self) -> None:
        await self._file.close()

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, absent: T, create: bool = False) -> T:
        """What `work` returns, or `absent` where there is no file and none is to be made."""
        return await self._file.run(work) if create or self._file else absent


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
