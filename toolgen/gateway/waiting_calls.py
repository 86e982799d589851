"""Calls that are kept while they wait, or run without their caller: whose they are, how they stand, and that each ends once, on record."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from toolgen.audit.log import AuditLog
from toolgen.errors import AuditError
from toolgen.gateway.json_body import encode, envelope_json
from toolgen.model.call import Principal, parties
from toolgen.model.result import Envelope, Error, Meta
from toolgen.state.call_states import Kind, Status
from toolgen.state.invocations import FullError, Invocation, Invocations, Party, Room
from toolgen.state.remembered_calls import RememberedCalls
from toolgen.state.stored_answers import EACH, TOTAL

__all__ = ["KEPT_S", "LEASE_S", "ROOM", "WaitingCalls", "kept_until", "of_party", "party_of"]

_logger = logging.getLogger(__name__)
KEPT_S = 3600.0
"""How long a caller can fetch how its call ended."""
ROOM = Room(each=EACH, total=TOTAL)
"""How many bytes of results are kept for one principal, and for all of them."""
GRACE_S = 60.0
"""How long at least, whatever its client asked for."""
LEASE_S = 10.0
"""How long a worker that stopped may hold a call before others look after it."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_STATUS = {"approval_denied": "refused", "expired": "refused", "cancelled": "cancelled", "outcome_unknown": "error"}


