"""Invocations in Redis: shared by every process of every machine that uses it, and encrypted.

An attacker who can write in Redis may lose a call, but cannot create one: the journal of each gateway decides which calls may be executed.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.call_journal import OVER, REMEMBERED_S, CallJournal
from toolgen.state.call_states import Kind
from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.invocation_format import as_json, from_json
from toolgen.state.invocations import (
    BehindError,
    Fate,
    Invocation,
    ResultsFullError,
    RetainedBytes,
    Room,
    counted_as,
    counted_for,
    due_at,
    may_follow,
    without_arguments,
)
from toolgen.state.redis_connection import RedisLink
from toolgen.state.store_watch import LEASE_S, StoreWatch

__all__ = ["RedisInvocations"]

_SCRIPT = Script.named("invocations", "epoch")
_MAX_MOVED = 50_000
_FULL, _THERE = 2, 3
"""Answers of the script besides 1 (done) and 0 (not done): no room for the outcome of a call, and a call that is already stored."""
_MAX_DUE = 1000
_MAX_SEVERAL = 100
"""Maximum number of calls in one answer of Redis, each with at most 64 KiB of arguments."""
_EMPTIED = "it was emptied"
_SET_BACK = "it was set back to an older copy"
_BEHIND = "Redis has lost the progress of a call; the call is not executed again"
_MAY_HAVE_ENDED_S = 3 * LEASE_S
"""Seconds of silence after which others end a gateway's calls that it may have ended before the store lost that."""
_LATER_S = 60.0
"""Seconds until an unreadable call is checked again."""
_TRIES = 10
_MAX_ENDING = 4096
_LOST_RESULT = "This call ended, and is in the audit log. The gateway's shared state lost its result."
_logger = logging.getLogger(__name__)


