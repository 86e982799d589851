"""Values behind tokens for agents (`<email:1>`), encrypted for their session: in a SQLite file or, for several machines, in Redis."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.redis_connection import RedisLink
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = [
    "GIVEN_S",
    "IDLE_S",
    "MAX_GIVEN",
    "MAX_SESSIONS",
    "MAX_VALUES",
    "MAX_VALUE_BYTES",
    "RedisVault",
    "SqliteVault",
    "TokenScope",
    "ValueVault",
    "skip_numbers",
]

IDLE_S = 24 * 3600.0
"""Seconds that a session's values are kept after their last use: equal to those of its labels."""
MAX_VALUES = 5_000
MAX_SESSIONS = 200
"""Maximum values of one session, and sessions of one owner: the least recently used is removed first."""
MAX_VALUE_BYTES = 8 * 1024
GIVEN_S = 30 * 24 * 3600.0
MAX_GIVEN = 5_000
"""Seconds, and maximum number per owner, of remembered values given to calls: the least recently given is removed first."""
_COUNTED_S = 30 * 24 * 3600.0
_FRESH_S = 600.0  # minimum seconds between two renewals
_BATCH = 500
_SKIPPED = 1_000_000  # numbers that are left out; a token has room for nine digits

Value = tuple[str, str]
"""Kind and value."""
Token = tuple[str, int]
"""Kind and number."""


@dataclass(frozen=True)
class TokenScope:
    """Owner of values: one session of a principal and the principal it acts for (`parties`)."""

    parties: tuple[str, ...]
    session: str

    @cached_property
    def owner(self) -> str:
        """Digest of the parties."""
        return _digest(list(self.parties))

    @cached_property
    def id(self) -> str:
        """Digest of parties and session."""
        return _digest([list(self.parties), self.session])


class ValueVault(Protocol):
    """Tokens and their values in a session. Each method raises `StateError`.

    A value always has the same number in a session; a number belongs to one value among all sessions of its owner.
    """

    async def keep(self, scope: TokenScope, values: Sequence[Value]) -> dict[Value, int]:
        """Return the numbers of values, stored from now on; none for a value that is too long, or without room in the session."""

    async def find(self, scope: TokenScope, tokens: Sequence[Token]) -> dict[Token, str]:
        """Return the values of those tokens that this session has."""

    async def give(self, scope: TokenScope, values: Sequence[Value]) -> None:
        """Record that calls of this owner received these values, because the called systems may return them later."""

    async def given(self, scope: TokenScope) -> list[Value]:
        """Return all values that calls of this owner received, in any session."""

    async def close(self) -> None:
        """Close the storage."""


