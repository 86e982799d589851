"""Outbox in a SQLite file: visible to every process of one machine, and durable."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from toolgen.core.clock import Clock
from toolgen.state.outbox import (
    CROWDED,
    MAX_DEAD,
    MAX_WAITING,
    Dead,
    DeadLetter,
    Delivered,
    Later,
    MessageLease,
    OutboxCounts,
    Outcome,
    WebhookMessage,
)
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["SqliteOutbox"]

T = TypeVar("T")


_SCHEMA = """
CREATE TABLE IF NOT EXISTS told (
  call_id TEXT NOT NULL, event TEXT NOT NULL, until REAL NOT NULL, PRIMARY KEY (call_id, event)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
  receiver TEXT NOT NULL, id TEXT NOT NULL, event TEXT NOT NULL, call_id TEXT NOT NULL, made REAL NOT NULL, body BLOB NOT NULL,
  first REAL NOT NULL, due REAL NOT NULL, attempts INTEGER NOT NULL, died REAL, why TEXT NOT NULL, PRIMARY KEY (receiver, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS due ON messages (receiver, due) WHERE died IS NULL;
CREATE TABLE IF NOT EXISTS receivers (
  name TEXT PRIMARY KEY, token TEXT NOT NULL, leased REAL NOT NULL, held REAL NOT NULL
) WITHOUT ROWID
"""


_WAITING = "FROM messages WHERE receiver = ?1 AND died IS NULL"


class SqliteOutbox:
    """Outbox in a SQLite file, created with the first message."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = SqliteFile(path, kept="messages to webhooks", schema=_SCHEMA, pragmas=DURABLE)
        self._clock = clock

    async def tell(self, call_id: str, event: str, messages: Sequence[WebhookMessage], *, until: float) -> bool:
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                new = connection.execute(
                    "INSERT INTO told VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (call_id, event, until)
                )
                if new.rowcount:
                    for message in messages:
                        _keep(connection, message, now)
            return new.rowcount == 1

        return await self._file.run(work)

    async def claim(self, receiver: str, lease_s: float) -> MessageLease | None:
        now, token = self._clock.now(), secrets.token_hex(8)

        def work(connection: sqlite3.Connection) -> MessageLease | None:
            columns = "id, event, call_id, made, body, first, attempts"
            due = f"SELECT {columns} {_WAITING} AND due <= ?2 ORDER BY due, made LIMIT 1"
            if connection.execute(due, (receiver, now)).fetchone() is None:
                return None  # a read needs no lock
            with transaction(connection):
                took = connection.execute(
                    "INSERT INTO receivers VALUES (?1, ?2, ?3, 0) ON CONFLICT (name) DO UPDATE SET token = ?2, leased = ?3"
                    " WHERE leased <= ?4 AND held <= ?4",
                    (receiver, token, now + lease_s, now),
                )
                row = connection.execute(due, (receiver, now)).fetchone() if took.rowcount else None
                if row is None:
                    if took.rowcount:
                        connection.execute("UPDATE receivers SET leased = 0 WHERE name = ?", (receiver,))
                    return None
                again = "UPDATE messages SET attempts = attempts + 1 WHERE receiver = ? AND id = ?"
                connection.execute(again, (receiver, row[0]))
            message = WebhookMessage(
                id=row[0], receiver=receiver, event=row[1], call_id=row[2], made=row[3], body=row[4]
            )
            return MessageLease(message=message, since=row[5], attempts=row[6], token=token)

        return await self._run(work, absent=None)

    async def settle(self, claim: MessageLease, outcome: Outcome) -> bool:
        where = (claim.message.receiver, claim.message.id)

        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                held = outcome.held if isinstance(outcome, Later) else 0.0
                mine = connection.execute(
                    "UPDATE receivers SET token = '', leased = 0, held = max(held, ?3) WHERE name = ?1 AND token = ?2",
                    (where[0], claim.token, held),
                )
                if not mine.rowcount:
                    return False
                match outcome:
                    case Delivered():
                        connection.execute("DELETE FROM messages WHERE receiver = ? AND id = ?", where)
                    case Later(due=due, why=why):
                        connection.execute(
                            "UPDATE messages SET due = ?3, why = ?4 WHERE receiver = ?1 AND id = ?2", (*where, due, why)
                        )
                    case Dead(why=why):
                        connection.execute(
                            "UPDATE messages SET died = ?3, why = ?4 WHERE receiver = ?1 AND id = ?2",
                            (*where, self._clock.now(), why),
                        )
                        _make_room(connection, where[0])
            return True

        return await self._file.run(work)

    async def counts(self, receiver: str) -> OutboxCounts:
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> OutboxCounts:
            waiting, oldest = connection.execute(f"SELECT count(*), min(first) {_WAITING}", (receiver,)).fetchone()
            (dead,) = connection.execute(
                "SELECT count(*) FROM messages WHERE receiver = ? AND died IS NOT NULL", (receiver,)
            ).fetchone()
            return OutboxCounts(waiting=waiting, dead=dead, oldest_s=max(0.0, now - oldest) if waiting else 0.0)

        return await self._run(work, absent=OutboxCounts())

    async def dead(self, receiver: str, limit: int = 100) -> tuple[DeadLetter, ...]:
        def work(connection: sqlite3.Connection) -> tuple[DeadLetter, ...]:
            rows = connection.execute(
                "SELECT id, event, call_id, died, attempts, why FROM messages WHERE receiver = ? AND died IS NOT NULL"
                " ORDER BY died DESC, id LIMIT ?",
                (receiver, limit),
            )
            return tuple(
                DeadLetter(id=key, receiver=receiver, event=event, call_id=call, at=at, attempts=attempts, why=why)
                for key, event, call, at, attempts, why in rows
            )

        return await self._run(work, absent=())

    async def revive(self, receiver: str) -> int:
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> int:
            return connection.execute(
                "UPDATE messages SET died = NULL, due = ?2, first = ?2, attempts = 0"
                " WHERE receiver = ?1 AND died IS NOT NULL",
                (receiver, now),
            ).rowcount

        return await self._run(work, absent=0)

    async def forget(self, dead_before: float) -> None:
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM told WHERE until < ? LIMIT 1", (now,)).fetchone() is not None:
                connection.execute("DELETE FROM told WHERE until < ?", (now,))
            old = "FROM messages WHERE coalesce(died, first) < ?"
            if connection.execute(f"SELECT 1 {old} LIMIT 1", (dead_before,)).fetchone() is not None:
                connection.execute(f"DELETE {old}", (dead_before,))

        await self._run(work, absent=None)

    async def now(self) -> float:
        return self._clock.now()

    async def close(self) -> None:
        await self._file.close()

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, absent: T) -> T:
        """Return the result of `work`, or `absent` if there is no file."""
        return await self._file.run(work) if self._file else absent


def _keep(connection: sqlite3.Connection, message: WebhookMessage, now: float) -> None:
    (waiting,) = connection.execute(f"SELECT count(*) {_WAITING}", (message.receiver,)).fetchone()
    full = waiting >= MAX_WAITING
    connection.execute(
        "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT DO NOTHING",
        (
            message.receiver,
            message.id,
            message.event,
            message.call_id,
            message.made,
            message.body,
            now,
            now,
            now if full else None,
            CROWDED if full else "",
        ),
    )
    if full:
        _make_room(connection, message.receiver)


def _make_room(connection: sqlite3.Connection, receiver: str) -> None:
    connection.execute(
        "DELETE FROM messages WHERE receiver = ?1 AND id IN"
        " (SELECT id FROM messages WHERE receiver = ?1 AND died IS NOT NULL ORDER BY died DESC, id LIMIT -1 OFFSET ?2)",
        (receiver, MAX_DEAD),
    )
