"""Calls that outlive the request they came with: what is kept of each, and what a place that keeps them can do.

Invocations in a SQLite file: seen by every process of one machine, and there again after a crash.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from toolgen.clock import Clock
from toolgen.model.call import Origin, Proof
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["Invocation", "Invocations", "Party", "SqliteInvocations", "Status", "as_json", "from_json"]

Status = Literal["pending", "approved", "running", "ended"]


class Party(msgspec.Struct, frozen=True, kw_only=True):
    """A principal as it was when it called, by what it was known, and where its roles and attributes came from."""

    id: str
    roles: tuple[str, ...]
    attributes: dict[str, Any]
    on_behalf_of: Party | None = None
    toolsets: tuple[str, ...] = ()
    proof: Proof | None = None
    origin: Origin | None = None


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One call on its way: it waits for an answer (`pending`), may be carried out (`approved`), is being so (`running`) or `ended`.

    `digest` is what an answer is bound to. `home` is the machine that took the call on, which alone carries it out; `attempt` counts how
    often it was let go again before anything happened. Times are seconds since the epoch. Until `lease`, `owner` alone moves it on; an
    owner that dies leaves the lease to lapse. `arguments` are exact, and so may be sensitive; `bound` names those that the policy set.
    `envelope` is the JSON the caller gets once it ended.
    """

    id: str
    status: Status = "pending"
    version: int = 1
    principal: Party
    tool: str
    effect: str
    arguments: dict[str, Any]
    bound: tuple[str, ...] = ()
    sql: str = ""
    rule: str = ""
    digest: str
    tool_digest: str
    policy_digest: str
    session: str = ""
    client: str = ""
    parent: str = ""
    idempotency_key: str = ""
    asked: float
    expires: float
    home: str = ""
    attempt: int = 0
    owner: str = ""
    lease: float = 0.0
    ended: float = 0.0
    envelope: dict[str, Any] | None = None


class Invocations(Protocol):
    """Where invocations are kept, shared by every worker. Each method raises `StateError` when they cannot be read or written."""

    async def add(self, invocation: Invocation, *, each: int, total: int) -> bool:
        """Keeps a new one; False where its principal has `each` that wait for an answer already, or all principals together `total`."""

    async def get(self, call_id: str) -> Invocation | None:
        """The invocation of a call, as it is now."""

    async def unfinished(self) -> tuple[Invocation, ...]:
        """Those that have not ended, the oldest first."""

    async def replace(self, known: Invocation, changed: Invocation) -> Invocation | None:
        """Puts `changed` in place of `known` and returns it as it is kept, or None where that may not be: somebody else was quicker, it
        has ended, or it is another machine's to carry out. Then nothing happened."""

    async def now(self) -> float:
        """The time that all who share these go by, in seconds since the epoch."""

    async def forget(self, before: float) -> None:
        """Removes those that ended before a time, and what they held with them."""

    async def changed(self) -> bool:
        """Whether any may have changed since this was asked before."""

    async def close(self) -> None:
        """Lets go of what is open."""


def as_json(invocation: Invocation) -> bytes:
    """An invocation as it is kept."""
    return msgspec.json.encode(invocation, enc_hook=_plain)


def from_json(body: bytes) -> Invocation:
    """An invocation as it was kept. Raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(body, type=Invocation)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


T = TypeVar("T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS invocations (
  id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT NOT NULL, principal TEXT NOT NULL, asked REAL NOT NULL, ended REAL NOT NULL,
  body BLOB NOT NULL
) WITHOUT ROWID
"""


class SqliteInvocations:
    """Made at the first call that has to wait; until then there is no file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = SqliteFile(path, kept="the calls that wait", schema=_SCHEMA, pragmas=DURABLE)
        self._clock = clock
        self._seen = (0, 0, 0)

    async def add(self, invocation: Invocation, *, each: int, total: int) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            waiting = (
                "SELECT count(*), count(CASE WHEN principal = ? THEN 1 END) FROM invocations WHERE status = 'pending'"
            )
            with transaction(connection):
                everybody, own = connection.execute(waiting, (invocation.principal.id,)).fetchone()
                if everybody >= total or own >= each:
                    return False
                connection.execute("INSERT INTO invocations VALUES (?, ?, ?, ?, ?, ?, ?)", _row(invocation))
            return True

        return await self._run(work, create=True, absent=False)

    async def get(self, call_id: str) -> Invocation | None:
        def work(connection: sqlite3.Connection) -> Invocation | None:
            row = connection.execute("SELECT body FROM invocations WHERE id = ?", (call_id,)).fetchone()
            return None if row is None else from_json(row[0])

        return await self._run(work, absent=None)

    async def unfinished(self) -> tuple[Invocation, ...]:
        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            rows = connection.execute("SELECT body FROM invocations WHERE status <> 'ended' ORDER BY asked, id")
            return tuple(from_json(row[0]) for row in rows)

        return await self._run(work, absent=())

    async def replace(self, known: Invocation, changed: Invocation) -> Invocation | None:
        kept = msgspec.structs.replace(changed, version=known.version + 1)

        def work(connection: sqlite3.Connection) -> Invocation | None:
            found = connection.execute(
                "UPDATE invocations SET version = ?2, status = ?3, principal = ?4, asked = ?5, ended = ?6, body = ?7"
                " WHERE id = ?1 AND version = ?8 AND status <> 'ended'",
                (*_row(kept), known.version),
            )
            return kept if found.rowcount == 1 else None

        return await self._run(work, absent=None)

    async def now(self) -> float:
        return self._clock.now()

    async def forget(self, before: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            old = "FROM invocations WHERE status = 'ended' AND ended < ?"
            if connection.execute(f"SELECT 1 {old} LIMIT 1", (before,)).fetchone() is not None:
                connection.execute(f"DELETE {old}", (before,))

        await self._run(work, absent=None)

    async def changed(self) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            # The first changes with commits of other connections, the second with our own.
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            seen, self._seen = self._seen, (self._file.opened, others, connection.total_changes)
            return seen != self._seen

        return await self._run(work, absent=False)

    async def close(self) -> None:
        await self._file.close()

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, absent: T, create: bool = False) -> T:
        """What `work` returns, or `absent` where there is no file and none is to be made."""
        return await self._file.run(work) if create or self._file else absent


def _row(invocation: Invocation) -> tuple[object, ...]:
    return (
        invocation.id,
        invocation.version,
        invocation.status,
        invocation.principal.id,
        invocation.asked,
        invocation.ended,
        as_json(invocation),
    )