class RedisInvocations:
    """Calls in Redis. A call and its version are stored in a box that only the key of `seal` creates or opens.

    A process remembers the last version that it saw of each call, and its gateway's journal has the calls that were begun or ended here. A
    call of which Redis has an older version (it failed over to a replica that was behind, was set back, or an old box was put there) is
    never executed a second time: `fate` decides that. Each process numbers its writes, and notices by that number, and by the epoch of the
    store, that Redis was emptied or set back (`changed`, then `loss`).
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], journal: CallJournal, watch: StoreWatch) -> None:
        self._redis = SealedScript(link, seal, _SCRIPT, "calls", kept="calls that wait")
        self._journal = journal
        self._watch = watch
        self._seen = -1
        self.by_others = False
        self.departures = 0
        """Number of the last note about disconnected clients, as `changed` found it."""
        self.loss = ""
        self._writer = secrets.token_hex(8)
        self._number = 0  # number of the last requested write
        self._acknowledged = 0
        self._moved: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._doubted: OrderedDict[str, bool] = (
            OrderedDict()
        )  # calls that Redis may have stored, with True if they must not continue
        self._asking = set[str]()  # questions during their addition
        self._unusable: set[bytes] = set()
        self._homes = _Homes(watch)

    async def add(self, invocation: Invocation, *, each: int, total: int) -> Invocation | None:
        question, call_id = invocation.status == "pending", invocation.id
        asked = call_id in self._asking or call_id in self._doubted
        if self._doubted.get(call_id) or (asked and not question):
            raise StateUnavailableError("the storage of this waiting call was not confirmed; it may be stored or not")
        if not question and self._moved.get(call_id, (0, ""))[1] == "pending":
            raise StateError("that call is kept already")
        if not question:
            return await self._add(invocation, each=each, total=total)
        self._asking.add(call_id)
        try:
            return await self._add(invocation, each=each, total=total)
        finally:
            self._asking.discard(call_id)

    async def _add(self, invocation: Invocation, *, each: int, total: int) -> Invocation | None:
        seal = await self._redis.seal()
        kept = msgspec.structs.replace(invocation, home=await self._journal.home())
        box = seal.close(as_json(kept), _about(invocation.id, 1))
        what = (kept.kind, counted_as(kept), repr(due_at(kept)))
        await self._journal.await_end(kept)
        try:
            added = await self._write(
                "add", kept.id, _principal_hash(kept), str(each), str(total), repr(kept.asked), box, *what
            )
        except StateUnavailableError as error:
            await self._note_unkept(kept, unconfirmed=error.unconfirmed)
            raise
        if added[0] == _THERE:
            return self._opened(seal, kept.id, added[1], added[2])
        if not added[0]:
            await self._journal.forget_awaited((kept.id,))
        else:
            self._remember(kept)
        return kept if added[0] else None

    async def _note_unkept(self, call: Invocation, *, unconfirmed: bool) -> None:
        """Record that the addition of a call failed. A question that Redis may have stored continues to wait: the sweep ends it if Redis
        has not stored it.
        """
        if call.id in self._moved or (
            call.id in self._doubted and not unconfirmed
        ):  # an earlier addition may have succeeded
            return
        if not unconfirmed:
            await self._journal.forget_awaited((call.id,))
            return
        self._doubted[call.id] = call.status != "pending"
        if len(self._doubted) > _MAX_MOVED:
            self._doubted.popitem(last=False)
        if call.status != "pending":  # its caller was told that it is not stored, so it must never be executed
            await self._journal.end(call.id, max(call.expires, call.asked))

    async def get(self, call_id: str) -> Invocation | None:
        seal = await self._redis.seal()
        found = await self._redis.run("get", call_id)
        if found[0] is None:
            return None
        known = self._opened(seal, call_id, found[0], found[1])
        if self._is_behind(known) or (known.status == "pending" and await self._is_past(known)):
            raise BehindError(_BEHIND, known)
        return known

    async def _is_past(self, known: Invocation) -> bool:
        """Return True if this gateway began or ended a call that is waiting according to Redis."""
        attempt = await self._journal.attempt(known.id)
        # An approved call was started here, and may wait for a device since then.
        return attempt == OVER if known.kind == "device" else attempt is not None

    async def fate(self, known: Invocation) -> Fate:
        attempt = await self._journal.attempt(known.id)
        if attempt == OVER:
            return "over"
        if known.home and known.home != await self._journal.home():
            unheard_s = _MAY_HAVE_ENDED_S if known.asked <= self.lost_at else LEASE_S
            return "orphaned" if self._homes.is_gone(known.home, unheard_s) else "foreign"
        waits = known.status == "pending" and known.kind != "device"
        if attempt is not None and (waits or (known.status == "approved" and attempt >= known.attempt)):
            return "begun"
        return "behind" if self._is_behind(known) else "own"

    def _is_behind(self, known: Invocation) -> bool:
        """Return True if this process saw a later version of a call."""
        return known.version < self._moved.get(known.id, (0, ""))[0]

    async def unfinished(self, kind: Kind = "approval") -> tuple[Invocation, ...]:
        seal = await self._redis.seal()
        found = self._all_opened(seal, await self._redis.run("unfinished", kind))
        return tuple(one for one in found if not self._is_behind(one))

    async def versions(self, kind: Kind = "approval") -> tuple[tuple[str, int], ...]:
        await self._redis.seal()
        found = await self._redis.run("versions", kind)
        listed = zip((name.decode("utf-8", "replace") for name in found[::2]), map(_number, found[1::2]), strict=True)
        return tuple(
            (call_id, version) for call_id, version in listed if version >= self._moved.get(call_id, (0, ""))[0]
        )

    async def several(self, call_ids: Sequence[str]) -> tuple[Invocation, ...]:
        seal, found = await self._redis.seal(), list[Invocation]()
        for start in range(0, len(call_ids), _MAX_SEVERAL):
            some = call_ids[start : start + _MAX_SEVERAL]
            found += self._all_opened(seal, await self._redis.run("several", *some))
        return tuple([one for one in found if not self._is_behind(one)])

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
        found, beats = await self._redis.run("due", repr(now), str(_MAX_DUE), await self._journal.home())
        self._homes.heard(dict(zip((one.decode() for one in beats[::2]), beats[1::2], strict=True)))
        opened = self._all_opened(seal, found)
        readable = {one.id for one in opened}
        unreadable = [name for name in found[::3] if name.decode("utf-8", "replace") not in readable]
        if unreadable:  # none of them blocks another call
            await self._redis.run("unreadable", repr(now + _LATER_S), *unreadable)
        return opened

    async def renew(self, call_ids: Sequence[str], until: float, *, unless_due: float = -1.0) -> None:
        await self._redis.seal()
        for start in range(0, len(call_ids), _MAX_DUE):
            await self._redis.run("renew", repr(until), repr(unless_due), *call_ids[start : start + _MAX_DUE])

    def _all_opened(self, seal: Seal, found: list[bytes]) -> tuple[Invocation, ...]:
        opened, before, reason = [], len(self._unusable), ""
        for call_id, version, box in zip(found[::3], found[1::3], found[2::3], strict=True):
            try:
                opened.append(self._opened(seal, call_id.decode("utf-8", "replace"), version, box))
            except StateError as error:  # an unusable one does not block the others
                if len(self._unusable) < _MAX_MOVED:
                    self._unusable.add(call_id)
                    reason = str(error)
        if (more := len(self._unusable) - before) > 0:
            _logger.error("%d waiting calls cannot be read, and are skipped: %s", more, reason)
        return tuple(opened)

    async def replace(self, known: Invocation, changed: Invocation, *, room: Room | None = None) -> Invocation | None:
        seal = await self._redis.seal()
        if not may_follow(known, changed) or not await self._may(known, changed):
            return None
        attempt = known.attempt + (known.status == "running" and changed.status == "approved")
        kept = msgspec.structs.replace(changed, version=known.version + 1, attempt=attempt)
        box = seal.close(as_json(kept), _about(kept.id, kept.version))
        # Before the request: without an answer it is unknown whether it succeeded, and a call is made at most once.
        self._remember(known)
        await self._note_ending(kept)
        bounds = ("", "") if room is None else (str(room.each), str(room.total))
        home = kept.home if kept.status == "ended" and kept.home != await self._journal.home() else ""
        over = "1" if known.lost else "0"
        what = (counted_as(kept), _principal_hash(kept), repr(due_at(kept)), box, kept.kind, over, *bounds, home)
        done = await self._write("replace", kept.id, str(known.version), *what)
        if done[0] == _FULL:
            raise ResultsFullError
        if not done[0]:
            return None
        if known.kind == "call" and kept.status == "pending":  # it waits from now on, and was not begun
            await self._journal.await_end(kept)
        self._remember(kept)
        return kept

    async def restore(self, known: Invocation, *, over: int | None = None) -> Invocation | None:
        seal, journal = await self._redis.seal(), self._journal
        for _ in range(_TRIES):
            there = (await self._redis.run("get", known.id))[0] or b""
            if over is not None and _number(there) != over:
                return None
            version = max(_number(there), known.version, self._moved.get(known.id, (0, ""))[0]) + 1
            kept = msgspec.structs.replace(known, version=version, home=known.home or await journal.home())
            box = seal.close(as_json(kept), _about(kept.id, version))
            what = (counted_as(kept), _principal_hash(kept), repr(kept.asked), repr(due_at(kept)), box, kept.kind)
            await self._note_ending(kept)
            if (await self._write("restore", kept.id, there, str(version), *what))[0]:
                self._remember(kept)
                return kept
        return None

    async def _write(self, *arguments: str | bytes) -> list[Any]:
        """Run the script and return its answer, which begins with 1 if it wrote. Writes are numbered, so that this process notices lost
        data in Redis."""
        self._number += 1
        number, acknowledged, epoch = self._number, self._acknowledged, self._watch.epoch
        done: list[Any] = await self._redis.run(*arguments, self._writer, str(number))
        if done[0] == 1:
            if done[1] < acknowledged:
                self.loss = self.loss or _SET_BACK
            elif epoch and done[2].decode("ascii", "replace") != epoch == self._watch.epoch:
                self.loss = self.loss or _EMPTIED
            self._acknowledged = max(self._acknowledged, number)
        return done

    async def _note_ending(self, kept: Invocation) -> None:
        """Note the outcome of a call, if it ended, before Redis is updated: it is recorded, and Redis may lose it or never answer."""
        if kept.status == "ended":
            box = (await self._redis.seal()).close(as_json(_as_ending(kept)), f"ending {kept.id}")
            await self._journal.end(kept.id, max(kept.expires, kept.ended), at=kept.ended, box=box)

    async def _may(self, known: Invocation, changed: Invocation) -> bool:
        """Return True if this gateway may make this change. The start of an attempt is recorded first: if Redis does not answer, the
        attempt is not started again.
        """
        if known.status != "approved" or changed.status != "running":
            return True
        return known.home == await self._journal.home() and await self._journal.begin(
            known.id, known.attempt, known.expires
        )

    async def held(self, principal: str) -> RetainedBytes:
        await self._redis.seal()
        own, everybody, own_since, all_since = await self._redis.run("held", _hidden(principal))
        return RetainedBytes(own=int(own), all=int(everybody), own_since=float(own_since), all_since=float(all_since))

    async def restore_endings(self) -> None:
        seal = await self._redis.seal()
        for call_id, box in await self._journal.endings():
            status = (await self._redis.run("statuses", call_id))[0]
            if status != b"ended":
                ending = _ending_in(box, call_id, seal)
                # A call that was given up for its owner is skipped if its owner may be alive after all.
                if ending is not None and (ending.final or not status.endswith(b"running")):
                    await self.restore(ending)

    async def restore_ending(self, known: Invocation) -> Invocation | None:
        ending = _ending_in(await self._journal.ending(known.id), known.id, await self._redis.seal())
        return None if ending is None else await self.restore(ending, over=known.version)

    async def missing(self, before: float) -> tuple[Invocation, ...]:
        awaited = await self._journal.awaiting(before)
        lost: list[Invocation] = []
        ended: list[str] = []
        for start in range(0, len(awaited), _MAX_DUE):
            asked = awaited[start : start + _MAX_DUE]
            statuses = await self._redis.run("statuses", *(one.id for one in asked))
            for one, status, version in zip(asked, statuses[::2], statuses[1::2], strict=True):
                if not status or (status == b"unreadable" and not await self._is_readable(one.id)):
                    lost.append(msgspec.structs.replace(one, version=_number(version)))
                elif status == b"ended":
                    ended.append(one.id)
        for call_id in ended:
            await self._note_ended(call_id)
        await self._journal.forget_awaited(ended)
        return tuple(lost)

    async def _is_readable(self, call_id: str) -> bool:
        """Return True if a call that another gateway may have found unreadable is readable here. Its own gateway ends an unreadable one."""
        version, box = await self._redis.run("get", call_id)
        try:
            self._opened(await self._redis.seal(), call_id, version or b"", box)
        except StateUnavailableError:
            raise
        except StateError:
            return False
        return True

    async def now(self) -> float:
        return await self._redis.now()

    async def forget(self, before: float) -> None:
        await self._redis.run("forget", repr(before))
        await self._journal.forget(before)

    async def changed(self) -> bool:
        self._number += 1
        known, acknowledged, looked = self._watch.epoch, self._acknowledged, self._number
        asked = (known, f"{secrets.token_hex(16)}:0", await self._journal.home(), self._writer, str(looked))
        number, epoch, written, self.departures, over = await self._redis.run("changes", *asked)
        self._acknowledged = max(self._acknowledged, looked)
        epoch = epoch.decode("ascii", "replace")
        if known and epoch != known:
            self.loss = self.loss or _EMPTIED
        elif written < acknowledged:
            self.loss = self.loss or _SET_BACK
        if not known:
            self._watch.epoch = epoch
            await self._journal.move_epoch("", epoch)
        self.by_others, self._seen = bool(number != self._seen), number
        for call_id in over:
            await self._note_ended(call_id.decode("utf-8", "replace"))
        return self.by_others

    async def _note_ended(self, call_id: str) -> None:
        """Record the outcome of a call from Redis in the journal, because Redis may lose it, and a call must have only one outcome."""
        try:
            found = await self.get(call_id)
        except StateError as error:
            if isinstance(error, StateUnavailableError):
                raise
            return  # its entry in Redis is unusable
        if found is not None:
            await self._note_ending(found)

    async def still_storing(self, call_ids: Sequence[str]) -> None:
        await self._journal.still_storing(call_ids, await self.now())

    async def awaited(self, call_id: str) -> Invocation | None:
        return await self._journal.awaited(call_id)

    async def absent(self, calls: Mapping[str, float]) -> tuple[str, ...]:
        await self._redis.seal()
        oldest = await self.now() - REMEMBERED_S
        asked = [call_id for call_id, made in calls.items() if made > oldest]
        found: list[str] = []
        for start in range(0, len(asked), _MAX_DUE):
            some = asked[start : start + _MAX_DUE]
            statuses = (await self._redis.run("statuses", *some))[::2]
            found += [call_id for call_id, status in zip(some, statuses, strict=True) if not status]
        return tuple([call_id for call_id in found if not await self._journal.is_over(call_id)])

    async def begin_epoch(self) -> bool:
        known = self._watch.epoch
        epoch = str((await self._redis.run("lost", known)).decode("ascii", "replace"))
        self._redis.forget_seal()
        self._watch.epoch, self.loss = epoch, ""
        self._watch.unsettle()
        self._acknowledged = 0
        for call_id in [one for one, (_, status) in self._moved.items() if status == "pending"]:
            del self._moved[call_id]  # only votes are lost, and people may answer again
        return await self._journal.move_epoch(known, epoch)

    @property
    def listened(self) -> bool:
        return self._watch.settled

    @property
    def lost_at(self) -> float:
        try:
            return int(self._watch.epoch.rpartition(":")[2]) / 1e6
        except ValueError:  # no epoch is known yet
            return 0.0

    async def close(self) -> None:
        await self._redis.close()
        await self._journal.close()

    def _opened(self, seal: Seal, call_id: str, number: bytes, box: bytes | None) -> Invocation:
        """Return the call in a box. Raises `StateError` for any other content."""
        try:
            version = int(number)
            found = from_json(seal.open(box or b"", _about(call_id, version)))
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise StateError("the data of a call in Redis was changed") from error
        if found.id != call_id or found.version != version:
            raise StateError("a stored call does not belong to its entry")
        self._remember(found)
        return found

    def _remember(self, known: Invocation) -> None:
        if not self._is_behind(known):
            self._moved[known.id] = (known.version, known.status)
        self._moved.move_to_end(known.id)
        if len(self._moved) > _MAX_MOVED:
            self._moved.popitem(last=False)


def _as_ending(kept: Invocation) -> Invocation:
    """Return an ended call for the journal: without arguments, and without a long result."""
    ending = without_arguments(kept)
    if len(as_json(ending)) <= _MAX_ENDING:
        return ending
    envelope = {name: value for name, value in (kept.envelope or {}).items() if name not in {"content", "error"}}
    return msgspec.structs.replace(ending, envelope={**envelope, "data": _LOST_RESULT})


def _ending_in(box: bytes, call_id: str, seal: Seal) -> Invocation | None:
    """Return the call in a box of the journal; None if there is none, or it was encrypted with another key."""
    try:
        return from_json(seal.open(box, f"ending {call_id}")) if box else None
    except (StateError, msgspec.MsgspecError):
        return None


class _Homes:
    """Gateways that share the store, by their last heartbeats: one without a new heartbeat for some time is gone, whatever time an older
    copy of the store has.
    """

    def __init__(self, watch: StoreWatch) -> None:
        self._watch = watch
        self._beats: dict[str, tuple[bytes, float]] = {}
        self._since: float | None = None

    def heard(self, beats: Mapping[str, bytes]) -> None:
        """Record the last heartbeats in the store."""
        now = self._watch.clock.monotonic()
        if self._since is None:
            self._since = now
        for home, beat in beats.items():
            if self._beats.get(home, (b"", 0.0))[0] != beat:
                self._beats[home] = (beat, now)

    def is_gone(self, home: str, unheard_s: float) -> bool:
        """Return True if a gateway was silent for this long while this process listened, and the store was reachable."""
        if self._since is None or not self._watch.settled:
            return False
        return self._watch.clock.monotonic() - self._beats.get(home, (b"", self._since))[1] > unheard_s


def _number(version: bytes) -> int:
    """Return a version of the store, 0 for none and for an invalid one."""
    try:
        return int(version or b"0")
    except ValueError:
        return 0


def _about(call_id: str, version: int) -> str:
    return f"call {call_id} {version}"


def _principal_hash(invocation: Invocation) -> str:
    """Return the hashed name of the principal that a call is counted for, so that the store does not contain the name."""
    return _hidden(counted_for(invocation))


def _hidden(principal: str) -> str:
    return hashlib.sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()[:32]
