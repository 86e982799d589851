"""Idempotency keys that were used: which call each belongs to and how that ended, in a SQLite file or, for several machines, in Redis."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from toolgen.clock import Clock
from toolgen.errors import StateError
from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.redis_connection import RedisLink
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["Claim", "Ledger", "RedisLedger", "SqliteLedger"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One key in use. `id` is a digest over caller, tool and key; `arguments` one over what the call was made with.

    `running`: its call is under way, and its gateway says so again before `lease` is over. `waiting`: it waits for a person.
    `ended`: `outcome` is what the caller was told, sealed. Times are seconds since the epoch; at `expires` the key is forgotten.
    """

    id: str
    call_id: str
    holder: str
    tool: str
    arguments: str
    status: Literal["running", "waiting", "ended"] = "running"
    lease: float = 0.0
    expires: float
    outcome: bytes = b""


class Ledger(Protocol):
    """Where keys are kept, shared by every worker and there again after a crash. Each method raises `StateError`."""

    async def claim(self, claim: Claim, now: float, *, most: int) -> Claim | None:
        """Keeps a claim where its key is not in use, and returns what is kept now; None where its holder has `most` keys in use."""

    async def settle(self, claim: Claim) -> None:
        """Puts a claim in place of what is kept of the same key and the same call."""

    async def lose(self, claim: Claim, now: float) -> None:
        """Ends a claim as `claim` says, if its call is running and nobody has said so in time."""

    async def release(self, claim: Claim) -> None:
        """Forgets the key of a call that did nothing: it may be used again."""

    async def of_calls(self) -> dict[str, Claim]:
        """Every key in use, by its call."""

    async def now(self) -> float:
        """The time that all who share the keys go by, in seconds since the epoch."""

    async def changed(self, within: float) -> None:
        """Returns when something may have changed, or after so many seconds."""

    async def close(self) -> None:
        """Lets go of what is open."""


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
    """Made at the first call with a key.

    A claim is on the disk before `claim` returns: a power cut cannot free a key whose call was sent.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._file = SqliteFile(path, kept="idempotency keys", schema=_SCHEMA, pragmas=DURABLE)
        self._news = asyncio.Event()

    async def claim(self, claim: Claim, now: float, *, most: int) -> Claim | None:
        def work(connection: sqlite3.Connection) -> Claim | None:
            with transaction(connection):
                connection.execute("DELETE FROM claims WHERE expires <= ?", (now,))
                return _kept(connection, claim, most)

        return await self._file.run(work)

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
        if not self._file:
            return {}

        def work(connection: sqlite3.Connection) -> dict[str, Claim]:
            return {one.call_id: one for one in map(_claim, connection.execute("SELECT * FROM claims"))}

        return await self._file.run(work)

    async def now(self) -> float:
        return self._clock.now()

    async def changed(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._news.wait()

    async def close(self) -> None:
        await self._file.close()

    async def _write(self, sql: str, values: tuple[object, ...]) -> None:
        await self._file.run(lambda connection: connection.execute(sql, values))
        news, self._news = self._news, asyncio.Event()
        news.set()


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


_SCRIPT = Script.named("ledger")


class RedisLedger:
    """What Redis has of a claim is sealed; beside it stand digests, the id of its call, its status and its times.

    A claim is kept as well as Redis keeps what it acknowledged. While it cannot be reached, every method raises `StateError`.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal]) -> None:
        self._redis = SealedScript(link, seal, _SCRIPT, "ledger", kept="idempotency keys")
        self._news = asyncio.Event()

    async def claim(self, claim: Claim, now: float, *, most: int) -> Claim | None:
        seal = await self._redis.seal()
        about = (claim.id, claim.call_id, _who(claim.holder), str(most), repr(now), repr(claim.expires))
        box = await self._redis.run("claim", *about, repr(claim.lease), _closed(seal, claim))
        return None if box is None else _opened(seal, claim.id, box)

    async def settle(self, claim: Claim) -> None:
        seal = await self._redis.seal()
        times = (repr(claim.lease), repr(claim.expires))
        await self._redis.run("settle", claim.id, claim.call_id, claim.status, *times, _closed(seal, claim))
        self._tell()

    async def lose(self, claim: Claim, now: float) -> None:
        seal = await self._redis.seal()
        await self._redis.run("lose", claim.id, claim.call_id, repr(now), _closed(seal, claim))
        self._tell()

    async def release(self, claim: Claim) -> None:
        await self._redis.seal()
        await self._redis.run("release", claim.id, claim.call_id)
        self._tell()

    async def of_calls(self) -> dict[str, Claim]:
        seal = await self._redis.seal()
        found = await self._redis.run("all", "-inf")
        claims = []
        for name, box in zip(found[::2], found[1::2], strict=True):
            with suppress(StateError):  # one that nobody can read hides no other
                claims.append(_opened(seal, name.decode("utf-8", "replace"), box))
        return {one.call_id: one for one in claims}

    async def now(self) -> float:
        return await self._redis.now()

    async def changed(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._news.wait()

    async def close(self) -> None:
        await self._redis.close()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _closed(seal: Seal, claim: Claim) -> bytes:
    return seal.close(msgspec.msgpack.encode(claim), f"key {claim.id}")


def _opened(seal: Seal, name: str, box: bytes) -> Claim:
    try:
        return msgspec.msgpack.decode(seal.open(box, f"key {name}"), type=Claim)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StateError("what is kept of an idempotency key in Redis is not what was kept there") from error


def _who(holder: str) -> str:
    """A principal, for counting: its name is nobody's business there."""
    return hashlib.sha256(holder.encode("utf-8", "surrogatepass")).hexdigest()[:32]