# The row without an owner has the start of the numbers of new owners.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS kept_values (
  session TEXT NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL, owner TEXT NOT NULL, mac TEXT NOT NULL, box BLOB NOT NULL,
  expires REAL NOT NULL, PRIMARY KEY (session, kind, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS by_value ON kept_values (session, kind, mac);
CREATE INDEX IF NOT EXISTS by_owner ON kept_values (owner, session);
CREATE INDEX IF NOT EXISTS expiring ON kept_values (expires);
CREATE TABLE IF NOT EXISTS given_values (
  owner TEXT NOT NULL, kind TEXT NOT NULL, mac TEXT NOT NULL, box BLOB NOT NULL, expires REAL NOT NULL, PRIMARY KEY (owner, kind, mac)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS last_numbers (
  owner TEXT NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL, expires REAL NOT NULL, PRIMARY KEY (owner, kind)
) WITHOUT ROWID
"""


class SqliteVault:
    """Values in a SQLite file, created with the first value. `seal` returns the encryption key."""

    def __init__(self, path: Path, clock: Clock, seal: Callable[[], Seal]) -> None:
        self._clock = clock
        self._make_seal = seal
        self._seal: Seal | None = None
        # A number that was given out and then forgotten would be used for another value.
        self._file = SqliteFile(path, kept="values behind tokens", schema=_SCHEMA, pragmas=DURABLE)

    async def keep(self, scope: TokenScope, values: Sequence[Value]) -> dict[Value, int]:
        seal, wanted = self._sealed(), _usable(values)

        def work(connection: sqlite3.Connection) -> dict[Value, int]:
            now = self._clock.now()
            with transaction(connection):
                connection.execute("DELETE FROM kept_values WHERE expires <= ?", (now,))
                connection.execute("DELETE FROM last_numbers WHERE expires <= ?", (now,))
                connection.execute("DELETE FROM given_values WHERE expires <= ?", (now,))
                _renew(connection, scope, now)
                held = _held(connection, scope)
                found: dict[Value, int] = {}
                for value in wanted:
                    number = _number(connection, scope, value, seal, now, room=held < MAX_VALUES)
                    if number:
                        found[value] = abs(number)
                        held += number < 0
                return found

        return await self._file.run(work)

    async def find(self, scope: TokenScope, tokens: Sequence[Token]) -> dict[Token, str]:
        if not tokens or not self._file:
            return {}
        seal = self._sealed()

        def work(connection: sqlite3.Connection) -> dict[Token, str]:
            now = self._clock.now()
            _renew(connection, scope, now)
            found = {}
            for token in tokens:
                row = connection.execute(
                    "SELECT box FROM kept_values WHERE session = ? AND kind = ? AND number = ? AND expires > ?",
                    (scope.id, *token, now),
                ).fetchone()
                if row is not None:
                    found[token] = _opened(seal, _about(scope, token), row[0])
            return found

        return await self._file.run(work)

    async def give(self, scope: TokenScope, values: Sequence[Value]) -> None:
        seal, expires = self._sealed(), self._clock.now() + GIVEN_S
        rows = [(scope.owner, *row, expires) for row in _given_rows(seal, scope, values)]

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.executemany("INSERT OR REPLACE INTO given_values VALUES (?, ?, ?, ?, ?)", rows)
                connection.execute(
                    "DELETE FROM given_values WHERE owner = ? AND (kind, mac) IN "
                    "(SELECT kind, mac FROM given_values WHERE owner = ? ORDER BY expires DESC LIMIT -1 OFFSET ?)",
                    (scope.owner, scope.owner, MAX_GIVEN),
                )

        await self._file.run(work)

    async def given(self, scope: TokenScope) -> list[Value]:
        if not self._file:
            return []
        seal = self._sealed()

        def work(connection: sqlite3.Connection) -> list[Value]:
            rows = connection.execute(
                "SELECT kind, mac, box FROM given_values WHERE owner = ? AND expires > ?",
                (scope.owner, self._clock.now()),
            ).fetchall()
            return [(kind, _opened(seal, _about_given(scope, kind, mac), box)) for kind, mac, box in rows]

        return await self._file.run(work)

    async def close(self) -> None:
        await self._file.close()

    def _sealed(self) -> Seal:
        if self._seal is None:
            self._seal = self._make_seal()
        return self._seal


def skip_numbers(path: Path, now: float) -> None:
    """Continue the numbers of a `SqliteVault` file far above all known ones: numbers given after the backup have no value.

    `now` is in seconds since the epoch. Raises `StateError`.
    """
    path.touch(mode=0o600)
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(_SCHEMA)
            with connection:
                (floor,) = connection.execute(
                    "SELECT coalesce(max(number), 0) + ? FROM last_numbers", (_SKIPPED,)
                ).fetchone()
                connection.execute("UPDATE last_numbers SET number = ?", (floor,))
                connection.execute(
                    "INSERT OR REPLACE INTO last_numbers VALUES ('', '', ?, ?)", (floor, now + _COUNTED_S)
                )
    except sqlite3.Error as error:
        raise StateUnavailableError(f"cannot be written: {error}", where=str(path)) from error


def _renew(connection: sqlite3.Connection, scope: TokenScope, now: float) -> None:
    connection.execute(
        "UPDATE kept_values SET expires = ? WHERE session = ? AND expires > ? AND expires < ?",
        (now + IDLE_S, scope.id, now, now + IDLE_S - _FRESH_S),
    )


def _held(connection: sqlite3.Connection, scope: TokenScope) -> int:
    """Return the number of values of a session. For a new session the owner's least recently used one is removed."""
    (held,) = connection.execute("SELECT count(*) FROM kept_values WHERE session = ?", (scope.id,)).fetchone()
    if not held:
        rows = connection.execute(
            "SELECT session FROM kept_values WHERE owner = ? GROUP BY session ORDER BY max(expires) DESC LIMIT -1 OFFSET ?",
            (scope.owner, MAX_SESSIONS - 1),
        ).fetchall()
        connection.executemany("DELETE FROM kept_values WHERE session = ?", rows)
    return int(held)


def _number(
    connection: sqlite3.Connection, scope: TokenScope, value: Value, seal: Seal, now: float, *, room: bool
) -> int:
    """Return the number of a value; less than 0 if it is new, and 0 if there is no room for it."""
    kind, mac = value[0], _mac(seal, scope, value)
    row = connection.execute(
        "SELECT number FROM kept_values WHERE session = ? AND kind = ? AND mac = ?", (scope.id, kind, mac)
    ).fetchone()
    if row is not None:
        return int(row[0])
    if not room:
        return 0
    (number,) = connection.execute(
        "INSERT INTO last_numbers VALUES "
        "(?, ?, 1 + coalesce((SELECT number FROM last_numbers WHERE owner = '' AND kind = ''), 0), ?) "
        "ON CONFLICT DO UPDATE SET number = number + 1, expires = excluded.expires RETURNING number",
        (scope.owner, kind, now + _COUNTED_S),
    ).fetchone()
    box = _closed(seal, scope, (kind, number), value[1])
    row = (scope.id, kind, number, scope.owner, mac, box, now + IDLE_S)
    connection.execute("INSERT INTO kept_values VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    return -int(number)


_SCRIPT = Script.named("values")
_IDLE_MS = str(int(IDLE_S * 1000))


class RedisVault:
    """Values in Redis, each encrypted with its session, kind and number. The digests beside them do not reveal the value."""

    def __init__(self, link: RedisLink, seal: Callable[[], Seal]) -> None:
        self._redis = SealedScript(link, seal, _SCRIPT, "values", kept="values behind tokens")

    async def keep(self, scope: TokenScope, values: Sequence[Value]) -> dict[Value, int]:
        seal = await self._redis.seal()
        found: dict[Value, int] = {}
        for batch in _batches(_usable(values)):
            named = [part for value in batch for part in (value[0], _mac(seal, scope, value))]
            bounds = (_IDLE_MS, str(MAX_SESSIONS), str(MAX_VALUES))
            answer = await self._redis.run("number", scope.owner, scope.id, *bounds, *named)
            boxes: list[str | bytes] = []
            for (kind, text), number, new in zip(batch, answer[::2], answer[1::2], strict=True):
                if number:
                    found[kind, text] = number
                    if new:
                        boxes += (kind, str(number), _closed(seal, scope, (kind, number), text))
            if boxes:
                await self._redis.run("put", scope.id, _IDLE_MS, *boxes)
        return found

    async def find(self, scope: TokenScope, tokens: Sequence[Token]) -> dict[Token, str]:
        if not tokens:
            return {}
        seal = await self._redis.seal()
        named = [part for kind, number in tokens for part in (kind, str(number))]
        boxes = await self._redis.run("find", scope.id, _IDLE_MS, *named)
        found: dict[Token, str] = {}
        for token, box in zip(tokens, boxes, strict=True):
            if box:
                found[token] = _opened(seal, _about(scope, token), box)
        return found

    async def give(self, scope: TokenScope, values: Sequence[Value]) -> None:
        seal = await self._redis.seal()
        for batch in _batches(list(values)):
            parts = [part for row in _given_rows(seal, scope, batch) for part in row]
            await self._redis.run("give", scope.owner, str(int(GIVEN_S)), str(MAX_GIVEN), *parts)

    async def given(self, scope: TokenScope) -> list[Value]:
        seal = await self._redis.seal()
        found = await self._redis.run("given", scope.owner, str(int(GIVEN_S)))
        names = [str(name, "ascii") if isinstance(name, bytes) else name for name in found[::2]]
        return [
            (kind, _opened(seal, _about_given(scope, kind, mac), box))
            for (kind, mac), box in zip((name.split(" ") for name in names), found[1::2], strict=True)
        ]

    async def close(self) -> None:
        await self._redis.close()


def _usable(values: Sequence[Value]) -> list[Value]:
    return [value for value in dict.fromkeys(values) if len(_encoded(value[1])) <= MAX_VALUE_BYTES]


def _batches(values: list[Value]) -> Iterator[list[Value]]:
    for at in range(0, len(values), _BATCH):
        yield values[at : at + _BATCH]


def _mac(seal: Seal, scope: TokenScope, value: Value) -> str:
    """Return a MAC that identifies equal values of a session, and reveals nothing without the key."""
    about = f"{scope.id} {value[0]} ".encode()
    return hmac.new(seal.values, about + _encoded(value[1]), hashlib.sha256).hexdigest()[:32]


def _closed(seal: Seal, scope: TokenScope, token: Token, text: str) -> bytes:
    return seal.close(_encoded(text), _about(scope, token))


def _given_rows(seal: Seal, scope: TokenScope, values: Sequence[Value]) -> list[tuple[str, str, bytes]]:
    """Return kind, MAC and encrypted text of values; the MAC identifies equal values of an owner."""
    rows = []
    for kind, text in dict.fromkeys(values):
        mac = hmac.new(seal.values, f"given {scope.owner} {kind} ".encode() + _encoded(text), hashlib.sha256)
        name = mac.hexdigest()[:32]
        rows.append((kind, name, seal.close(_encoded(text), _about_given(scope, kind, name))))
    return rows


def _opened(seal: Seal, about: str, box: bytes) -> str:
    with suppress(UnicodeDecodeError):
        return seal.open(box, about).decode("utf-8", "surrogatepass")
    raise StateError("the stored value of a token was changed")


def _about(scope: TokenScope, token: Token) -> str:
    return f"value {scope.id} {token[0]} {token[1]}"


def _about_given(scope: TokenScope, kind: str, mac: str) -> str:
    return f"given {scope.owner} {kind} {mac}"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
