"""Invocations in a SQLite file: visible to every process of one machine, and durable."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.state.call_states import Kind
from toolgen.state.invocation_format import as_json, from_json
from toolgen.state.invocations import (
    Fate,
    Invocation,
    ResultsFullError,
    RetainedBytes,
    Room,
    counted_as,
    counted_for,
    due_at,
    may_follow,
)
from toolgen.state.sqlite_file import DURABLE, SqliteFile

__all__ = ["SqliteInvocations"]

T = TypeVar("T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS invocations (
  id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT NOT NULL, principal TEXT NOT NULL, asked REAL NOT NULL, ended REAL NOT NULL,
  body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS counted ON invocations (status, principal);
CREATE INDEX IF NOT EXISTS asked ON invocations (status, asked, version) WHERE status IN ('pending', 'approved', 'running');
CREATE INDEX IF NOT EXISTS due ON invocations (ended) WHERE status <> 'ended';
CREATE INDEX IF NOT EXISTS over ON invocations (ended) WHERE status = 'ended';
CREATE TABLE IF NOT EXISTS held (principal TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO held SELECT principal, sum(length(body)) FROM invocations
  WHERE status = 'ended' AND NOT EXISTS (SELECT 1 FROM held) GROUP BY principal;
INSERT INTO held SELECT '', sum(bytes) FROM held WHERE NOT EXISTS (SELECT 1 FROM held WHERE principal = '') HAVING count(*) > 0;
CREATE TRIGGER IF NOT EXISTS kept AFTER UPDATE ON invocations WHEN new.status = 'ended' AND old.status <> 'ended' BEGIN
  INSERT INTO held VALUES (new.principal, length(new.body)), ('', length(new.body))
    ON CONFLICT (principal) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER IF NOT EXISTS forgotten AFTER DELETE ON invocations WHEN old.status = 'ended' BEGIN
  UPDATE held SET bytes = bytes - length(old.body) WHERE principal IN ('', old.principal);
  DELETE FROM held WHERE principal = old.principal AND bytes <= 0;
END
"""
_UNFINISHED = ("pending", "approved", "running")
_COUNTED = (
    *_UNFINISHED,
    *(f"{kind} {status}" for kind in ("device", "call", "workflow", "account") for status in _UNFINISHED),
    "ended",
)
"""Values of `counted_as`."""
_UNFINISHED_CALLS = "SELECT {columns} FROM invocations WHERE status IN ({statuses}) ORDER BY asked, id"
_COUNT = "SELECT count(*) FROM invocations"
_MAX_DUE = 1000
_FULL = object()
_logger = logging.getLogger(__name__)


