"""Invocations in Redis: seen by every process of every machine that shares it, and sealed there.

Which approved calls this machine began, durably and outside Redis: an attacker who can write in Redis may lose a call, and never make one.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from toolgen.errors import StateError
from toolgen.state.call_states import Kind
from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.invocations import (
    FullError,
    Held,
    Invocation,
    Room,
    as_json,
    counted_as,
    counted_for,
    due_at,
    from_json,
    may_follow,
)
from toolgen.state.redis_connection import RedisLink
from toolgen.state.sqlite_file import DURABLE, SqliteFile, transaction

__all__ = ["BegunCalls", "RedisInvocations"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS machine (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS begun (call_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID
"""
_OVER = 2**31
_LONGER_S = 8 * 24 * 3600.0
"""How long a call is remembered beyond its time: longer than Redis keeps one."""


class BegunCalls:
    """A file of this machine, for all its workers. It is also what the machine is known by: one that lost it is another machine, and
    carries out nothing that it took on before."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, kept="which calls were begun", schema=_SCHEMA, pragmas=DURABLE)

    async def home(self) -> str:
        """What this machine is called among those that share a Redis. Raises `StateError`, as all of these do."""

        def work(connection: sqlite3.Connection) -> str:
            row = connection.execute("SELECT id FROM machine").fetchone()
            if row is None:
                with transaction(connection):
                    connection.execute(
                        "INSERT INTO machine SELECT ? WHERE NOT EXISTS (SELECT 1 FROM machine)",
                        (secrets.token_hex(16),),
                    )
                row = connection.execute("SELECT id FROM machine").fetchone()
            return str(row[0])

        return await self._file.run(work)

    async def begin(self, call_id: str, attempt: int, expires: float) -> bool:
        """Remembers that this attempt at a call begins. False where it, or a later one, was begun before, or the call is over."""

        def work(connection: sqlite3.Connection) -> bool:
            done = connection.execute(
                "INSERT INTO begun VALUES (?1, ?2, ?3) ON CONFLICT (call_id) DO UPDATE SET attempt = ?2, until = ?3 WHERE attempt < ?2",
                (call_id, attempt, expires + _LONGER_S),
            )
            return done.rowcount == 1

        return await self._file.run(work)

    async def end(self, call_id: str, expires: float) -> None:
        """Remembers that a call is over, however it ended."""
        await self.begin(call_id, _OVER, expires)

    async def knows(self, call_id: str) -> bool:
        """Whether a call was begun here, or ended here."""

        def work(connection: sqlite3.Connection) -> bool:
            return connection.execute("SELECT 1 FROM begun WHERE call_id = ?", (call_id,)).fetchone() is not None

        return bool(self._file) and await self._file.run(work)

    async def is_over(self, call_id: str) -> bool:
        """Whether a call ended here."""

        def work(connection: sqlite3.Connection) -> bool:
            over = "SELECT 1 FROM begun WHERE call_id = ? AND attempt = ?"
            return connection.execute(over, (call_id, _OVER)).fetchone() is not None

        return bool(self._file) and await self._file.run(work)

    async def forget(self, now: float) -> None:
        """Removes those that nobody could take up again."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM begun WHERE until < ?", (now,))

        if self._file:
            await self._file.run(work)

    async def close(self) -> None:
        """Closes the file."""
        await self._file.close()


_SCRIPT = Script.named("invocations")
_MAX_MOVED = 50_000
_FULL = 2
_MAX_DUE = 1000
_LOST = "Redis has lost how far a call had come; it is not carried out again"
_logger = logging.getLogger(__name__)


