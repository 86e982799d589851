"""The ledger in a SQLite file: seen by every process of one machine, and there again after a crash."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from toolgen.errors import StateError
from toolgen.state.ledger import Claim

__all__ = ["SqliteLedger"]

T = TypeVar("T")
_BUSY_S = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS claims (
  id TEXT PRIMARY KEY, call_id TEXT NOT NULL, holder TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL, status TEXT NOT NULL,
  lease REAL NOT NULL, expires REAL NOT NULL, outcome BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS held ON claims (holder);
CREATE INDEX IF NOT EXISTS expiring ON claims (expires)
"""
_COLUMNS = ("id", "call_id", "holder", "tool", "arguments", "status", "lease", "expires", "outcome")


class SqliteLedger:
    """Made at the first call with a key. Only its owner may read it (mode 0600), and what is removed is overwritten.

    One thread speaks to SQLite. A claim is on the disk before `claim` returns: a power cut cannot free a key whose call was sent.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._connection: sqlite3.Connection | None = None
        self._news = asyncio.Event()

    async def claim(self, claim: Claim, now: float, *, most: int) -> Claim | None:
        def work(connection: sqlite3.Connection) -> Claim | None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("DELETE FROM claims WHERE expires <= ?", (now,))
                kept = _kept(connection, claim, most)
                connection.execute("COMMIT")
            except sqlite3.Error:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            return kept

        return await self._run(work)

    async def settle(self, claim: Claim) -> None:
        await self._write(
            "UPDATE claims SET status = ?, lease = ?, expires = ?, outcome = ? WHERE id = ? AND call_id = ?",
            (claim.status, claim.lease, claim.expires, claim.outcome, claim.id, claim.call_id),
        )

    async def lose(self, claim: Claim, now: float) -> None:
        await self._write(
            "UPDATE claims SET status = 'ended', outcome = ? WHERE id = ? AND call_id = ? AND status = 'running' AND lease <= ?",
            (claim.outcome, claim.id, claim.call_id, now),
        )

    async def release(self, claim: Claim) -> None:
        await self._write("DELETE FROM claims WHERE id = ? AND call_id = ?", (claim.id, claim.call_id))

    async def of_calls(self) -> dict[str, Claim]:
        if self._connection is None and not self._path.exists():
            return {}

        def work(connection: sqlite3.Connection) -> dict[str, Claim]:
            return {one.call_id: one for one in map(_claim, connection.execute("SELECT * FROM claims"))}

        return await self._run(work)

    async def changed(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._news.wait()

    async def close(self) -> None:
        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown()

    async def _write(self, sql: str, values: tuple[object, ...]) -> None:
        await self._run(lambda connection: connection.execute(sql, values))
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._open())
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise StateError(f"idempotency keys cannot be kept: {reason}", where=str(self._path)) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        if self._path.stat().st_mode & 0o077:
            self._path.chmod(0o600)
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            connection.executescript(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        self._connection = connection
        return connection


def _kept(connection: sqlite3.Connection, claim: Claim, most: int) -> Claim | None:
    found = connection.execute("SELECT * FROM claims WHERE id = ?", (claim.id,)).fetchone()
    if found is not None:
        return _claim(found)
    (held,) = connection.execute("SELECT count(*) FROM claims WHERE holder = ?", (claim.holder,)).fetchone()
    if held >= most:
        return None
    connection.execute("INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(claim))
    return claim


def _row(claim: Claim) -> tuple[object, ...]:
    return (
        claim.id,
        claim.call_id,
        claim.holder,
        claim.tool,
        claim.arguments,
        claim.status,
        claim.lease,
        claim.expires,
        claim.outcome,
    )


def _claim(row: tuple[object, ...]) -> Claim:
    return Claim(**dict(zip(_COLUMNS, row, strict=True)))  # type: ignore[arg-type]