class SqliteInvocations:
    """Calls in a SQLite file, created with the first waiting call.

    The columns are for searches. `status` is `counted_as`, and `ended` is `due_at`: for a call of an earlier release it is 0, so it is
    checked until it is over. The table `held` has the bytes of ended calls, by principal and, as '', in total.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = SqliteFile(path, kept="the calls that wait", schema=_SCHEMA, pragmas=DURABLE, logs=True)
        self._clock = clock
        self._seen = (0, 0, 0)
        self.by_others = False
        self.loss = ""
        """Always empty: a missing file has lost all its calls."""
        self.lost_at = 0.0
        self.listened = True

    async def add(self, invocation: Invocation, *, each: int, total: int) -> Invocation | None:
        row, like = _row(invocation), (counted_as(invocation), counted_for(invocation))

        def work(connection: sqlite3.Connection) -> Invocation | None:
            kept = connection.execute("SELECT body FROM invocations WHERE id = ?", (invocation.id,)).fetchone()
            if kept is not None:
                there = from_json(kept[0])
                if there.kind == invocation.kind == "call":
                    return there
                raise StateError("the calls that wait: that call is kept already")
            (everybody,) = connection.execute(f"{_COUNT} WHERE status = ?", like[:1]).fetchone()
            (own,) = connection.execute(f"{_COUNT} WHERE status = ? AND principal = ?", like).fetchone()
            if everybody >= total or own >= each:
                return None
            connection.execute("INSERT INTO invocations VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            return invocation

        return await self._file.write(work)

    async def get(self, call_id: str) -> Invocation | None:
        def work(connection: sqlite3.Connection) -> Invocation | None:
            row = connection.execute("SELECT body FROM invocations WHERE id = ?", (call_id,)).fetchone()
            return None if row is None else from_json(row[0])

        return await self._run(work, absent=None)

    async def unfinished(self, kind: Kind = "approval") -> tuple[Invocation, ...]:
        asked = _UNFINISHED_CALLS.format(columns="body", statuses=_unfinished(kind))

        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            return tuple(from_json(row[0]) for row in connection.execute(asked))

        return await self._run(work, absent=())

    async def versions(self, kind: Kind = "approval") -> tuple[tuple[str, int], ...]:
        asked = _UNFINISHED_CALLS.format(columns="id, version", statuses=_unfinished(kind))

        def work(connection: sqlite3.Connection) -> tuple[tuple[str, int], ...]:
            return tuple(connection.execute(asked))

        return await self._run(work, absent=())

    async def several(self, call_ids: Sequence[str]) -> tuple[Invocation, ...]:
        wanted = msgspec.json.encode(list(call_ids)).decode()

        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            rows = connection.execute(
                "SELECT body FROM invocations WHERE id IN (SELECT value FROM json_each(?))", (wanted,)
            )
            return tuple(_readable(rows))

        return await self._run(work, absent=())

    async def ended_since(self, since: float) -> tuple[Invocation, ...]:
        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            rows = connection.execute(
                "SELECT body FROM invocations INDEXED BY over WHERE status = 'ended' AND ended >= ? ORDER BY ended LIMIT ?",
                (since, _MAX_DUE),
            )
            return tuple(from_json(row[0]) for row in rows)

        return await self._run(work, absent=())

    async def waiting(self, kind: Kind, principals: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        status = "pending" if kind == "approval" else f"{kind} pending"

        def work(connection: sqlite3.Connection) -> Mapping[str, tuple[str, ...]]:
            found: dict[str, tuple[str, ...]] = {}
            for principal in principals:
                rows = connection.execute(
                    "SELECT id FROM invocations WHERE status = ? AND principal = ? ORDER BY asked, id",
                    (status, principal),
                )
                found[principal] = tuple(row[0] for row in rows)
            return found

        return await self._run(work, absent=dict.fromkeys(principals, ()))

    async def owned(self, principals: Sequence[str], after: float, limit: int) -> tuple[Invocation, ...]:
        counted, wanted = (msgspec.json.encode(names).decode() for names in (_COUNTED, list(principals)))

        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            rows = connection.execute(
                "SELECT body FROM invocations WHERE status IN (SELECT value FROM json_each(?))"
                " AND principal IN (SELECT value FROM json_each(?)) AND asked >= ? ORDER BY asked, id LIMIT ?",
                (counted, wanted, after, limit),
            )
            return tuple(from_json(row[0]) for row in rows)

        return await self._run(work, absent=())

    async def due(self, now: float) -> tuple[Invocation, ...]:
        def work(connection: sqlite3.Connection) -> tuple[Invocation, ...]:
            rows = connection.execute(
                "SELECT body FROM invocations WHERE status <> 'ended' AND ended <= ? ORDER BY ended, asked LIMIT ?",
                (now, _MAX_DUE),
            )
            return tuple(_readable(rows))

        return await self._run(work, absent=())

    async def renew(self, call_ids: Sequence[str], until: float, *, unless_due: float = -1.0) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE invocations SET ended = ? WHERE id = ? AND status <> 'ended' AND ended > ?",
                [(until, call_id, unless_due) for call_id in call_ids],
            )

        if self._file:
            await self._file.write(work)

    async def replace(self, known: Invocation, changed: Invocation, *, room: Room | None = None) -> Invocation | None:
        if not may_follow(known, changed):
            return None
        kept = msgspec.structs.replace(changed, version=known.version + 1)
        row = (*_row(kept), known.version, known.lost)
        bounded = room if kept.status == "ended" else None

        def work(connection: sqlite3.Connection) -> Invocation | object | None:
            if bounded is not None:
                held, size = _held(connection, counted_for(kept)), len(row[6])
                if held.own + size > bounded.each or held.all + size > bounded.total:
                    return _FULL
            found = connection.execute(
                "UPDATE invocations SET version = ?2, status = ?3, principal = ?4, asked = ?5, ended = ?6, body = ?7"
                " WHERE id = ?1 AND version = ?8 AND (status <> 'ended' OR ?9)",
                row,
            )
            return kept if found.rowcount == 1 else None

        done = await self._file.write(work) if self._file else None
        if done is _FULL:
            raise ResultsFullError
        return kept if done is not None else None

    async def held(self, principal: str) -> RetainedBytes:
        def work(connection: sqlite3.Connection) -> RetainedBytes:
            found = _held(connection, principal)
            first = "SELECT min(ended) FROM invocations WHERE status = 'ended'"
            (everybody,) = connection.execute(first).fetchone()
            (own,) = connection.execute(f"{first} AND principal = ?", (principal,)).fetchone()
            return msgspec.structs.replace(found, own_since=own or 0.0, all_since=everybody or 0.0)

        return await self._run(work, absent=RetainedBytes())

    async def fate(self, known: Invocation) -> Fate:
        return "own"

    async def restore(self, known: Invocation, *, over: int | None = None) -> Invocation | None:
        kept = msgspec.structs.replace(known, version=known.version + 1)
        row = _row(kept)

        def work(connection: sqlite3.Connection) -> Invocation | None:
            there = connection.execute("SELECT version FROM invocations WHERE id = ?", (known.id,)).fetchone()
            if over is not None and over != (0 if there is None else there[0]):
                return None
            connection.execute("INSERT OR REPLACE INTO invocations VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            return kept

        return await self._file.write(work)

    async def restore_endings(self) -> None:
        """Do nothing: the file has them."""

    async def restore_ending(self, known: Invocation) -> Invocation | None:
        return None

    async def missing(self, before: float) -> tuple[Invocation, ...]:
        return ()

    async def still_storing(self, call_ids: Sequence[str]) -> None:
        """Do nothing: the file confirms each call."""

    async def awaited(self, call_id: str) -> Invocation | None:
        known = await self.get(call_id)
        return None if known is None or known.status == "ended" else known

    async def absent(self, calls: Mapping[str, float]) -> tuple[str, ...]:
        def work(connection: sqlite3.Connection) -> tuple[str, ...]:
            asked = "SELECT 1 FROM invocations WHERE id = ?"
            return tuple(call_id for call_id in calls if connection.execute(asked, (call_id,)).fetchone() is None)

        return await self._run(work, absent=tuple(calls))

    async def begin_epoch(self) -> bool:
        return False

    async def now(self) -> float:
        return self._clock.now()

    async def forget(self, before: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            old = "FROM invocations INDEXED BY over WHERE status = 'ended' AND ended < ?"
            if connection.execute(f"SELECT 1 {old} LIMIT 1", (before,)).fetchone() is not None:
                connection.execute(f"DELETE {old}", (before,))
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # removed data must not remain in a log either

        await self._run(work, absent=None)

    async def changed(self) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            # The second changes with commits of other connections, the third with our own.
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            seen, self._seen = self._seen, (self._file.opened, others, connection.total_changes)
            self.by_others = seen[:2] != self._seen[:2]
            return seen != self._seen

        return await self._run(work, absent=False)

    async def close(self) -> None:
        await self._file.close()

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, absent: T) -> T:
        """Return the result of `work`, or `absent` if there is no file."""
        return await self._file.run(work) if self._file else absent


def _unfinished(kind: Kind) -> str:
    """Return the list of the values of `counted_as` of unfinished calls in SQL, as text, because a partial index takes no parameters."""
    names = _UNFINISHED if kind == "approval" else tuple(f"{kind} {status}" for status in _UNFINISHED)
    return ", ".join(f"'{name}'" for name in names)


def _held(connection: sqlite3.Connection, principal: str) -> RetainedBytes:
    found = dict(connection.execute("SELECT principal, bytes FROM held WHERE principal IN ('', ?)", (principal,)))
    return RetainedBytes(own=found.get(principal, 0), all=found.get("", 0))


def _readable(rows: Iterable[tuple[bytes]]) -> Iterable[Invocation]:
    """Yield the calls in rows. An unreadable one does not block the others."""
    for (body,) in rows:
        try:
            yield from_json(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            _logger.error("a call that waits cannot be read")  # noqa: TRY400 - its text may quote anything


def _row(invocation: Invocation) -> tuple[str, int, str, str, float, float, bytes]:
    return (
        invocation.id,
        invocation.version,
        counted_as(invocation),
        counted_for(invocation),
        invocation.asked,
        due_at(invocation),
        as_json(invocation),
    )
