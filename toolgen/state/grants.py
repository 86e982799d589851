"""Grants: permissions for a limited time, stored for all gateways of a project in a SQLite file or encrypted in Redis."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.state.call_journal import CallJournal
from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.invocations import ApprovalVote, PrincipalRef, Requirement
from toolgen.state.redis_connection import RedisLink
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["CallGrant", "Grant", "Grants", "RedisGrants", "RoleGrant", "SqliteGrants"]

R = TypeVar("R")
T = TypeVar("T", bound="Grant")


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Permission from `created` until `expires` (seconds since the epoch), or until `ended`, which is 0 until then.

    Grants that belong together have the same `group`. `used` counts the calls that used the grant.
    """

    id: str
    version: int = 1
    group: str
    created: float
    expires: float
    used: int = 0
    ended: float = 0.0


class CallGrant(Grant, frozen=True, kw_only=True):
    """Approval of up to `calls` future calls of a principal to a tool.

    `scope` is the digest of all their conditions except arguments, `digest` includes those ("": any arguments), `asked_by` are the rules
    whose approval requirement it satisfies. `arguments` are for display, with sensitive values concealed. `votes` are those of `call_id`,
    given for the same conditions.
    """

    principal: PrincipalRef
    tool: str
    effect: str
    tool_digest: str
    scope: str
    digest: str
    asked_by: tuple[str, ...]
    arguments: dict[str, Any]
    session: str
    calls: int
    needs: tuple[Requirement, ...]
    votes: tuple[ApprovalVote, ...]
    call_id: str
    ended_by: str = ""


class RoleGrant(Grant, frozen=True, kw_only=True):
    """Role of `to` for `seconds`. With `break_glass` it waits for a second person, and is in force once `agreed_by` is set. The roles of
    both people are those they had at that time.
    """

    role: str
    to: str
    seconds: float
    reason: str
    break_glass: bool
    asked_by: str
    asked_roles: tuple[str, ...]
    agreed_by: str = ""
    agreed_roles: tuple[str, ...] = ()
    ended_by: str = ""

    @property
    def waits(self) -> bool:
        """True if the approval of another person is still missing."""
        return self.break_glass and not self.agreed_by


class Grants(Protocol[T]):
    """Storage of grants of one kind. Each method raises `StateError` when they cannot be read or written."""

    async def add(self, grant: T, *, each: int, total: int) -> bool:
        """Store a new grant; return False if its group has `each` in force, or all groups together `total`."""

    async def get(self, grant_id: str) -> T | None:
        """Return the current state of a grant that has not expired; also if it was ended."""

    async def all(self) -> tuple[T, ...]:
        """Return the grants in force."""

    async def of(self, group: str) -> tuple[T, ...]:
        """Return the grants of a group that are in force."""

    async def replace(self, known: T, changed: T) -> T | None:
        """Replace `known` by `changed` and return the stored grant; None if another writer was faster, or a use was counted before. Only
        one concurrent writer succeeds.
        """

    async def now(self) -> float:
        """Return the common time of all gateways, in seconds since the epoch."""

    async def changed(self) -> bool:
        """True if a grant may have changed since the last call of this method."""

    async def close(self) -> None:
        """Close the storage."""


_SCHEMA = """
CREATE TABLE IF NOT EXISTS grants (
  id TEXT PRIMARY KEY, version INTEGER NOT NULL, party TEXT NOT NULL, expires REAL NOT NULL, over INTEGER NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS in_force ON grants (over, party)
"""
_GRANTS = "SELECT body FROM grants WHERE"
_COUNT = "SELECT count(*) FROM grants WHERE over = 0 AND expires > ?"


class SqliteGrants(Generic[T]):
    """Grants in a SQLite file, created with the first grant."""

    def __init__(self, path: Path, clock: Clock, kind: type[T]) -> None:
        self._file = SqliteFile(path, kept="grants", schema=_SCHEMA, pragmas=DURABLE)
        self._clock = clock
        self._kind = kind
        self._seen = (0, 0, 0)

    async def add(self, grant: T, *, each: int, total: int) -> bool:
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                connection.execute("DELETE FROM grants WHERE expires <= ?", (now,))
                (everybody,) = connection.execute(_COUNT, (now,)).fetchone()
                (own,) = connection.execute(f"{_COUNT} AND party = ?", (now, grant.group)).fetchone()
                if everybody >= total or own >= each:
                    return False
                row = (grant.id, grant.version, grant.group, grant.expires, 0, msgspec.json.encode(grant))
                connection.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?)", row)
            return True

        return await self._file.run(work)

    async def get(self, grant_id: str) -> T | None:
        found = await self._found(f"{_GRANTS} id = ? AND expires > ?", grant_id)
        return found[0] if found else None

    async def all(self) -> tuple[T, ...]:
        return await self._found(f"{_GRANTS} over = 0 AND expires > ? ORDER BY expires, id")

    async def of(self, group: str) -> tuple[T, ...]:
        return await self._found(f"{_GRANTS} over = 0 AND party = ? AND expires > ? ORDER BY expires, id", group)

    async def _found(self, query: str, *given: str) -> tuple[T, ...]:
        now = self._clock.now()

        def work(connection: sqlite3.Connection) -> tuple[T, ...]:
            rows = connection.execute(query, (*given, now))
            return tuple(msgspec.json.decode(row[0], type=self._kind) for row in rows)

        return await self._run(work, absent=())

    async def replace(self, known: T, changed: T) -> T | None:
        kept = msgspec.structs.replace(changed, version=known.version + 1)

        def work(connection: sqlite3.Connection) -> T | None:
            row = (kept.version, kept.expires, kept.ended > 0, msgspec.json.encode(kept), known.id, known.version)
            update = "UPDATE grants SET version = ?, expires = ?, over = ?, body = ? WHERE id = ? AND version = ?"
            return kept if connection.execute(update, row).rowcount == 1 else None

        return await self._run(work, absent=None)

    async def now(self) -> float:
        return self._clock.now()

    async def changed(self) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            # The first changes with commits of other connections, the second with our own.
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            seen, self._seen = self._seen, (self._file.opened, others, connection.total_changes)
            return seen != self._seen

        return await self._run(work, absent=False)

    async def close(self) -> None:
        await self._file.close()

    async def _run(self, work: Callable[[sqlite3.Connection], R], *, absent: R) -> R:
        return await self._file.run(work) if self._file else absent