class WaitingCalls:
    """The calls of every kind that are kept in one store. `tells` has what the caller of a kind that is so far is told while it waits."""

    def __init__(self, *, store: Invocations, log: AuditLog) -> None:
        self.store: Invocations = RememberedCalls(store)
        self.owner = secrets.token_hex(8)
        self.tells: dict[tuple[Kind, Status], Callable[[Invocation], Error]] = {}
        self.left: dict[str, asyncio.Future[bool] | bool] = {}
        """The calls of this worker that go on without their callers: that each is kept, or what says whether it is."""
        self.resumes: dict[Kind, Callable[[Invocation], Awaitable[object]]] = {}
        """What goes on with a running call of a kind whose worker stopped; of others nobody knows how far they came."""
        self.log = log
        self.news = asyncio.Event()
        """Set with the next announcement: taken before calls are looked at, so that no change is missed in between."""
        self._due = asyncio.Event()
        self._about: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    async def own(self, call_id: str, caller: Principal) -> Invocation | None:
        """A caller's own call, as it is kept; None for one that is another's, or none."""
        known = await self.store.get(call_id)
        return known if known is not None and _same(known.principal, caller) and not await self._lapsed(known) else None

    async def _lapsed(self, known: Invocation) -> bool:
        """Whether a call is kept no longer than its client asked for, and that time is over."""
        if known.status != "ended" or known.task is None or not known.task.keep_s:
            return False
        return kept_until(known, now := await self.store.now()) <= now

    async def owned(
        self, caller: Principal, after: tuple[float, str], limit: int
    ) -> tuple[tuple[Invocation, ...], tuple[float, str] | None]:
        """A page of a caller's own calls, the oldest first, and where the next begins; None after the last.

        A place is when a call was made, and its id. Those of others are left out, so that a page may be shorter than `limit`.
        """
        who = parties(caller)
        looked_at = [
            known for known in await self.store.owned(who, after[0], limit + 2) if (known.asked, known.id) > after
        ]
        page = looked_at[:limit]
        more = (page[-1].asked, page[-1].id) if len(looked_at) > limit else None
        own = [known for known in page if _same(known.principal, caller)]
        return tuple([known for known in own if not await self._lapsed(known)]), more

    async def outcome(self, call_id: str, caller: Principal, wait: float = 0.0) -> Envelope | None:
        """How a caller's own call stands, or ends within `wait` seconds; None for a call that is another's, or none."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        while True:
            news = self.news_of(call_id)
            known = await self.own(call_id, caller)
            if known is None:
                return None
            left = until - loop.time()
            if known.status == "ended" or left <= 0:
                return self.envelope(known)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await news.wait()

    async def keep(self, invocation: Invocation, *, each: int, total: int) -> bool:
        """Keeps a call that has to wait for somebody from now on; False where too many do. Its caller may have left it already."""
        if not await self.is_left(invocation.id):
            return await self.store.add(invocation, each=each, total=total) is not None
        while (known := await self.store.get(invocation.id)) is not None and known.status == "running":
            if known.cancel:  # called off at another worker: nobody is asked any more
                return False
            changed = msgspec.structs.replace(invocation, home=known.home, version=known.version, task=known.task)
            if await self.store.replace(known, changed) is not None:
                self.announce()
                return True
        return False

    async def is_left(self, call_id: str) -> bool:
        """Whether a call of this worker goes on without its caller."""
        adding = self.left.get(call_id, False)
        return adding if isinstance(adding, bool) else await asyncio.shield(adding)

    async def repeated(self, envelope: Envelope, caller: Principal) -> Envelope:
        """What a repetition of a call is told, whose first waited for a person: how that stands now."""
        if envelope.error is None or envelope.error.code not in {"approval_required", "deferred"}:
            return envelope
        gone = Error(
            code="expired",
            message=f"the call with this key, {envelope.call_id}, is over, and how it ended is not kept any more",
            suggestion="look at what it was to change; another call takes another key",
        )
        known = await self.outcome(envelope.call_id, caller)
        if known is None and envelope.error.code == "deferred":
            return envelope  # it is under way, and its first caller waits for it
        return known or msgspec.structs.replace(envelope, status="refused", error=gone)

    async def cancel(self, call_id: str, caller: Principal) -> Envelope | None:
        """Withdraws a caller's own call that nobody began to carry out, and says how it stands then; None as above."""
        known = await self.own(call_id, caller)
        if known is None:
            return None
        if known.status in {"pending", "approved"}:
            error = Error(code="cancelled", message="the caller withdrew this call", rule=known.rule)
            await self.close(known, by=caller.id, verdict="cancel", error=error)
            for inner in known.waits:
                await self.cancel(inner, caller)
        return await self.outcome(call_id, caller)

    async def close(
        self, known: Invocation, *, by: str, verdict: str, error: Error, said: Mapping[str, Any] = _NOTHING
    ) -> Invocation | None:
        """Ends a call that is not carried out (any more), on record first, with `said`. Returns None where somebody else was quicker."""
        held = await self.hold(known)
        if held is None:
            return None
        status = _STATUS[error.code]
        seq = await self.record(held, by=by, verdict=verdict, said=said, ending={"status": status, "code": error.code})
        meta = Meta(duration_ms=0.0, truncated=False, audit_seq=seq)
        data = None if known.resume is None else {"done": done_so_far(known.resume)}
        return await self.end(
            msgspec.structs.replace(held, closed_by=by),
            Envelope(status=status, tool=known.tool, call_id=known.id, data=data, error=error, meta=meta),
        )

    async def end(self, known: Invocation, envelope: Envelope) -> Invocation | None:
        """Keeps the ending of a call for its caller."""
        written = envelope_json(envelope)
        if envelope.content is not None:
            written["content"] = envelope.content
        ended = msgspec.structs.replace(
            known, status="ended", lease=0.0, ended=await self.store.now(), envelope=written, asks={}, replies={}
        )
        try:
            kept = await self.store.replace(known, ended, room=ROOM)
        except FullError:
            kept = await self.store.replace(known, msgspec.structs.replace(ended, envelope=_without_result(envelope)))
        self.announce(known.id)
        if known.parent:  # which may wait for this one
            await self.store.renew((known.parent,), ended.ended)
            self.look()
        return kept

    def envelope(self, known: Invocation) -> Envelope:
        """What the caller is told now."""
        if known.envelope is not None:
            return _envelope(known.envelope)
        error = self.tells.get((known.kind, known.status), _deferred)(known)
        meta = Meta(duration_ms=0.0, truncated=False)
        data = None if known.progress is None else {"progress": known.progress}
        return Envelope(status="pending", tool=known.tool, call_id=known.id, data=data, error=error, meta=meta)

    def news_of(self, call_id: str) -> asyncio.Event:
        """Set with the next announcement that may be about this call, for as long as somebody holds it. Taken before, as `news` is."""
        found = self._about.get(call_id)
        if found is None:
            found = self._about[call_id] = asyncio.Event()
        return found

    def look(self) -> None:
        """Has what is due looked after at once."""
        self._due.set()

    def announce(self, call_id: str = "") -> None:
        """Wakes those who wait for a change: of one call, of any, or, without an id, of whichever call.

        Without one, what is due is looked after, too.
        """
        news, self.news = self.news, asyncio.Event()
        news.set()
        for about in [self._about.pop(call_id, None)] if call_id else [*self._about.values()]:
            if about is not None:
                about.set()
        if not call_id:
            self._about.clear()
            self.look()

    async def changed(self, within: float) -> None:
        """Returns when something was announced, or after `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.news.wait()

    async def due(self, within: float) -> None:
        """Returns when what is due is to be looked after at once, or after `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._due.wait()
        self._due.clear()

    async def hold(self, known: Invocation) -> Invocation | None:
        """Takes a call in hand, so that it is moved on by nobody else for a while; None where somebody else has it, or was quicker."""
        now = await self.store.now()
        if known.lease > now:
            return None
        return await self.store.replace(known, msgspec.structs.replace(known, lease=now + LEASE_S))

    async def record(
        self,
        known: Invocation,
        *,
        by: str,
        verdict: str,
        ending: Mapping[str, str] | None = None,
        said: Mapping[str, Any] = _NOTHING,
        event: str = "decision",
    ) -> int:
        """The number of the entry, which says `said` besides. What cannot be recorded was not answered: the call is let go again."""
        fields: dict[str, Any] = {
            "event": event,
            "call_id": known.id,
            "principal": by,
            "tool": known.tool,
            "tool_digest": known.tool_digest,
            "policy_digest": known.policy_digest,
            "verdict": verdict,
            "rule": known.rule,
            "parent": known.parent,
            **(ending or {}),
        }
        if said:
            fields["arguments"] = dict(said)
        try:
            _, seq = await self.log.append(fields)
        except AuditError:
            await self.store.replace(known, msgspec.structs.replace(known, lease=0.0))
            raise
        if event == "decision":
            _logger.info("call %s of %s: the answer is %s%s", known.id, known.tool, verdict, f", by {by}" if by else "")
        else:
            _logger.warning("call %s of %s: %s", known.id, known.tool, event)
        return seq


def _without_result(envelope: Envelope) -> dict[str, Any]:
    """How a call ended, with a short text in place of a result for which there is no room."""
    size = len(encode(envelope_json(envelope)))
    text = (
        f"This call ended ({envelope.status}), and is on record. Its result ({size} bytes) was not kept: results of earlier calls take all "
        "the room there is for this caller. Do not make a call that writes again; read what it changed."
    )
    meta = msgspec.structs.replace(envelope.meta, truncated=True)
    return envelope_json(msgspec.structs.replace(envelope, data=text, content=None, meta=meta))


def done_so_far(resume: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Which calls had been made inside of one that waits, by its steps."""
    made = resume.get("done") or {}
    return [{"step": key, "tool": one.get("tool"), "call_id": one.get("call_id")} for key, one in made.items()]


def kept_until(known: Invocation, now: float) -> float:
    """Until when its caller can come back for a call, as far as that is known: an hour after its end, or less where it asked for less."""
    longest = (known.ended or max(now, known.expires)) + KEPT_S
    if known.task is None or not known.task.keep_s:
        return longest
    return min(longest, max(known.asked + known.task.keep_s, (known.ended or now) + GRACE_S))


def _same(party: Party | None, caller: Principal | None) -> bool:
    """Whether these are the same principals, acting for the same ones."""
    while party is not None and caller is not None and party.id == caller.id:
        party, caller = party.on_behalf_of, caller.on_behalf_of
    return party is None and caller is None


def of_party(party: Party) -> Principal:
    """The principal as it was when it called."""
    return Principal(
        id=party.id,
        roles=frozenset(party.roles),
        attributes=party.attributes,
        on_behalf_of=None if party.on_behalf_of is None else of_party(party.on_behalf_of),
        toolsets=frozenset(party.toolsets),
        proof=party.proof,
        origin=party.origin,
    )


def party_of(principal: Principal) -> Party:
    """A principal as it is kept."""
    return Party(
        id=principal.id,
        roles=tuple(sorted(principal.roles)),
        attributes=dict(principal.attributes),
        on_behalf_of=None if principal.on_behalf_of is None else party_of(principal.on_behalf_of),
        toolsets=tuple(sorted(principal.toolsets)),
        proof=principal.proof,
        origin=principal.origin,
    )


def _deferred(known: Invocation) -> Error:
    return Error(
        code="deferred",
        message="this call is being carried out",
        suggestion=f"do not make it again: its result will be at /v1/calls/{known.id}",
        rule=known.rule,
    )


def _envelope(kept: Mapping[str, Any]) -> Envelope:
    return Envelope(
        status=kept["status"],
        tool=kept["tool"],
        call_id=kept["call_id"],
        data=kept.get("data"),
        error=msgspec.convert(kept["error"], Error) if "error" in kept else None,
        meta=msgspec.convert(kept["meta"], Meta),
        content=kept.get("content"),
    )
