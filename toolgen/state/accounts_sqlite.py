"""Rows of accounts in a SQLite file: visible to every process of one machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from toolgen.core.clock import Clock
from toolgen.state.accounts import AccountRow
from toolgen.state.key_encryption import SealedRecord
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["SqliteAccountRows"]

R = TypeVar("R")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (
  id TEXT PRIMARY KEY, person TEXT NOT NULL, version INTEGER NOT NULL, key TEXT NOT NULL, wrapped BLOB NOT NULL, box BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_person ON accounts (person);
CREATE TABLE IF NOT EXISTS locks (id TEXT PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS links (
  id TEXT PRIMARY KEY, party TEXT NOT NULL, expires REAL NOT NULL, key TEXT NOT NULL, wrapped BLOB NOT NULL, box BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_party ON links (party, expires)
"""
_ROW = "SELECT id, person, version, key, wrapped, box FROM accounts"


class SqliteAccountRows:
    """Rows in a SQLite file, created with the first account or link."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = SqliteFile(path, kept="accounts", schema=_SCHEMA, pragmas=DURABLE)
        self._clock = clock

    async def get(self, row_id: str) -> AccountRow | None:
        def work(connection: sqlite3.Connection) -> AccountRow | None:
            found = connection.execute(f"{_ROW} WHERE id = ?", (row_id,)).fetchone()
            return None if found is None else _row(found)

        return await self._run(work, absent=None)

    async def put(self, row: AccountRow) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            sealed = (row.record.key_id, row.record.wrapped, row.record.box)
            if row.version == 1:
                new = (row.id, row.person, row.version, *sealed)
                return connection.execute("INSERT OR IGNORE INTO accounts VALUES (?, ?, ?, ?, ?, ?)", new).rowcount == 1
            update = "UPDATE accounts SET version = ?, key = ?, wrapped = ?, box = ? WHERE id = ? AND version = ?"
            return connection.execute(update, (row.version, *sealed, row.id, row.version - 1)).rowcount == 1

        return await self._file.run(work)

    async def remove(self, row_id: str) -> bool:
        return await self._run(
            lambda connection: connection.execute("DELETE FROM accounts WHERE id = ?", (row_id,)).rowcount == 1,
            absent=False,
        )

    async def of(self, person: str) -> Sequence[AccountRow]:
        found: Callable[[sqlite3.Connection], list[AccountRow]] = lambda connection: [  # noqa: E731
            _row(one) for one in connection.execute(f"{_ROW} WHERE person = ?", (person,))
        ]
        return await self._run(found, absent=[])

    async def all(self) -> Sequence[AccountRow]:
        return await self._run(lambda connection: [_row(one) for one in connection.execute(_ROW)], absent=[])

    async def lock(self, row_id: str, holder: str, seconds: float) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            now = self._clock.now()
            statement = (
                "INSERT INTO locks VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, "
                "until = excluded.until WHERE until <= ? OR holder = excluded.holder"
            )
            return connection.execute(statement, (row_id, holder, now + seconds, now)).rowcount == 1

        return await self._file.run(work)

    async def unlock(self, row_id: str, holder: str) -> None:
        statement = "DELETE FROM locks WHERE id = ? AND holder = ?"
        await self._file.run(lambda connection: connection.execute(statement, (row_id, holder)))

    async def keep(self, link_id: str, group: str, seconds: float, record: SealedRecord, most: int) -> None:
        def work(connection: sqlite3.Connection) -> None:
            now = self._clock.now()
            with transaction(connection):
                connection.execute("DELETE FROM links WHERE expires <= ?", (now,))
                newest = "SELECT id FROM links WHERE party = ? ORDER BY expires DESC LIMIT ?"
                connection.execute(
                    f"DELETE FROM links WHERE party = ? AND id NOT IN ({newest})",  # noqa: S608 - a constant
                    (group, group, most - 1),
                )
                row = (link_id, group, now + seconds, record.key_id, record.wrapped, record.box)
                connection.execute("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?)", row)

        await self._file.run(work)

    async def link(self, link_id: str, *, take: bool) -> SealedRecord | None:
        def work(connection: sqlite3.Connection) -> SealedRecord | None:
            asked = (link_id, self._clock.now())
            if take:
                statement = "DELETE FROM links WHERE id = ? AND expires > ? RETURNING key, wrapped, box"
            else:
                statement = "SELECT key, wrapped, box FROM links WHERE id = ? AND expires > ?"
            found = connection.execute(statement, asked).fetchone()
            return None if found is None else SealedRecord(key_id=found[0], wrapped=found[1], box=found[2])

        return await self._run(work, absent=None)

    async def close(self) -> None:
        await self._file.close()

    async def _run(self, work: Callable[[sqlite3.Connection], R], *, absent: R) -> R:
        return await self._file.run(work) if self._file else absent


def _row(found: tuple[str, str, int, str, bytes, bytes]) -> AccountRow:
    record = SealedRecord(key_id=found[3], wrapped=found[4], box=found[5])
    return AccountRow(id=found[0], person=found[1], version=found[2], record=record)