_SCRIPT = Script.named("grants")
_MAX_SEEN = 10_000
_LOST = "Redis has lost the state of a grant; the grant is no longer used"


class RedisGrants(Generic[T]):
    """Grants in Redis. Each grant and its version are in a box that only the key of `seal` creates or opens.

    A writer on that server can delete a grant, but cannot create or change one. An older version is refused: a process remembers the latest
    version of each grant that it saw, and the machine (`begun`) stores which uses were counted here, and which grants were ended here.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], begun: CallJournal, name: str, kind: type[T]) -> None:
        self._redis = SealedScript(link, seal, _SCRIPT, name, kept="grants")
        self._begun = begun
        self._name = name
        self._kind = kind
        self._known = -1
        self._versions: OrderedDict[str, int] = OrderedDict()

    async def add(self, grant: T, *, each: int, total: int) -> bool:
        seal = await self._redis.seal()
        box = seal.close(msgspec.json.encode(grant), self._about(grant.id, 1))
        group = _hidden(grant.group)
        done = await self._redis.run("add", grant.id, group, str(each), str(total), repr(grant.expires), box)
        return bool(done == 1)

    async def get(self, grant_id: str) -> T | None:
        seal = await self._redis.seal()
        version, box = await self._redis.run("get", grant_id)
        found = None if version is None else self._opened(seal, grant_id, version, box)
        return found if found is not None and await self._is_good(found) else None

    async def all(self) -> tuple[T, ...]:
        return await self._found("all")

    async def of(self, group: str) -> tuple[T, ...]:
        return await self._found("of", _hidden(group))

    async def _found(self, *asked: str) -> tuple[T, ...]:
        """Return the grants in force. A grant that cannot be decrypted is left out: it permits nothing, and blocks no other."""
        seal, good = await self._redis.seal(), []
        found: list[bytes] = await self._redis.run(*asked)
        for grant_id, version, box in zip(found[::3], found[1::3], found[2::3], strict=True):
            try:
                grant = self._opened(seal, grant_id.decode("utf-8", "replace"), version, box)
            except StateError:
                continue
            if not grant.ended and await self._is_good(grant):
                good.append(grant)
        return tuple(good)

    async def _is_good(self, grant: T) -> bool:
        """Return True if the grant has not expired by Redis's own clock, and was not ended on this machine."""
        if grant.expires <= await self._redis.now():
            return False
        return grant.ended > 0 or not await self._begun.is_over(f"{self._name} {grant.id}")

    async def replace(self, known: T, changed: T) -> T | None:
        seal = await self._redis.seal()
        kept = msgspec.structs.replace(changed, version=known.version + 1)
        if kept.used > known.used and not await self._begun.begin(
            f"{kept.id} {kept.used}", known.version, kept.expires
        ):
            return None  # it was counted on this machine before, so the state in Redis is older
        box = seal.close(msgspec.json.encode(kept), self._about(kept.id, kept.version))
        what = (_hidden(kept.group), repr(kept.expires), box, "1" if kept.ended else "0")
        if await self._redis.run("replace", kept.id, str(known.version), *what) != 1:
            return None
        self._remember(kept.id, kept.version)
        if kept.ended:
            await self._begun.end(f"{self._name} {kept.id}", kept.expires)
        return kept

    async def now(self) -> float:
        return await self._redis.now()

    async def changed(self) -> bool:
        number = await self._redis.run("changes")
        news, self._known = bool(number != self._known), number
        return news

    async def close(self) -> None:
        await self._redis.close()
        await self._begun.close()

    def _opened(self, seal: Seal, grant_id: str, number: bytes, box: bytes | None) -> T:
        """Return the grant in a box. Raises `StateError` for any other content."""
        try:
            version = int(number)
            found = msgspec.json.decode(seal.open(box or b"", self._about(grant_id, version)), type=self._kind)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise StateError("the data of a grant in Redis was changed") from error
        if found.id != grant_id or found.version != version:
            raise StateError("a grant does not belong to its entry")
        if version < self._versions.get(grant_id, 0):
            raise StateError(_LOST)
        self._remember(grant_id, version)
        return found

    def _about(self, grant_id: str, version: int) -> str:
        return f"{self._name} {grant_id} {version}"

    def _remember(self, grant_id: str, version: int) -> None:
        self._versions[grant_id] = max(version, self._versions.get(grant_id, 0))
        self._versions.move_to_end(grant_id)
        if len(self._versions) > _MAX_SEEN:
            self._versions.popitem(last=False)


def _hidden(group: str) -> str:
    """Return the digest by which Redis finds a group, so that its name is not visible there."""
    return hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()[:32]
