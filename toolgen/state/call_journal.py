"""Durable journal of the calls that one gateway took on, began and ended, kept in a file of its machine beside the shared store.

The shared store may be emptied, set back to an older copy, or written to by somebody else. The journal decides then what may still
be carried out, and which calls have to be ended because the store knows them no more.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from toolgen.state.invocation_format import as_json, from_json
from toolgen.state.invocations import Invocation, without_arguments
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["OVER", "REMEMBERED_S", "CallJournal"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS machine (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS begun (call_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waiting (call_id TEXT PRIMARY KEY, asked REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS used_keys (id TEXT PRIMARY KEY, call_id TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS endings (call_id TEXT PRIMARY KEY, at REAL NOT NULL, box BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ended ON endings (at);
CREATE TABLE IF NOT EXISTS epoch (value TEXT NOT NULL)
"""
OVER = 2**31
"""Attempt number of a call that has ended."""
REMEMBERED_S = 8 * 24 * 3600.0
"""How long a call is remembered beyond its time: longer than the store keeps one."""
_MAX_ENDINGS = 1000


class CallJournal:
    """Journal of calls: a file for all workers of a gateway. Its id identifies the gateway among those that share a store: a gateway
    that lost the file gets a new id, and executes no call that it accepted before. Every method raises `StateError`."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, kept="the journal of calls", schema=_SCHEMA, pragmas=DURABLE)
        self._home = ""

    async def home(self) -> str:
        """Id of this gateway among those that share a store. Read again if the file was replaced."""
        if self._home and self._file.unchanged:
            return self._home

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

        self._home = await self._file.run(work)
        return self._home

    async def begin(self, call_id: str, attempt: int, expires: float) -> bool:
        """Note that an attempt at a call begins. False if it, or a later one, was begun before, or the call is over."""

        def work(connection: sqlite3.Connection) -> bool:
            done = connection.execute(
                "INSERT INTO begun VALUES (?1, ?2, ?3) ON CONFLICT (call_id) DO UPDATE SET attempt = ?2, until = ?3 WHERE attempt < ?2",
                (call_id, attempt, expires + REMEMBERED_S),
            )
            return done.rowcount == 1

        return await self._file.run(work)

    async def end(self, call_id: str, expires: float, *, at: float = 0.0, box: bytes = b"") -> None:
        """Note that a call is over, however it ended. `box` is its ending, sealed, which ended `at` a time (seconds since the epoch)."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO begun VALUES (?1, ?2, ?3) ON CONFLICT (call_id) DO UPDATE SET attempt = ?2, until = ?3",
                (call_id, OVER, expires + REMEMBERED_S),
            )
            connection.execute("DELETE FROM waiting WHERE call_id = ?", (call_id,))
            if box:
                connection.execute("INSERT OR REPLACE INTO endings VALUES (?, ?, ?)", (call_id, at, box))

        await self._file.write(work)

    async def endings(self) -> tuple[tuple[str, bytes], ...]:
        """The last calls that ended here, each with its ending, sealed."""

        def work(connection: sqlite3.Connection) -> tuple[tuple[str, bytes], ...]:
            last = "SELECT call_id, box FROM endings ORDER BY at DESC LIMIT ?"
            return tuple((str(call_id), bytes(box)) for call_id, box in connection.execute(last, (_MAX_ENDINGS,)))

        return await self._file.run(work) if self._file else ()

    async def ending(self, call_id: str) -> bytes:
        """The ending of a call that ended here, sealed; b"" if it is not among the last ones."""

        def work(connection: sqlite3.Connection) -> bytes:
            row = connection.execute("SELECT box FROM endings WHERE call_id = ?", (call_id,)).fetchone()
            return b"" if row is None else bytes(row[0])

        return await self._file.run(work) if self._file else b""

    async def attempt(self, call_id: str) -> int | None:
        """Last attempt at a call that was begun here, `OVER` for a call that ended here, None for one that was never begun."""

        def work(connection: sqlite3.Connection) -> int | None:
            row = connection.execute("SELECT attempt FROM begun WHERE call_id = ?", (call_id,)).fetchone()
            return None if row is None else int(row[0])

        return await self._file.run(work) if self._file else None

    async def is_over(self, call_id: str) -> bool:
        """True if a call ended here."""
        return await self.attempt(call_id) == OVER

    async def await_end(self, invocation: Invocation) -> None:
        """Note that a call waits, or runs without its caller, from now on: its end has to be told, whatever the store forgets.

        Its arguments are left out.
        """
        kept = without_arguments(invocation)
        row = (kept.id, kept.asked, as_json(kept))
        await self._file.write(
            lambda connection: connection.execute("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?)", row)
        )

    async def awaiting(self, before: float) -> tuple[Invocation, ...]:
        """Calls that were made before a time and whose end was not noted, without their arguments, the oldest first."""

        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            rows = connection.execute("SELECT body FROM waiting WHERE asked < ? ORDER BY asked, call_id", (before,))
            return tuple(from_json(row[0]) for row in rows)

        return await self._file.run(work) if self._file else ()

    async def awaited(self, call_id: str) -> Invocation | None:
        """The call with this id, if its end was not noted, without its arguments."""

        def work(connection: sqlite3.Connection) -> Invocation | None:
            row = connection.execute("SELECT body FROM waiting WHERE call_id = ?", (call_id,)).fetchone()
            return None if row is None else from_json(row[0])

        return await self._file.run(work) if self._file else None

    async def forget_awaited(self, call_ids: Sequence[str]) -> None:
        """Remove calls whose end somebody else noted, or that were never kept."""
        rows = [(call_id,) for call_id in call_ids]
        if rows and self._file:
            await self._file.write(
                lambda connection: connection.executemany("DELETE FROM waiting WHERE call_id = ?", rows)
            )

    async def use_key(self, key: str, call_id: str, *, now: float, expires: float) -> str:
        """Note that a call uses an idempotency key from now on. Returns the call that used it first and has not expired."""

        def work(connection: sqlite3.Connection) -> str:
            connection.execute("DELETE FROM used_keys WHERE id = ? AND until <= ?", (key, now))
            connection.execute("INSERT OR IGNORE INTO used_keys VALUES (?, ?, ?)", (key, call_id, expires))
            return str(connection.execute("SELECT call_id FROM used_keys WHERE id = ?", (key,)).fetchone()[0])

        return await self._file.write(work)

    async def free_key(self, key: str, call_id: str) -> None:
        """Remove the key of a call that did nothing."""
        row = (key, call_id)
        if self._file:
            await self._file.write(
                lambda connection: connection.execute("DELETE FROM used_keys WHERE id = ? AND call_id = ?", row)
            )

    async def epoch(self) -> str:
        """Epoch of the store that this gateway knew last, "" for none."""

        def work(connection: sqlite3.Connection) -> str:
            row = connection.execute("SELECT value FROM epoch").fetchone()
            return "" if row is None else str(row[0])

        return await self._file.run(work) if self._file else ""

    async def move_epoch(self, known: str, new: str) -> bool:
        """Put an epoch in place of the known one. Of several workers that try one does it, and gets True."""

        def work(connection: sqlite3.Connection) -> bool:
            row = connection.execute("SELECT value FROM epoch").fetchone()
            if ("" if row is None else row[0]) != known:
                return False
            connection.execute("DELETE FROM epoch")
            connection.execute("INSERT INTO epoch VALUES (?)", (new,))
            return True

        return await self._file.write(work)

    async def forget(self, now: float) -> None:
        """Remove what nobody could take up again."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM begun WHERE until < ?", (now,))
            connection.execute("DELETE FROM used_keys WHERE until < ?", (now,))
            connection.execute(
                "DELETE FROM endings WHERE at <= (SELECT at FROM endings ORDER BY at DESC LIMIT 1 OFFSET ?)",
                (_MAX_ENDINGS,),
            )

        if self._file:
            await self._file.run(work)

    async def close(self) -> None:
        """Close the file."""
        await self._file.close()
