"""Used idempotency keys, each with its call and outcome, in a SQLite file or, for several machines, in Redis."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.call_journal import CallJournal
from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.redis_connection import RedisLink
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction
from toolgen.state.store_watch import StoreWatch

__all__ = ["IdempotencyStore", "KeyClaim", "RedisLedger", "SqliteLedger", "Unsettled"]

_MAX_UNSETTLED = 10_000
_RETRY_S = 1.0


class KeyClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Use of an idempotency key. `id` is a digest over caller, tool and key; `arguments` is a digest of the call's arguments.

    `running`: its call runs, and its gateway renews the claim before `lease` is over. `waiting`: it waits for a person.
    `ended`: `outcome` is the caller's answer, encrypted. `lost`: the store has lost the state of its call.
    Times are seconds since the epoch; at `expires` the key is forgotten.
    """

    id: str
    call_id: str
    holder: str
    tool: str
    arguments: str
    status: Literal["running", "waiting", "ended", "lost"] = "running"
    lease: float = 0.0
    expires: float
    outcome: bytes = b""


class Unsettled:
    """Failed changes of claims, repeated until they succeed or the store is closed."""

    def __init__(self) -> None:
        self._steps: deque[Callable[[], Awaitable[None]]] = deque(maxlen=_MAX_UNSETTLED)
        self._task: asyncio.Task[None] | None = None

    def add(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat a step later that raised `StateError`."""
        self._steps.append(step)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._steps:
            try:
                await self._steps[0]()
            except StateUnavailableError:
                await asyncio.sleep(_RETRY_S)
            except StateError:  # it does not block the others
                self._steps.rotate(-1)
                await asyncio.sleep(_RETRY_S)
            else:
                self._steps.popleft()

    async def close(self) -> None:
        """Drop the remaining changes: the lease of such a claim expires, and the outcome of its call is then unknown, which is safe."""
        if self._task is not None:
            await cancel(self._task)


class IdempotencyStore(Protocol):
    """Storage of idempotency keys, shared by every worker and durable. Each method raises `StateError`."""

    @property
    def later(self) -> Unsettled:
        """Changes that could not be stored yet."""

    async def claim(self, claim: KeyClaim, now: float, *, most: int) -> KeyClaim | None:
        """Store a claim if its key is unused, and return the stored one; None if its holder has `most` keys in use."""

    async def settle(self, claim: KeyClaim) -> None:
        """Replace the stored claim of the same key and call, unless that call has settled it as ended."""

    async def lose(self, claim: KeyClaim, now: float) -> bool:
        """End a running claim that was not renewed in time, as `claim` says. Its call may still settle it. Return False if the store was
        unreachable, so that it is unknown whether the call is lost.
        """

    async def release(self, claim: KeyClaim) -> None:
        """Forget the key of a call without an effect, so that it can be used again."""

    async def of_calls(self) -> dict[str, KeyClaim]:
        """Return every key in use, by its call."""

    async def now(self) -> float:
        """Return the common time of all users of the keys, in seconds since the epoch."""

    async def changed(self, within: float) -> None:
        """Wait until something may have changed, or for this many seconds."""

    async def close(self) -> None:
        """Close the storage."""


_SCHEMA = """
CREATE TABLE IF NOT EXISTS claims (
  id TEXT PRIMARY KEY, call_id TEXT NOT NULL, holder TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL, status TEXT NOT NULL,
  lease REAL NOT NULL, expires REAL NOT NULL, outcome BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS held ON claims (holder);
CREATE INDEX IF NOT EXISTS expiring ON claims (expires)
"""
_LEASE_OF_LOST = -1.0  # lease of a claim that was ended for its call, which may still settle it
_COLUMNS = ("id", "call_id", "holder", "tool", "arguments", "status", "lease", "expires", "outcome")


class SqliteLedger:
    """Claims in a SQLite file, created at the first call with a key.

    A claim is on the disk before `claim` returns: a power cut cannot free a key whose call was sent.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self.later = Unsettled()
        self._file = SqliteFile(path, kept="idempotency keys", schema=_SCHEMA, pragmas=DURABLE)
        self._news = asyncio.Event()

    async def claim(self, claim: KeyClaim, now: float, *, most: int) -> KeyClaim | None:
        def work(connection: sqlite3.Connection) -> KeyClaim | None:
            with transaction(connection):
                connection.execute("DELETE FROM claims WHERE expires <= ?", (now,))
                return _kept(connection, claim, most)

        return await self._file.run(work)

    async def settle(self, claim: KeyClaim) -> None:
        await self._write(
            "UPDATE claims SET status = ?, lease = ?, expires = ?, outcome = ? WHERE id = ? AND call_id = ?"
            " AND (status <> 'ended' OR lease = ?)",
            (claim.status, claim.lease, claim.expires, claim.outcome, claim.id, claim.call_id, _LEASE_OF_LOST),
        )

    async def lose(self, claim: KeyClaim, now: float) -> bool:
        await self._write(
            "UPDATE claims SET status = 'ended', lease = ?, outcome = ? WHERE id = ? AND call_id = ? AND status = 'running'"
            " AND lease <= ?",
            (_LEASE_OF_LOST, claim.outcome, claim.id, claim.call_id, now),
        )
        return True

    async def release(self, claim: KeyClaim) -> None:
        await self._write("DELETE FROM claims WHERE id = ? AND call_id = ?", (claim.id, claim.call_id))

    async def of_calls(self) -> dict[str, KeyClaim]:
        if not self._file:
            return {}

        def work(connection: sqlite3.Connection) -> dict[str, KeyClaim]:
            return {one.call_id: one for one in map(_claim, connection.execute("SELECT * FROM claims"))}

        return await self._file.run(work)

    async def now(self) -> float:
        return self._clock.now()

    async def changed(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._news.wait()

    async def close(self) -> None:
        await self.later.close()
        await self._file.close()

    async def _write(self, sql: str, values: tuple[object, ...]) -> None:
        await self._file.run(lambda connection: connection.execute(sql, values))
        news, self._news = self._news, asyncio.Event()
        news.set()


def _kept(connection: sqlite3.Connection, claim: KeyClaim, most: int) -> KeyClaim | None:
    found = connection.execute("SELECT * FROM claims WHERE id = ?", (claim.id,)).fetchone()
    if found is not None:
        return _claim(found)
    (held,) = connection.execute("SELECT count(*) FROM claims WHERE holder = ?", (claim.holder,)).fetchone()
    if held >= most:
        return None
    connection.execute("INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(claim))
    return claim


def _row(claim: KeyClaim) -> tuple[object, ...]:
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


def _claim(row: tuple[object, ...]) -> KeyClaim:
    return KeyClaim(**dict(zip(_COLUMNS, row, strict=True)))  # type: ignore[arg-type]


_SCRIPT = Script.named("ledger")


class RedisLedger:
    """Idempotency claims in Redis, encrypted; digests, the id of the call, its status and its times are beside them in plain text.

    A claim is as durable as Redis makes an acknowledged write; the gateway's journal has the keys that were used here, so that a key is
    not used twice if Redis has lost it. While Redis is unreachable, every method raises `StateError`.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], journal: CallJournal, watch: StoreWatch) -> None:
        self._redis = SealedScript(link, seal, _SCRIPT, "ledger", kept="idempotency keys")
        self._journal = journal
        self._watch = watch
        self.later = Unsettled()
        self._news = asyncio.Event()

    async def claim(self, claim: KeyClaim, now: float, *, most: int) -> KeyClaim | None:
        seal = await self._redis.seal()
        about = (claim.id, claim.call_id, _principal_digest(claim.holder), str(most), repr(now), repr(claim.expires))
        box = await self._redis.run("claim", *about, repr(claim.lease), _closed(seal, claim))
        found = None if box is None else _opened(seal, claim.id, box)
        if found is None or found.call_id != claim.call_id:
            return found
        first = await self._journal.use_key(claim.id, claim.call_id, now=now, expires=claim.expires)
        if first == claim.call_id:
            return found
        await self._redis.run("release", claim.id, claim.call_id)
        return msgspec.structs.replace(claim, call_id=first, status="lost", lease=0.0)

    async def settle(self, claim: KeyClaim) -> None:
        seal = await self._redis.seal()
        times, now = (repr(claim.lease), repr(claim.expires)), await self._redis.now()
        box = _closed(seal, claim)
        await self._redis.run(
            "settle", claim.id, claim.call_id, claim.status, *times, box, _principal_digest(claim.holder), repr(now)
        )
        self._notify()

    async def lose(self, claim: KeyClaim, now: float) -> bool:
        if not self._watch.settled:
            return False
        seal = await self._redis.seal()
        await self._redis.run("lose", claim.id, claim.call_id, repr(now), _closed(seal, claim))
        self._notify()
        return True

    async def release(self, claim: KeyClaim) -> None:
        await self._redis.seal()
        await self._redis.run("release", claim.id, claim.call_id)
        await self._journal.free_key(claim.id, claim.call_id)
        self._notify()

    async def of_calls(self) -> dict[str, KeyClaim]:
        seal = await self._redis.seal()
        found = await self._redis.run("all", "-inf")
        claims = []
        for name, box in zip(found[::2], found[1::2], strict=True):
            with suppress(StateError):  # an unreadable claim does not hide others
                claims.append(_opened(seal, name.decode("utf-8", "replace"), box))
        return {one.call_id: one for one in claims}

    async def now(self) -> float:
        return await self._redis.now()

    async def changed(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._news.wait()

    async def close(self) -> None:
        await self.later.close()
        await self._redis.close()
        await self._journal.close()

    def _notify(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _closed(seal: Seal, claim: KeyClaim) -> bytes:
    return seal.close(msgspec.msgpack.encode(claim), f"key {claim.id}")


def _opened(seal: Seal, name: str, box: bytes) -> KeyClaim:
    try:
        return msgspec.msgpack.decode(seal.open(box, f"key {name}"), type=KeyClaim)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StateError("the data of an idempotency key in Redis was changed") from error


def _principal_digest(holder: str) -> str:
    """Return a digest of a principal for counting, so that the store does not contain the name."""
    return hashlib.sha256(holder.encode("utf-8", "surrogatepass")).hexdigest()[:32]
