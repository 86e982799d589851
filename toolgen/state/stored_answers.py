"""Answers too long to be given at once, kept for their callers: sealed, bounded, for a while, and seen by every process of one machine."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolgen.clock import Clock
from toolgen.errors import StateError
from toolgen.state.sqlite_file import LASTING, SqliteFile, transaction

__all__ = ["EACH", "EXPIRES_S", "KEY_BYTES", "TOTAL", "KeptAnswers"]

EXPIRES_S = 900.0
EACH = 16 * 1024 * 1024
TOTAL = 256 * 1024 * 1024
"""How many bytes are kept for one principal, and for all of them. The oldest go first."""

KEY_BYTES = 48
_ID, _NONCE = 16, 12
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
  id BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID
"""


class KeptAnswers:
    """A SQLite file, made when the first answer is kept. What a crash loses of it, the agent asks for again.

    Each answer is encrypted (AES-256-GCM) under a key of its own, which is given to the caller and not kept, and bound to what the caller
    must say again: whoever has the file has nothing, and whoever has the key but is somebody else has nothing either.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        pragmas = (*LASTING, "PRAGMA auto_vacuum = INCREMENTAL")
        self._file = SqliteFile(path, kept="long answers", schema=_SCHEMA, pragmas=pragmas)

    async def put(self, body: bytes, *, owner: str, bound: bytes) -> bytes:
        """Keeps an answer, and returns its key. Raises `StateError`, also for one that is longer than anybody may keep."""
        if len(body) > EACH:
            raise StateError("an answer is longer than is kept for anybody")
        name, key = secrets.token_bytes(_ID), AESGCM.generate_key(256)
        expires = self._clock.now() + EXPIRES_S

        def work(connection: sqlite3.Connection) -> None:
            nonce = secrets.token_bytes(_NONCE)
            sealed = nonce + AESGCM(key).encrypt(nonce, body, name + bound)
            with transaction(connection):
                connection.execute("DELETE FROM answers WHERE expires <= ?", (self._clock.now(),))
                _make_room(connection, owner, EACH - len(sealed))
                _make_room(connection, None, TOTAL - len(sealed))
                connection.execute(
                    "INSERT INTO answers VALUES (?, ?, ?, ?, ?)", (name, owner, expires, len(sealed), sealed)
                )

        await self._file.run(work)
        return name + key

    async def get(self, key: bytes, *, bound: bytes) -> bytes | None:
        """The answer of a key; None for one that expired, was never given out, or was given to somebody else or for something else."""
        if len(key) != KEY_BYTES or not self._file:
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

        return await self._file.run(work)

    async def close(self) -> None:
        """Closes the file."""
        await self._file.close()


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
