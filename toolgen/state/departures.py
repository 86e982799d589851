"""Notes about clients that disconnected before their answer, for every worker: cancelled requests, and calls that continue.

A note is a hint, kept for an hour. A lost note only costs a returning client the outcome of its first call.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.redis_connection import RedisLink
from toolgen.state.sqlite_file import LASTING, SqliteFile

__all__ = ["KEPT_S", "Departure", "Departures", "RedisDepartures", "SqliteDepartures"]

KEPT_S = 3600.0
_MOST = 10_000
_MAX_READ = 1000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS departures (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, body BLOB NOT NULL)
"""
Kind: TypeAlias = Literal["cancelled", "left", "ended", "told"]


class Departure(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Note about a disconnected client. `cancelled`: the client cancelled the request `key`. `left`: the client of a call did not wait for
    its end; `ended`: the call has ended since; `told`: its caller knows the outcome. `key` is then a digest of the call.

    `key` is a keyed digest, and `at` is in seconds since the epoch.
    """

    kind: Kind
    key: str
    call_id: str = ""
    at: float = 0.0


class Departures(Protocol):
    """Storage of notes, shared by every worker. Each method raises `StateError` when they cannot be read or written."""

    async def add(self, note: Departure) -> None:
        """Store a note."""

    async def news(self) -> Sequence[Departure]:
        """Return the notes added by any worker since the last call of this method; at first all stored ones. At most a thousand."""

    async def close(self) -> None:
        """Close the storage."""


class SqliteDepartures:
    """Notes in a file of the machine, created with the first note."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, kept="notes about clients that left", schema=_SCHEMA, pragmas=LASTING)
        self._seen = (0, 0)

    async def add(self, note: Departure) -> None:
        body = msgspec.json.encode(note)

        def work(connection: sqlite3.Connection) -> None:
            added = connection.execute("INSERT INTO departures (at, body) VALUES (?, ?)", (note.at, body))
            last = added.lastrowid or 0
            connection.execute("DELETE FROM departures WHERE at < ? OR number <= ?", (note.at - KEPT_S, last - _MOST))

        await self._file.write(work)

    async def news(self) -> Sequence[Departure]:
        def work(connection: sqlite3.Connection) -> Sequence[Departure]:
            opened, last = self._seen
            after = last if opened == self._file.opened else 0
            rows = connection.execute(
                "SELECT number, body FROM departures WHERE number > ? ORDER BY number LIMIT ?", (after, _MAX_READ)
            ).fetchall()
            self._seen = (self._file.opened, rows[-1][0] if rows else after)
            return [msgspec.json.decode(body, type=Departure) for _, body in rows]

        return await self._file.run(work) if self._file else ()

    async def close(self) -> None:
        await self._file.close()


class RedisDepartures:
    """Notes in Redis. They are not encrypted: a writer in Redis can delete a note, but cannot compute a key.

    `last` returns the number of the last note from data that is read anyway: Redis is asked only if that number changed.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], last: Callable[[], int]) -> None:
        script = Script.named("departures")
        self._redis = SealedScript(link, seal, script, "departures", kept="notes about clients that left")
        self._last = last
        self._seen = 0

    async def add(self, note: Departure) -> None:
        await self._redis.run("add", msgspec.json.encode(note), str(int(KEPT_S * 1000)), str(_MOST))

    async def news(self) -> Sequence[Departure]:
        if self._last() == self._seen:
            return ()
        number, *bodies = await self._redis.run("news", str(self._seen), str(_MAX_READ))
        self._seen = int(number)
        found: list[Departure] = []
        for body in bodies:
            try:
                found.append(msgspec.json.decode(body.partition(b" ")[2], type=Departure))
            except msgspec.MsgspecError:  # a foreign entry
                continue
        return found

    async def close(self) -> None:
        await self._redis.close()
