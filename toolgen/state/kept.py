"""Answers too long to be given at once, kept for their callers: sealed, bounded, for a while, and seen by every process of one machine."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolgen.clock import Clock
from toolgen.errors import StateError

__all__ = ["EACH", "EXPIRES_S", "KEY_BYTES", "TOTAL", "KeptAnswers"]

T = TypeVar("T")

EXPIRES_S = 900.0
EACH = 16 * 1024 * 1024
TOTAL = 256 * 1024 * 1024
"""How many bytes are kept for one principal, and for all of them. The oldest go first."""

KEY_BYTES = 48
_ID, _NONCE = 16, 12
_BUSY_S = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
  id BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID
"""


class KeptAnswers:
    """A SQLite file, made when the first answer is kept. Only its owner may read it (mode 0600), and nobody what is in it.

    Each answer is encrypted (AES-256-GCM) under a key of its own, which is given to the caller and not kept, and bound to what the caller
    must say again: whoever has the file has nothing, and whoever has the key but is somebody else has nothing either.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="answers")
        self._connection: sqlite3.Connection | None = None

    async def put(self, body: bytes, *, owner: str, bound: bytes) -> bytes:
        """Keeps an answer, and returns its key. Raises `StateError`, also for one that is longer than anybody may keep."""
        if len(body) > EACH:
            raise StateError("an answer is longer than is kept for anybody")
        name, key = secrets.token_bytes(_ID), AESGCM.generate_key(256)
        expires = self._clock.now() + EXPIRES_S

        def work(connection: sqlite3.Connection) -> None:
            nonce = secrets.token_bytes(_NONCE)
            sealed = nonce + AESGCM(key).encrypt(nonce, body, name + bound)
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("DELETE FROM answers WHERE expires <= ?", (self._clock.now(),))
                _make_room(connection, owner, EACH - len(sealed))
                _make_room(connection, None, TOTAL - len(sealed))
                connection.execute(
                    "INSERT INTO answers VALUES (?, ?, ?, ?, ?)", (name, owner, expires, len(sealed), sealed)
                )
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

        await self._run(work)
        return name + key

    async def get(self, key: bytes, *, bound: bytes) -> bytes | None:
        """The answer of a key; None for one that expired, was never given out, or was given to somebody else or for something else."""
        if len(key) != KEY_BYTES or (self._connection is None and not self._path.exists()):
            return None
        name = key[:_ID]

        def work(connection: sqlite3.Connection) -> bytes | None:
            query = "SELECT body FROM answers WHERE id = ? AND expires > ?"
            row = connection.execute(query, (name, self._clock.now())).fetchone()
            if row is None:
                return None
            try:
                return AESGCM(key[_ID:]).decrypt(row[0][:_NONCE], row[0][_NONCE:], name + bound)
            except InvalidTag:
                return None

        return await self._run(work)

    async def close(self) -> None:
        """Closes the file."""

        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._open())
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise StateError(f"long answers cannot be kept: {reason}", where=str(self._path)) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("PRAGMA synchronous = OFF")  # what a crash loses, the agent asks for again
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute(_SCHEMA)
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection
        return self._connection


def _make_room(connection: sqlite3.Connection, owner: str | None, most: int) -> None:
    """Lets the oldest go until what is left of this owner, or of everybody, is at most so many bytes."""
    total = connection.execute(
        "SELECT coalesce(sum(size), 0) FROM answers WHERE ?1 IS NULL OR owner = ?1", (owner,)
    ).fetchone()[0]
    if total <= most:
        return
    oldest = connection.execute(
        "SELECT id, size FROM answers WHERE ?1 IS NULL OR owner = ?1 ORDER BY expires, id", (owner,)
    ).fetchall()
    for name, size in oldest:
        connection.execute("DELETE FROM answers WHERE id = ?", (name,))
        total -= size
        if total <= most:
            break
