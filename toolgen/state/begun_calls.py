"""Which approved calls this machine began, durably and outside Redis: whoever can write in Redis may lose a call, and never make one."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["BegunCalls"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS machine (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS begun (call_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID
"""
_OVER = 2**31
_LONGER_S = 8 * 24 * 3600.0
"""How long a call is remembered beyond its time: longer than Redis keeps one."""


class BegunCalls:
    """A file of this machine, for all its workers. It is also what the machine is known by: one that lost it is another machine, and
    carries out nothing that it took on before."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, kept="which calls were begun", schema=_SCHEMA, pragmas=DURABLE)

    async def home(self) -> str:
        """What this machine is called among those that share a Redis. Raises `StateError`, as all of these do."""

        def work(connection: sqlite3.Connection) -> str:
            row = connection.execute("SELECT id FROM machine").fetchone()
            if row is None:
                with transaction(connection):
                    connection.execute(
                        "INSERT INTO machine SELECT ? WHERE NOT EXISTS (SELECT 1 FROM machine)",
                        (secrets.token_hex(16),),
                    )
                row = connection.execute("SELECT id FROM machine").fetchone()
            return str(row[0])

        return await self._file.run(work)

    async def begin(self, call_id: str, attempt: int, expires: float) -> bool:
        """Remembers that this attempt at a call begins. False where it, or a later one, was begun before, or the call is over."""

        def work(connection: sqlite3.Connection) -> bool:
            done = connection.execute(
                "INSERT INTO begun VALUES (?1, ?2, ?3) ON CONFLICT (call_id) DO UPDATE SET attempt = ?2, until = ?3 WHERE attempt < ?2",
                (call_id, attempt, expires + _LONGER_S),
            )
            return done.rowcount == 1

        return await self._file.run(work)

    async def end(self, call_id: str, expires: float) -> None:
        """Remembers that a call is over, however it ended."""
        await self.begin(call_id, _OVER, expires)

    async def knows(self, call_id: str) -> bool:
        """Whether a call was begun here, or ended here."""

        def work(connection: sqlite3.Connection) -> bool:
            return connection.execute("SELECT 1 FROM begun WHERE call_id = ?", (call_id,)).fetchone() is not None

        return bool(self._file) and await self._file.run(work)

    async def forget(self, now: float) -> None:
        """Removes those that nobody could take up again."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM begun WHERE until < ?", (now,))

        if self._file:
            await self._file.run(work)

    async def close(self) -> None:
        """Closes the file."""
        await self._file.close()
