"""Rows of the sign-in in a SQLite file: visible to every process of one machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from toolgen.core.clock import Clock
from toolgen.state.key_encryption import SealedRecord
from toolgen.state.sign_in import SignInRow
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["SqliteSignInRows"]

R = TypeVar("R")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sign_in (
  kind TEXT NOT NULL, id TEXT NOT NULL, party TEXT NOT NULL, version INTEGER NOT NULL, expires REAL NOT NULL,
  key TEXT NOT NULL, wrapped BLOB NOT NULL, box BLOB NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_party ON sign_in (kind, party, expires);
CREATE INDEX IF NOT EXISTS by_expiry ON sign_in (expires)
"""
_COLUMNS = "kind, id, party, version, expires, key, wrapped, box"
_ROW = f"SELECT {_COLUMNS} FROM sign_in"  # noqa: S608 - a constant


class SqliteSignInRows:
    """Rows in a SQLite file, created with the first record."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = SqliteFile(path, kept="sign-ins", schema=_SCHEMA, pragmas=DURABLE)
        self._clock = clock

    async def get(self, kind: str, row_id: str) -> SignInRow | None:
        def work(connection: sqlite3.Connection) -> SignInRow | None:
            now = self._clock.now()
            asked = (kind, row_id, now)
            found = connection.execute(f"{_ROW} WHERE kind = ? AND id = ? AND expires > ?", asked).fetchone()
            return None if found is None else _row(found, now)

        return await self._run(work, absent=None)

    async def put(self, row: SignInRow, most: int) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            now = self._clock.now()
            kept = (row.version, row.group, now + row.seconds, row.record.key_id, row.record.wrapped, row.record.box)
            with transaction(connection):
                connection.execute("DELETE FROM sign_in WHERE expires <= ?", (now,))
                if row.version == 1:
                    insert = (
                        "INSERT OR IGNORE INTO sign_in (kind, id, version, party, expires, key, wrapped, box) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                    )
                    changed = connection.execute(insert, (row.kind, row.id, *kept)).rowcount == 1
                else:
                    update = (
                        "UPDATE sign_in SET version = ?, party = ?, expires = ?, key = ?, wrapped = ?, box = ? "
                        "WHERE kind = ? AND id = ? AND version = ?"
                    )
                    asked = (*kept, row.kind, row.id, row.version - 1)
                    changed = connection.execute(update, asked).rowcount == 1
                if changed and most:
                    newest = "SELECT id FROM sign_in WHERE kind = ? AND party = ? ORDER BY expires DESC LIMIT ?"
                    connection.execute(
                        f"DELETE FROM sign_in WHERE kind = ? AND party = ? AND id NOT IN ({newest})",  # noqa: S608 - a constant
                        (row.kind, row.group, row.kind, row.group, most),
                    )
            return changed

        return await self._file.run(work)

    async def take(self, kind: str, row_id: str) -> SignInRow | None:
        def work(connection: sqlite3.Connection) -> SignInRow | None:
            now = self._clock.now()
            statement = f"DELETE FROM sign_in WHERE kind = ? AND id = ? AND expires > ? RETURNING {_COLUMNS}"  # noqa: S608 - a constant
            found = connection.execute(statement, (kind, row_id, now)).fetchone()
            return None if found is None else _row(found, now)

        return await self._run(work, absent=None)

    async def of(self, kind: str, group: str) -> Sequence[SignInRow]:
        def work(connection: sqlite3.Connection) -> Sequence[SignInRow]:
            now = self._clock.now()
            if group == "*":
                found = connection.execute(f"{_ROW} WHERE kind = ? AND expires > ?", (kind, now))
            else:
                asked = (kind, group, now)
                found = connection.execute(f"{_ROW} WHERE kind = ? AND party = ? AND expires > ?", asked)
            return [_row(one, now) for one in found]

        return await self._run(work, absent=())

    async def count(self, kind: str, group: str) -> int:
        def work(connection: sqlite3.Connection) -> int:
            statement = "SELECT count(*) FROM sign_in WHERE kind = ? AND party = ? AND expires > ?"
            return int(connection.execute(statement, (kind, group, self._clock.now())).fetchone()[0])

        return await self._run(work, absent=0)

    async def close(self) -> None:
        await self._file.close()

    async def _run(self, work: Callable[[sqlite3.Connection], R], *, absent: R) -> R:
        return await self._file.run(work) if self._file else absent


def _row(found: tuple[Any, ...], now: float) -> SignInRow:
    kind, row_id, group, version, expires, key_id, wrapped, box = found
    return SignInRow(
        kind=kind,
        id=row_id,
        group=group,
        version=version,
        seconds=expires - now,
        record=SealedRecord(key_id=key_id, wrapped=wrapped, box=box),
    )
