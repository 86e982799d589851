"""Leaders of equal calls (same caller, tool and arguments), in a SQLite file or, for several machines, in Redis."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from toolgen.core.clock import Clock
from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.redis_connection import RedisLink
from toolgen.state.sqlite_file import LASTING, SqliteFile

__all__ = ["EqualCalls", "Holder", "RedisEqualCalls", "SqliteEqualCalls"]

_KEPT, _BEGUN = "+", "-"


class Holder(Struct, frozen=True):
    """Call that others join. `kept`: it is stored among the waiting calls; before that it is only starting."""

    call_id: str
    kept: bool = False


class EqualCalls(Protocol):
    """Leading calls by name, shared by every worker. A name is a keyed digest of the common data of the calls, and each step is atomic.

    Each method raises `StateError`. Entries are not trusted: a stored call contains its name itself.
    """

    async def find(self, name: str) -> Holder | None:
        """Return the leading call of a name."""

    async def take(self, name: str, call_id: str, seconds: float) -> Holder:
        """Reserve a name for a call for some seconds, unless another has it. Return its current holder."""

    async def hold(self, name: str, call_id: str, seconds: float) -> None:
        """Record that a call is stored, unless another call has its name."""

    async def release(self, name: str, call_id: str) -> None:
        """Free the name of a call."""

    async def close(self) -> None:
        """Close the storage."""


class SqliteEqualCalls:
    """Leading calls in a file of the machine, created with the first one."""

    def __init__(self, path: Path, clock: Clock) -> None:
        schema = "CREATE TABLE IF NOT EXISTS holders (name TEXT PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID"
        self._file = SqliteFile(path, kept="calls that others are equal to", schema=schema, pragmas=LASTING, logs=True)
        self._clock = clock

    async def find(self, name: str) -> Holder | None:
        now = self._clock.now()
        return await self._file.run(lambda connection: _held(connection, name, now)) if self._file else None

    async def take(self, name: str, call_id: str, seconds: float) -> Holder:
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> Holder:
            connection.execute("DELETE FROM holders WHERE until <= ?", (now,))
            if (held := _held(connection, name, now)) is not None:
                return held
            connection.execute("INSERT INTO holders VALUES (?, ?, ?)", (name, _BEGUN + call_id, now + seconds))
            return Holder(call_id)

        return await self._file.write(work)

    async def hold(self, name: str, call_id: str, seconds: float) -> None:
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> None:
            held = _held(connection, name, now)
            if held is None or held.call_id == call_id:
                row = (name, _KEPT + call_id, now + seconds)
                connection.execute("INSERT OR REPLACE INTO holders VALUES (?, ?, ?)", row)

        await self._file.write(work)

    async def release(self, name: str, call_id: str) -> None:
        given = (name, _KEPT + call_id, _BEGUN + call_id)
        if self._file:
            await self._file.write(
                lambda connection: connection.execute("DELETE FROM holders WHERE name = ? AND holder IN (?, ?)", given)
            )

    async def close(self) -> None:
        await self._file.close()


class RedisEqualCalls:
    """Leading calls in Redis. They are not encrypted: a call joins only one that is stored, encrypted, under the same name."""

    def __init__(self, link: RedisLink, seal: Callable[[], Seal]) -> None:
        script = Script.named("equal_calls")
        self._redis = SealedScript(link, seal, script, "equal", kept="calls that others are equal to")

    async def find(self, name: str) -> Holder | None:
        held = _text(await self._redis.run("find", name))
        return _holder(held) if held else None

    async def take(self, name: str, call_id: str, seconds: float) -> Holder:
        return _holder(_text(await self._redis.run("take", name, _BEGUN + call_id, _milliseconds(seconds))))

    async def hold(self, name: str, call_id: str, seconds: float) -> None:
        await self._redis.run("hold", name, call_id, _KEPT + call_id, _milliseconds(seconds))

    async def release(self, name: str, call_id: str) -> None:
        await self._redis.run("release", name, call_id)

    async def close(self) -> None:
        await self._redis.close()


def _held(connection: sqlite3.Connection, name: str, now: float) -> Holder | None:
    row = connection.execute("SELECT holder FROM holders WHERE name = ? AND until > ?", (name, now)).fetchone()
    return None if row is None else _holder(row[0])


def _holder(text: str) -> Holder:
    return Holder(text[1:], kept=text[:1] == _KEPT)


def _text(answer: object) -> str:
    return answer.decode("ascii", "replace") if isinstance(answer, bytes) else ""


def _milliseconds(seconds: float) -> str:
    return str(max(1, int(seconds * 1000)))
