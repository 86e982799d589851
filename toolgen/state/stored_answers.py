"""Stored answers, within limits: long ones on disk for their callers, and a cache of results in memory."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.model.result import Failed, Shape
from toolgen.state.sqlite_file import LASTING, SqliteFile, transaction

__all__ = ["EACH", "EXPIRES_S", "KEY_BYTES", "TOTAL", "Flight", "Results", "StoredAnswer", "StoredAnswers"]

EXPIRES_S = 900.0
EACH = 16 * 1024 * 1024
TOTAL = 256 * 1024 * 1024
"""Maximum bytes for one principal, and for all of them. The oldest answers are removed first."""

KEY_BYTES = 48
_ID, _NONCE = 16, 12
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
  id BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID
"""


class StoredAnswers:
    """Answers in a SQLite file, created with the first answer. An agent requests an answer again that was lost in a crash.

    Each answer is encrypted (AES-256-GCM) with its own key, which only the caller has, and bound to values that the caller must repeat:
    neither the file alone nor the key in other hands opens it.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        pragmas = (*LASTING, "PRAGMA auto_vacuum = INCREMENTAL")
        self._file = SqliteFile(path, kept="long answers", schema=_SCHEMA, pragmas=pragmas)

    async def put(self, body: bytes, *, owner: str, bound: bytes) -> bytes:
        """Store an answer, and return its key. Raises `StateError`, also for an answer over the limit of a principal."""
        if len(body) > EACH:
            raise StateError("an answer exceeds the storage limit of a principal")
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
        """Return the answer of a key; None if it expired, never existed, or belongs to another caller or request."""
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
        """Close the file."""
        await self._file.close()


def _make_room(connection: sqlite3.Connection, owner: str | None, most: int) -> None:
    """Remove the oldest answers until this owner, or all owners, have at most this many bytes."""
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


CAPACITY = 32 * 1024 * 1024
_OVERHEAD = 600  # bytes of an entry in addition to its body: measured, rounded up
_UNSHARED_S = 10.0
_MAX_UNSHARED = 4096


class StoredAnswer(Struct, frozen=True, kw_only=True):
    """Cached answer: its data as JSON with the place of the system's own data, its `Link` header, its time, its end of freshness, and
    the end of its use on errors (monotonic times).
    """

    body: bytes
    next_cursor: str
    link: str
    rows: int | None
    made: float
    fresh_until: float
    stale_until: float
    shape: Shape = Shape.WHOLE
    total: int | None = None
    row_notes: tuple[str, ...] = ()
    unread_fields: Mapping[str, int] | None = None


class Flight:
    """Request in progress. `found` becomes the shareable part of its answer, or None; then each waiting call sends its own request, at
    most `places` at a time.
    """

    __slots__ = ("found", "places")

    def __init__(self, places: int) -> None:
        self.found: asyncio.Future[StoredAnswer | Failed | None] = asyncio.get_running_loop().create_future()
        self.places = asyncio.Semaphore(places)


class Results:
    """Cached answers by a key of the complete request, caller and policy. `flights` are requests in progress."""

    def __init__(self, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._kept: OrderedDict[bytes, StoredAnswer] = OrderedDict()
        self._writes: dict[str, int] = {}
        self._unshared: OrderedDict[bytes, float] = OrderedDict()
        self.flights: dict[bytes, Flight] = {}
        self.size = 0

    def get(self, key: bytes) -> StoredAnswer | None:
        """Return the cached answer, even if it is stale."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.stale_until <= self._clock.monotonic():
            self.drop(key)
            return None
        self._kept.move_to_end(key)
        return kept

    def put(self, key: bytes, kept: StoredAnswer) -> None:
        """Store an answer, in place of the least recently used ones; not an answer larger than an eighth of the cache."""
        self.drop(key)
        size = _size(kept)
        if size > self._capacity // 8:
            return
        self._kept[key] = kept
        self.size += size
        while self.size > self._capacity:
            self.drop(next(iter(self._kept)))

    def drop(self, key: bytes) -> None:
        """Remove an answer."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.size -= _size(kept)

    def set_apart(self, key: bytes) -> None:
        """Record that answers for this key cannot be shared, so that for a while calls do not wait for each other."""
        self._unshared[key] = self._clock.monotonic() + _UNSHARED_S
        self._unshared.move_to_end(key)
        if len(self._unshared) > _MAX_UNSHARED:
            self._unshared.popitem(last=False)

    def apart(self, key: bytes) -> bool:
        """Return True if a recent answer for this key could not be shared."""
        until = self._unshared.get(key)
        if until is None or self._clock.monotonic() < until:
            return until is not None
        del self._unshared[key]
        return False

    def writes(self, source: str) -> int:
        """Return the number of writes of the source known to this process: answers from before a write are outdated."""
        return self._writes.get(source, 0)

    def wrote(self, source: str) -> None:
        """Record the start or the end of a write of the source."""
        self._writes[source] = self._writes.get(source, 0) + 1


def _size(kept: StoredAnswer) -> int:
    return len(kept.body) + len(kept.link) + _OVERHEAD
