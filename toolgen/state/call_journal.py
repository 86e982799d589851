"""Durable journal of the calls that one gateway accepted, started and ended, in a file of its machine beside the shared store.

The shared store may be emptied, set back to an older copy, or changed by others. The journal then decides which calls may still be
executed, and which must be ended because the store has lost them.
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
"""Seconds that a call is remembered after its expiry: longer than the store keeps it."""
_MAX_ENDINGS = 1000


class CallJournal:
    """Journal of calls: a file for all workers of a gateway. Its id identifies the gateway among those that share a store: a gateway
    that lost the file gets a new id, and executes no call that it accepted before. Every method raises `StateError`."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, kept="the journal of calls", schema=_SCHEMA, pragmas=DURABLE)
        self._home = ""

    async def home(self) -> str:
        """Id of this gateway among those that share a store. It is read again if the file was replaced."""
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
        """Record the start of an attempt at a call. Return False if it, or a later one, was started before, or the call has ended."""

        def work(connection: sqlite3.Connection) -> bool:
            done = connection.execute(
                "INSERT INTO begun VALUES (?1, ?2, ?3) ON CONFLICT (call_id) DO UPDATE SET attempt = ?2, until = ?3 WHERE attempt < ?2",
                (call_id, attempt, expires + REMEMBERED_S),
            )
            return done.rowcount == 1

        return await self._file.run(work)

    async def end(self, call_id: str, expires: float, *, at: float = 0.0, box: bytes = b"") -> None:
        """Record the end of a call. `box` is its encrypted outcome; `at` is the time of the end (seconds since the epoch)."""

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
        """Return the last calls that ended here, each with its encrypted outcome."""

        def work(connection: sqlite3.Connection) -> tuple[tuple[str, bytes], ...]:
            last = "SELECT call_id, box FROM endings ORDER BY at DESC LIMIT ?"
            return tuple((str(call_id), bytes(box)) for call_id, box in connection.execute(last, (_MAX_ENDINGS,)))

        return await self._file.run(work) if self._file else ()

    async def ending(self, call_id: str) -> bytes:
        """Return the encrypted outcome of a call that ended here; b"" if it is not among the last ones."""

        def work(connection: sqlite3.Connection) -> bytes:
            row = connection.execute("SELECT box FROM endings WHERE call_id = ?", (call_id,)).fetchone()
            return b"" if row is None else bytes(row[0])

        return await self._file.run(work) if self._file else b""

    async def attempt(self, call_id: str) -> int | None:
        """Return the last attempt that was started here, `OVER` for a call that ended here, None for one that was never started."""

        def work(connection: sqlite3.Connection) -> int | None:
            row = connection.execute("SELECT attempt FROM begun WHERE call_id = ?", (call_id,)).fetchone()
            return None if row is None else int(row[0])

        return await self._file.run(work) if self._file else None

    async def is_over(self, call_id: str) -> bool:
        """Return True if a call ended here."""
        return await self.attempt(call_id) == OVER

    async def await_end(self, invocation: Invocation) -> None:
        """Record that a call now waits, or runs without its caller: its end must be reported even if the store loses the call.

        Its arguments are not stored.
        """
        kept = without_arguments(invocation)
        row = (kept.id, kept.asked, as_json(kept))
        await self._file.write(
            lambda connection: connection.execute("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?)", row)
        )

    async def awaiting(self, before: float) -> tuple[Invocation, ...]:
        """Return calls made before a time without a recorded end, without their arguments, the oldest first."""

        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            rows = connection.execute("SELECT body FROM waiting WHERE asked < ? ORDER BY asked, call_id", (before,))
            return tuple(from_json(row[0]) for row in rows)

        return await self._file.run(work) if self._file else ()

    async def awaited(self, call_id: str) -> Invocation | None:
        """Return the call with this id if its end was not recorded, without its arguments."""

        def work(connection: sqlite3.Connection) -> Invocation | None:
            row = connection.execute("SELECT body FROM waiting WHERE call_id = ?", (call_id,)).fetchone()
            return None if row is None else from_json(row[0])

        return await self._file.run(work) if self._file else None

    async def forget_awaited(self, call_ids: Sequence[str]) -> None:
        """Remove calls whose end another gateway recorded, or that were never stored."""
        rows = [(call_id,) for call_id in call_ids]
        if rows and self._file:
            await self._file.write(
                lambda connection: connection.executemany("DELETE FROM waiting WHERE call_id = ?", rows)
            )

    async def still_storing(self, call_ids: Sequence[str], now: float) -> None:
        """Record that a process still tries to store these calls, so that `awaiting` returns them as if they were made now."""
        rows = [(now, call_id) for call_id in call_ids]
        await self._file.write(
            lambda connection: connection.executemany("UPDATE waiting SET asked = ? WHERE call_id = ?", rows)
        )

    async def use_key(self, key: str, call_id: str, *, now: float, expires: float) -> str:
        """Record the use of an idempotency key by a call. Return the call that used it first and has not expired."""

        def work(connection: sqlite3.Connection) -> str:
            connection.execute("DELETE FROM used_keys WHERE id = ? AND until <= ?", (key, now))
            connection.execute("INSERT OR IGNORE INTO used_keys VALUES (?, ?, ?)", (key, call_id, expires))
            return str(connection.execute("SELECT call_id FROM used_keys WHERE id = ?", (key,)).fetchone()[0])

        return await self._file.write(work)

    async def free_key(self, key: str, call_id: str) -> None:
        """Remove the key of a call without an effect."""
        row = (key, call_id)
        if self._file:
            await self._file.write(
                lambda connection: connection.execute("DELETE FROM used_keys WHERE id = ? AND call_id = ?", row)
            )

    async def epoch(self) -> str:
        """Return the last known epoch of the store, "" for none."""

        def work(connection: sqlite3.Connection) -> str:
            row = connection.execute("SELECT value FROM epoch").fetchone()
            return "" if row is None else str(row[0])

        return await self._file.run(work) if self._file else ""

    async def move_epoch(self, known: str, new: str) -> bool:
        """Replace the known epoch. Only one of several concurrent workers succeeds, and gets True."""

        def work(connection: sqlite3.Connection) -> bool:
            row = connection.execute("SELECT value FROM epoch").fetchone()
            if ("" if row is None else row[0]) != known:
                return False
            connection.execute("DELETE FROM epoch")
            connection.execute("INSERT INTO epoch VALUES (?)", (new,))
            return True

        return await self._file.write(work)

    async def forget(self, now: float) -> None:
        """Remove entries that are no longer needed."""

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