class RedisInvocations:
    """What Redis has of a call, and of which version it is, is inside a box that only the key of `seal` makes or opens.

    A process remembers how far it saw each call come. Where Redis has lost what it said was kept (it failed over to a copy that was
    behind, or was set back), an older version of a call is refused here and never taken up a second time. That a call began or ended is
    remembered by the machine besides (`begun`), and only the machine that took a call on carries it out: who puts back what Redis
    held before finds nobody who would make the call again, whichever of them was restarted meanwhile.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], begun: BegunCalls) -> None:
        self._redis = SealedScript(link, seal, _SCRIPT, "calls", kept="calls that wait")
        self._begun = begun
        self._seen = -1
        self.by_others = False
        self._moved: OrderedDict[str, int] = OrderedDict()
        self._unusable: set[bytes] = set()

    async def add(self, invocation: Invocation, *, each: int, total: int) -> Invocation | None:
        seal = await self._redis.seal()
        kept = msgspec.structs.replace(invocation, home=await self._begun.home())
        box = seal.close(as_json(kept), _about(invocation.id, 1))
        limits = (str(each), str(total))
        what = (kept.kind, counted_as(kept), repr(due_at(kept)))
        added = await self._redis.run("add", kept.id, _who(kept), *limits, repr(kept.asked), box, *what)
        if isinstance(added, list):
            return self._opened(seal, kept.id, added[0], added[1])
        return kept if added == 1 else None

    async def get(self, call_id: str) -> Invocation | None:
        seal = await self._redis.seal()
        found = await self._redis.run("get", call_id)
        known = None if found[0] is None else self._opened(seal, call_id, found[0], found[1])
        if known is not None and known.status == "pending":
            # One that a person agreed to was begun here, and waits for a device since.
            begun = self._begun.is_over if known.kind == "device" else self._begun.knows
            if await begun(call_id):
                raise StateError(_LOST)
        return known

    async def unfinished(self, kind: Kind = "approval") -> tuple[Invocation, ...]:
        seal = await self._redis.seal()
        return self._all_opened(seal, await self._redis.run("unfinished", kind))

    async def ended_since(self, since: float) -> tuple[Invocation, ...]:
        seal = await self._redis.seal()
        return self._all_opened(seal, await self._redis.run("ended", repr(since), str(_MAX_DUE)))

    async def waiting(self, kind: Kind, principals: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        await self._redis.seal()
        status = "pending" if kind == "approval" else f"{kind} pending"
        found: dict[str, tuple[str, ...]] = {}
        for start in range(0, len(principals), _MAX_DUE):
            asked = principals[start : start + _MAX_DUE]
            ids = await self._redis.run("waiting", status, *(_hidden(one) for one in asked))
            found |= {
                one: tuple(each.decode("utf-8", "replace") for each in of) for one, of in zip(asked, ids, strict=True)
            }
        return found

    async def owned(self, principals: Sequence[str], after: float, limit: int) -> tuple[Invocation, ...]:
        seal = await self._redis.seal()
        found: list[Invocation] = []
        for principal in principals:
            boxes = await self._redis.run("owned", _hidden(principal), repr(after), str(limit))
            found += self._all_opened(seal, boxes)
        return tuple(sorted(found, key=lambda one: (one.asked, one.id))[:limit])

    async def due(self, now: float) -> tuple[Invocation, ...]:
        seal = await self._redis.seal()
        return self._all_opened(seal, await self._redis.run("due", repr(now), str(_MAX_DUE)))

    async def renew(self, call_ids: Sequence[str], until: float, *, unless_due: float = -1.0) -> None:
        await self._redis.seal()
        for start in range(0, len(call_ids), _MAX_DUE):
            await self._redis.run("renew", repr(until), repr(unless_due), *call_ids[start : start + _MAX_DUE])

    def _all_opened(self, seal: Seal, found: list[bytes]) -> tuple[Invocation, ...]:
        opened = []
        for call_id, version, box in zip(found[::3], found[1::3], found[2::3], strict=True):
            try:
                opened.append(self._opened(seal, call_id.decode("utf-8", "replace"), version, box))
            except StateError as error:  # one that nobody can use holds up no other
                if call_id not in self._unusable and len(self._unusable) < _MAX_MOVED:
                    self._unusable.add(call_id)
                    _logger.error("call %.60r is left alone: %s", call_id, error)  # noqa: TRY400
        return tuple(opened)

    async def replace(self, known: Invocation, changed: Invocation, *, room: Room | None = None) -> Invocation | None:
        seal = await self._redis.seal()
        if not may_follow(known, changed) or not await self._may(known, changed):
            return None
        attempt = known.attempt + (known.status == "running" and changed.status == "approved")
        kept = msgspec.structs.replace(changed, version=known.version + 1, attempt=attempt)
        box = seal.close(as_json(kept), _about(kept.id, kept.version))
        # Before it is asked: whether an answer that never came was yes, nobody knows, and a call is made at most once.
        self._remember(known.id, known.version)
        what = (counted_as(kept), _who(kept), repr(due_at(kept)), box, kept.kind)
        bounds = () if room is None else (str(room.each), str(room.total))
        done = await self._redis.run("replace", kept.id, str(known.version), *what, *bounds)
        if done == _FULL:
            raise FullError
        if done != 1:
            return None
        self._remember(kept.id, kept.version)
        if kept.status == "ended":
            await self._begun.end(kept.id, kept.expires)
        return kept

    async def _may(self, known: Invocation, changed: Invocation) -> bool:
        """Whether this machine may move a call on so. What begins is remembered first: if Redis does not answer, it is not begun again."""
        if known.status != "approved" or changed.status != "running":
            return True
        return known.home == await self._begun.home() and await self._begun.begin(
            known.id, known.attempt, known.expires
        )

    async def held(self, principal: str) -> Held:
        await self._redis.seal()
        own, everybody, own_since, all_since = await self._redis.run("held", _hidden(principal))
        return Held(own=int(own), all=int(everybody), own_since=float(own_since), all_since=float(all_since))

    async def now(self) -> float:
        return await self._redis.now()

    async def forget(self, before: float) -> None:
        await self._redis.run("forget", repr(before))
        await self._begun.forget(before)

    async def changed(self) -> bool:
        number = await self._redis.run("changes")
        self.by_others, self._seen = bool(number != self._seen), number
        return self.by_others

    async def close(self) -> None:
        await self._redis.close()
        await self._begun.close()

    def _opened(self, seal: Seal, call_id: str, number: bytes, box: bytes | None) -> Invocation:
        """The call in a box. Raises `StateError` for whatever else somebody may have put there."""
        try:
            version = int(number)
            found = from_json(seal.open(box or b"", _about(call_id, version)))
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise StateError("what is kept of a call in Redis is not what was kept there") from error
        if found.id != call_id or found.version != version:
            raise StateError("a call that waits is not the one it stands for")
        if version < self._moved.get(call_id, 0):
            raise StateError(_LOST)
        self._remember(call_id, version)
        return found

    def _remember(self, call_id: str, version: int) -> None:
        self._moved[call_id] = max(version, self._moved.get(call_id, 0))
        self._moved.move_to_end(call_id)
        if len(self._moved) > _MAX_MOVED:
            self._moved.popitem(last=False)


def _about(call_id: str, version: int) -> str:
    return f"call {call_id} {version}"


def _who(invocation: Invocation) -> str:
    """The principal that a call is counted for: its name is nobody's business there."""
    return _hidden(counted_for(invocation))


def _hidden(principal: str) -> str:
    return hashlib.sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()[:32]
