"""Sessions of the console in a SQLite file: visible to every process of one machine, ended for all of them at once."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from pathlib import Path

import msgspec

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.state.invocations import PrincipalRef
from toolgen.state.key_encryption import SealedRecord
from toolgen.state.sqlite_file import LASTING, SqliteFile, transaction

__all__ = ["SESSIONS_EACH", "SignInAttempt", "SignInSession", "SignInSessions"]

SESSIONS_EACH = 20
"""Maximum sessions of one principal; the least recently used is removed first."""
_MAX_COUNT = 5000
_ATTEMPT_S = 600.0
_SEEN_EVERY_S = 20.0  # seconds after a write in which another request writes nothing
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
  id BLOB PRIMARY KEY, principal TEXT NOT NULL, seen REAL NOT NULL, expires REAL NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS attempts (id BLOB PRIMARY KEY, expires REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
"""


class SignInSession(msgspec.Struct, frozen=True, kw_only=True):
    """Session of a person: identity and kind of proof, the token of their forms, and times (seconds since the epoch).

    `id_token` is the encrypted id token of the person, None if no source needs it.
    """

    principal: PrincipalRef
    form_token: str
    begun: float
    expires: float
    id_token: SealedRecord | None = None


class SignInAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Sign-in at a provider in progress, and the expected values of its answer."""

    state: str
    nonce: str
    verifier: str
    redirect: str
    to: str = ""  # the requested page


class SignInSessions:
    """Sessions and sign-in attempts, found by the SHA-256 of the browser's token, so that a reader of the file cannot impersonate a person.

    A session ends `idle_s` after its last request, and may be lost with the machine: people sign in again. Each method raises `StateError`
    when the file cannot be read or written.
    """

    def __init__(self, path: Path, clock: Clock, *, idle_s: float) -> None:
        self._clock = clock
        self._idle_s = idle_s
        self._file = SqliteFile(path, kept="sessions", schema=_SCHEMA, pragmas=LASTING)

    async def begin(self, session: SignInSession) -> str:
        """Store a session, and return the token for the browser."""
        token = secrets.token_urlsafe(32)

        def work(connection: sqlite3.Connection) -> None:
            now, name = self._clock.now(), session.principal.id
            with transaction(connection):
                self._forget(connection, now)
                newest = "SELECT id FROM sessions WHERE principal = ? ORDER BY seen DESC LIMIT ?"
                connection.execute(
                    f"DELETE FROM sessions WHERE principal = ? AND id NOT IN ({newest})",  # noqa: S608 - a constant
                    (name, name, SESSIONS_EACH - 1),
                )
                _check_room(connection)
                row = (_digest(token), name, now, session.expires, msgspec.json.encode(session))
                connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)

        await self._file.run(work)
        return token

    async def of(self, token: str) -> SignInSession | None:
        """Return the session of a token; None if it ended or never existed."""
        found = _digest(token)

        def work(connection: sqlite3.Connection) -> SignInSession | None:
            now = self._clock.now()
            row = connection.execute(
                "SELECT body FROM sessions WHERE id = ? AND expires > ? AND seen > ?",
                (found, now, now - self._idle_s),
            ).fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=SignInSession)

        return await self._file.run(work)

    async def seen(self, token: str) -> None:
        """Record a request of an active session."""
        now = self._clock.now()
        update = "UPDATE sessions SET seen = ? WHERE id = ? AND seen < ?"
        await self._file.run(lambda connection: connection.execute(update, (now, _digest(token), now - _SEEN_EVERY_S)))

    async def end(self, token: str) -> None:
        """End a session."""
        await self._file.run(
            lambda connection: connection.execute("DELETE FROM sessions WHERE id = ?", (_digest(token),))
        )

    async def attempt(self, attempt: SignInAttempt) -> str:
        """Store a sign-in attempt for ten minutes, and return the token for the browser's return."""
        token = secrets.token_urlsafe(32)

        def work(connection: sqlite3.Connection) -> None:
            now = self._clock.now()
            self._forget(connection, now)
            # Anybody can start an attempt: unfinished ones are removed first, and cannot lock anybody out.
            newest = "SELECT id FROM attempts ORDER BY expires DESC LIMIT ?"
            connection.execute(f"DELETE FROM attempts WHERE id NOT IN ({newest})", (_MAX_COUNT - 1,))  # noqa: S608 - a constant
            row = (_digest(token), now + _ATTEMPT_S, msgspec.json.encode(attempt))
            connection.execute("INSERT INTO attempts VALUES (?, ?, ?)", row)

        await self._file.run(work)
        return token

    async def take(self, token: str) -> SignInAttempt | None:
        """Return the attempt of a returning browser, once."""

        def work(connection: sqlite3.Connection) -> SignInAttempt | None:
            row = connection.execute(
                "DELETE FROM attempts WHERE id = ? AND expires > ? RETURNING body", (_digest(token), self._clock.now())
            ).fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=SignInAttempt)

        return await self._file.run(work)

    async def close(self) -> None:
        """Close the file."""
        await self._file.close()

    def _forget(self, connection: sqlite3.Connection, now: float) -> None:
        connection.execute("DELETE FROM sessions WHERE expires <= ? OR seen <= ?", (now, now - self._idle_s))
        connection.execute("DELETE FROM attempts WHERE expires <= ?", (now,))


def _check_room(connection: sqlite3.Connection) -> None:
    (held,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    if held >= _MAX_COUNT:
        raise StateError("too many people are signed in", suggestion="wait a few minutes")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
