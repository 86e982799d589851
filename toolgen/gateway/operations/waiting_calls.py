"""Stored calls that wait, or run without their caller: their owners, their states, and exactly one recorded outcome for each."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec

from toolgen.audit.call_outcome import recorded_outcomes
from toolgen.audit.log import AuditLog
from toolgen.core.errors import AuditError, StateError, StateUnavailableError
from toolgen.gateway.calls.json_body import envelope_json
from toolgen.gateway.operations.call_news import CallNews
from toolgen.gateway.operations.kept_envelopes import envelope_of, joined_envelope, without_result
from toolgen.gateway.operations.kept_principals import is_same
from toolgen.gateway.operations.lost_calls import CLOSED, NOT_BEGUN, forgotten, on_record, orphaned
from toolgen.gateway.operations.status_messages import status_error
from toolgen.gateway.operations.worker_calls import WorkerCalls
from toolgen.model.call import Call, Principal, parties
from toolgen.model.result import Envelope, Error, Meta
from toolgen.pipeline.stages.equal_calls import HELD_S
from toolgen.pipeline.stages.idempotency import UNDONE
from toolgen.state.equal_calls import EqualCalls
from toolgen.state.invocations import BehindError, Invocation, Invocations, ResultsFullError, Room
from toolgen.state.remembered_calls import RememberedCalls
from toolgen.state.store_watch import LEASE_S
from toolgen.state.stored_answers import EACH, TOTAL

__all__ = ["JOINED_S", "KEPT_S", "LEASE_S", "ROOM", "WaitingCalls", "kept_until"]

_logger = logging.getLogger(__name__)
KEPT_S = 3600.0
"""Time for which a caller can fetch the outcome of its call."""
ROOM = Room(each=EACH, total=TOTAL)
"""Maximum bytes of stored results, for one principal and for all."""
JOINED_S = 60.0
"""Time after its end for which equal calls join a call whose outcome nobody has read."""
GRACE_S = 60.0
"""Minimum storage time, for any request of the client."""
_TRIES = 5
_MAX_QUESTIONS = 1_000
_CLOCKS_APART_S = 3600.0
"""Maximum difference between the clock of the store and that of the audit log."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
Verdict: TypeAlias = Literal["deny", "cancel", "expire", "lose"]


class WaitingCalls:
    """Calls of every kind in one store. `approval_text` returns where the policy asks people for approvals."""

    def __init__(
        self,
        *,
        store: Invocations,
        log: AuditLog,
        approval_text: Callable[[], str],
        equal_calls: EqualCalls | None = None,
    ) -> None:
        self.store: Invocations = RememberedCalls(store)
        self.log = log
        self.equal_calls = equal_calls
        self.news = CallNews()
        self.worker = WorkerCalls(self.store)
        self._approval_text = approval_text
        self._leaving = Counter[str]()
        self.questions: dict[str, None] = {}
        """Ids of the last calls of this worker that were stored to wait for somebody."""
        self._unconfirmed: dict[str, Invocation] = {}
        """Waiting calls whose storage the store did not confirm."""
        self._looked_up: dict[str, str] = {}
        self.stopping = asyncio.Event()
        """Event that is set once this process stops: then calls that it runs have no open questions to their callers any more."""

    async def own(self, call_id: str, caller: Principal) -> Invocation | None:
        """Return a caller's own stored call; None for a call of another caller, or an unknown one. A call that the store has lost is
        restored or ended soon, and until then has its first state."""
        known = await self.current_of(call_id) or await self.store.awaited(call_id)
        return (
            known if known is not None and is_same(known.principal, caller) and not await self._lapsed(known) else None
        )

    async def current_of(self, call_id: str) -> Invocation | None:
        """Return a stored call. If the store has lost its progress, it ends here, if this gateway is responsible for it."""
        try:
            return await self.store.get(call_id)
        except BehindError as error:
            known = error.known
            if (mine := self.worker.carried_out(call_id)) is not None:
                return await self.worker.regain(mine)
            if known.lease > await self.store.now() or await self.store.fate(known) != "over":
                return known  # the process that ends or executes it is working on it, or it ends a lease later
            return await self.give_up(known, verdict="lose", error=forgotten(known)) or known
        except StateError as error:
            if isinstance(error, StateUnavailableError) or (awaited := await self.store.awaited(call_id)) is None:
                raise
            return awaited  # its entry in the store is invalid: it ends soon

    async def _lapsed(self, known: Invocation) -> bool:
        """Return True if a call is past the storage time that its client asked for."""
        if known.status != "ended" or known.task is None or not known.task.keep_s:
            return False
        return kept_until(known, now := await self.store.now()) <= now

    async def owned(
        self, caller: Principal, after: tuple[float, str], limit: int
    ) -> tuple[tuple[Invocation, ...], tuple[float, str] | None]:
        """Return a page of a caller's own calls, the oldest first, and the start of the next page; None after the last.

        A position is the time of a call, and its id. Calls of others are left out, so that a page may be shorter than `limit`.
        """
        who = parties(caller)
        looked_at = [
            known for known in await self.store.owned(who, after[0], limit + 2) if (known.asked, known.id) > after
        ]
        page = looked_at[:limit]
        more = (page[-1].asked, page[-1].id) if len(looked_at) > limit else None
        own = [known for known in page if is_same(known.principal, caller)]
        return tuple([known for known in own if not await self._lapsed(known)]), more

    async def joined(self, call_id: str, name: str) -> str | None:
        """Return the code of `StandingCalls.joined`: a call is joined while it waits, or a minute after its end if it did something or was
        denied."""
        known = await self.current_of(call_id)
        if known is None:
            return None
        if known.equal != name:  # no gateway wrote this claim of the name
            return ""
        if known.status != "ended":
            return "approval_required" if known.kind == "approval" else "deferred"
        code = known.envelope["error"]["code"] if known.envelope and "error" in known.envelope else ""
        undone = code in UNDONE or known.envelope is None or known.envelope["status"] in {"refused", "cancelled"}
        if (undone and code != "approval_denied") or known.ended + JOINED_S <= await self.store.now():
            return ""
        return "deferred"

    def leaving(self, name: str) -> bool:
        """Return True if a call is about to be kept, as `StandingCalls.leaving` requires."""
        return name in self._leaving

    @contextmanager
    def about_to_keep(self, call: Call) -> Iterator[None]:
        """Mark a call as about to be stored within the block: equal calls wait for that."""
        if call.equal:
            self._leaving[call.equal] += 1
        try:
            yield
        finally:
            if call.equal:
                self._leaving[call.equal] -= 1
                if not self._leaving[call.equal]:
                    del self._leaving[call.equal]

    async def stands_for_equal(self, known: Invocation) -> None:
        """Let equal calls join one that is stored."""
        if known.equal and self.equal_calls is not None:
            await self.equal_calls.hold(known.equal, known.id, HELD_S)

    async def told(self, known: Invocation) -> None:
        """Note that a caller has read how its call ended: an equal call is another one from now on."""
        if known.equal and self.equal_calls is not None and known.status == "ended":
            with suppress(StateError):  # it joins this one for a minute at most
                await self.equal_calls.release(known.equal, known.id)

    async def outcome(
        self, call_id: str, caller: Principal, wait: float = 0.0, *, tells: bool = True, asked: bool = False
    ) -> Envelope | None:
        """Return the state of a caller's own call, or its end within `wait` seconds; None for a call of another caller, or an unknown
        one. `tells`: the result is passed on to the caller. `asked`: a call that asks its caller something is not waited for, and the
        questions are in the data."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        while True:
            news = self.news.of(call_id)
            known = await self.own(call_id, caller)
            if known is None:
                return None
            left = until - loop.time()
            if known.status == "ended" or left <= 0 or (asked and known.questions):
                if tells:
                    await self.told(known)
                return self.envelope(known, questions=asked)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await news.wait()

    async def keep(self, invocation: Invocation, *, each: int, total: int) -> bool:
        """Store a call that waits; return False if too many do. A call that the store did not confirm, twice, waits too: it is stored
        once the store can be reached, unless the store has lost something since. Then it is swept."""
        try:
            kept = await self._kept(invocation, each=each, total=total)
        except StateUnavailableError as error:
            if not error.unconfirmed:
                raise
            try:
                kept = await self._kept(invocation, each=each, total=total, again=True)
            except StateError as again:
                _logger.warning("it is unknown if call %s was stored to wait: %s", invocation.id, again)
                self._unconfirmed[invocation.id] = invocation
                if len(self._unconfirmed) > _MAX_QUESTIONS:
                    del self._unconfirmed[next(iter(self._unconfirmed))]
                kept = True
        if kept:
            self.questions = dict.fromkeys([*list(self.questions)[-_MAX_QUESTIONS:], invocation.id])
        return kept

    async def _kept(self, invocation: Invocation, *, each: int, total: int, again: bool = False) -> bool:
        if again and (known := await self.store.get(invocation.id)) is not None and known.kind == invocation.kind:
            return True
        if not await self.is_left(invocation.id):
            return await self.store.add(invocation, each=each, total=total) is not None
        while (known := await self.store.get(invocation.id)) is not None:
            if known.kind == invocation.kind:  # an earlier try succeeded after all
                return True
            if known.status != "running" or known.cancel:  # cancelled at another worker: no question is open any more
                return False
            if await self._replaced(known, invocation):
                return True
        return False

    async def _replaced(self, known: Invocation, question: Invocation) -> bool:
        """Let a call whose client disconnected wait. Return False if another process changed it."""
        changed = msgspec.structs.replace(question, home=known.home, version=known.version, task=known.task)
        if await self.store.replace(known, changed) is None:
            return False
        self.news.announce()
        return True

    def stop_asking(self) -> None:
        """End the open questions of the calls that this process runs, because it stops."""
        self.stopping.set()
        self.news.announce()

    async def is_left(self, call_id: str) -> bool:
        """Return True if a call of this worker continues without its caller, as `StandingCalls.is_left` requires."""
        return await self.worker.is_left(call_id)

    async def repeated(self, envelope: Envelope, caller: Principal, *, equal: bool = False) -> Envelope:
        """Return the answer to a repeated call: the state of the first, which waited for a person. `equal`: it has no key of its own."""
        if envelope.error is None or envelope.error.code not in {"approval_required", "deferred"}:
            return envelope
        if equal:
            known = await self.outcome(envelope.call_id, caller, tells=False)
            return envelope if known is None else joined_envelope(known, envelope.meta)
        gone = Error(
            code="expired",
            message=f"the call with this key, {envelope.call_id}, has ended, and its outcome is not stored any more",
            suggestion="check what it should have changed; another call needs another key",
        )
        known = await self.outcome(envelope.call_id, caller)
        if known is None and envelope.error.code == "deferred":
            return envelope  # it is running, and its first caller waits for it
        return known or msgspec.structs.replace(envelope, status="refused", error=gone)

    async def cancel(self, call_id: str, caller: Principal) -> Envelope | None:
        """Withdraw a caller's own call that has not been executed, and return its state; None as above. Raises the errors of `close`."""
        known = await self.own(call_id, caller)
        if known is None:
            return None
        if known.status in {"pending", "approved"}:
            error = Error(code="cancelled", message="the caller withdrew this call", rule=known.rule)
            await self.close(known, by=caller.id, verdict="cancel", error=error)
            for inner in known.workflow.waits:
                await self.cancel(inner, caller)
        return await self.outcome(call_id, caller)

    async def _may_be_over(self, known: Invocation) -> bool:
        """Return True if a call may have ended, or begun, although it waits in the store: the store was emptied or set back recently,
        and each gateway restores its calls. The call's own gateway gets more time for that. A process that could not always reach
        the store may have missed the loss, so it answers for no call of another gateway."""
        if self.store.loss:  # found just now, and not checked yet
            return True
        fate = await self.store.fate(known)
        own = fate in {"own", "behind"}
        if fate in {"begun", "over"} or not (own or self.store.listened):
            return True
        window_s = LEASE_S if own else 3 * LEASE_S
        if known.asked <= self.store.lost_at and await self.store.now() < self.store.lost_at + window_s:
            return True
        for _ in range(_TRIES):  # this process may have changed the call while it was read
            try:
                await self.store.get(known.id)
            except BehindError:
                continue
            return False
        return True

    async def check_current(self, known: Invocation) -> None:
        """Raise `StateUnavailableError` if a call may be over, so that no answer for it counts now."""
        if await self._may_be_over(known):
            raise StateUnavailableError(
                "the gateway's shared state was lost a moment ago, and the progress of this call is being restored",
                suggestion="answer again in some seconds",
            )

    async def hold_current(self, known: Invocation) -> Invocation | None:
        """Hold a call to answer for it or to end it, like `hold`. Raises as `check_current`, also if holding it showed that."""
        await self.check_current(known)
        held = await self.hold(known)
        if held is not None:
            try:
                await self.check_current(held)
            except StateUnavailableError:
                await self.store.replace(held, msgspec.structs.replace(held, lease=0.0))
                raise
        return held

    async def close(
        self, known: Invocation, *, by: str, verdict: Verdict, error: Error, said: Mapping[str, Any] = _NOTHING
    ) -> Invocation | None:
        """End a call that is not executed (any more), in the audit log first, with `said`. Return None if another process was faster, or
        if the call expired or lost its worker (`expire`, `lose`) and another gateway is responsible for it.

        Raises `StateUnavailableError` for a call that may be over, and `AuditError`.
        """
        if verdict in {"expire", "lose"}:
            return await self.give_up(known, verdict=verdict, error=error)
        if await self.worker.kept_now(known.id):
            return None
        held = await self.hold_current(known)
        if held is None:
            return None
        ended = await self._recorded(known) if known.lease else ""
        if ended and ended != error.code:
            error = on_record(known)
        return await self._close(held, by=by, verdict=verdict, error=error, said=said, recorded=bool(ended))

    async def give_up(
        self, known: Invocation, *, verdict: Verdict, error: Error, missing: bool = False
    ) -> Invocation | None:
        """End a call that expired, or whose worker is gone. Return None if another gateway is responsible for it, or another process was
        faster.

        A call that has begun ends as `outcome_unknown`, whatever `error` is, and one call has one recorded outcome. `missing`: the store
        does not have the call, or cannot be read.
        """
        fate = await self.store.fate(known)
        if fate == "foreign" or await self.worker.kept_now(known.id):
            return None
        if fate == "over" and (put_back := await self.store.restore_ending(known)) is not None:
            self.news.announce(known.id)
            return put_back
        if verdict == "expire" and fate == "own" and await self._may_be_over(known):
            return None
        begun = (
            fate in {"begun", "over"}
            or known.status == "running"
            or (fate == "orphaned" and (known.status == "approved" or known.asked <= self.store.lost_at))
        )
        ended = await self._recorded(known) if (begun or missing or known.lease) and fate != "over" else ""
        recorded = fate == "over" or bool(ended)
        if ended == error.code:
            pass  # in its recorded form
        elif recorded or fate in {"begun", "over"} or (fate == "behind" and begun):
            error = on_record(known)
        elif fate == "orphaned":
            error, verdict = orphaned(known, begun=begun), "lose" if begun else verdict
        held = await (self.hold(known) if not missing and fate in {"own", "orphaned"} else self._take_back(known))
        if held is None:
            return None
        if not missing and fate in {"own", "orphaned"} and self.store.loss:  # other gateways restore their calls first
            await self.store.replace(held, msgspec.structs.replace(held, lease=0.0))
            return None
        return await self._close(held, by="", verdict=verdict, error=error, recorded=recorded, lost=begun)

    async def end_forgotten(self, known: Invocation) -> Invocation | None:
        """End a call of this worker whose question the store lost before its client disconnected. Return None if another process was
        faster. Another one may have taken this worker for gone, and given the call up: one call has one outcome on record."""
        if known.status == "ended":
            return known
        held = await self.store.replace(known, msgspec.structs.replace(known, lease=await self.store.now() + LEASE_S))
        if held is None:
            return None
        self._looked_up.pop(held.id, None)
        ended, error = await self._recorded(held), forgotten(held)
        if ended not in {"", error.code}:
            error = on_record(held)
        return await self._close(held, by="", verdict="lose", error=error, recorded=bool(ended))

    async def look_up(self, calls: Sequence[Invocation]) -> None:
        """Look for the outcomes of calls that are about to be given up: once in the record for all of them. Raises `AuditError`."""
        self._looked_up = {}
        if calls:
            ids, since = {one.id for one in calls}, min(one.asked for one in calls) - _CLOCKS_APART_S
            found = await asyncio.to_thread(recorded_outcomes, self.log.directory, ids, since)
            self._looked_up = {call_id: found.get(call_id, "") for call_id in ids}

    async def _recorded(self, known: Invocation) -> str:
        """Return the code or status with which a call ended by this gateway's log, "" if it did not. A process that held the call may have
        recorded it before it was killed."""
        if known.id not in self._looked_up:
            await self.look_up([known])
        ended = self._looked_up.pop(known.id)
        return "" if known.status == "approved" and ended in NOT_BEGUN else ended

    async def _take_back(self, known: Invocation) -> Invocation | None:
        """Hold a call of which the store has an older version than this gateway, or none."""
        lease = await self.store.now() + LEASE_S
        return await self.store.restore(msgspec.structs.replace(known, lease=lease), over=known.version)

    async def _close(
        self,
        held: Invocation,
        *,
        by: str,
        verdict: Verdict,
        error: Error,
        said: Mapping[str, Any] = _NOTHING,
        recorded: bool = False,
        lost: bool = False,
    ) -> Invocation | None:
        status, seq = CLOSED[error.code], None
        if recorded:
            _logger.warning("call %s of %s: the store lost it, and the audit log has its outcome", held.id, held.tool)
        else:
            ending = {"status": status, "code": error.code, "message": error.message}
            recording = self.record(held, by=by, verdict=verdict, said=said, ending=ending)
            seq, held = await self._while_held(held, recording)
        meta = Meta(duration_ms=0.0, truncated=False, audit_seq=seq)
        data = None if held.workflow.resume is None else {"done": done_so_far(held.workflow.resume)}
        envelope = Envelope(status=status, tool=held.tool, call_id=held.id, data=data, error=error, meta=meta)

        async def settle(now: Invocation) -> bool:
            if now.version != held.version and now.status not in {"pending", "approved"}:
                return True  # its owner is still running
            return await self.end(msgspec.structs.replace(now, closed_by=by), envelope, lost=lost) is not None

        try:
            return await self.end(msgspec.structs.replace(held, closed_by=by), envelope, lost=lost)
        except StateUnavailableError:  # it is recorded, and not recorded again
            self.worker.keep_later(held, settle)
            raise

    async def _while_held(self, held: Invocation, recording: Coroutine[Any, Any, int]) -> tuple[int, Invocation]:
        """Record an outcome, and hold its call until that is done, however long the disk takes: another process would record one too.
        Return the number of the audit entry, and the call as it is held."""
        task = asyncio.ensure_future(recording)
        try:
            while not (await asyncio.wait((task,), timeout=LEASE_S / 3))[0]:
                with suppress(StateError):
                    lease = await self.store.now() + LEASE_S
                    held = await self.store.replace(held, msgspec.structs.replace(held, lease=lease)) or held
            return task.result(), held
        finally:
            task.cancel()

    async def still_storing(self) -> None:
        """Record that this worker still tries to store its questions: no other worker gives them up as missing meanwhile."""
        if self._unconfirmed:
            await self.store.still_storing(list(self._unconfirmed))

    async def keep_unkept(self) -> None:
        """Store the questions and outcomes that could not be stored before. Raises `StateError` if the store cannot be reached."""
        for question in list(self._unconfirmed.values()):
            await self.keep_question(question.id)
        await self.worker.keep_unkept()

    async def keep_question(self, call_id: str) -> bool:
        """Store a waiting call that the store did not confirm. Return False if it is not such a call, or if the store has lost
        something since, because it may have been answered before that."""
        question = self._unconfirmed.get(call_id)
        if question is None or question.asked <= self.store.lost_at:
            self._unconfirmed.pop(call_id, None)
            return False
        known = await self.current_of(call_id)
        if known is None:
            kept = await self.store.restore(question, over=0) is not None
        elif known.kind == "call" and known.status == "running" and known.kind != question.kind:
            kept = known.cancel or await self._replaced(known, question)
        else:
            kept = True
        if kept:
            self._unconfirmed.pop(call_id, None)
        return True

    async def end(self, known: Invocation, envelope: Envelope, *, lost: bool = False) -> Invocation | None:
        """Store the outcome of a call for its caller, with the notes of its approvers. `lost`: the outcome is not from the call's owner,
        which may still store its own."""
        if note := "; ".join(vote.note for vote in known.approval.votes if vote.note):
            envelope = msgspec.structs.replace(envelope, meta=msgspec.structs.replace(envelope.meta, note=note))
        written = envelope_json(envelope)
        if envelope.content is not None:
            written["content"] = envelope.content
        if envelope.parts:
            written["parts"] = True
        ended = msgspec.structs.replace(
            known,
            status="ended",
            lost=lost,
            lease=0.0,
            ended=await self.store.now(),
            envelope=written,
            asks={},
            replies={},
        )
        try:
            kept = await self.store.replace(known, ended, room=ROOM)
        except ResultsFullError:
            kept = await self.store.replace(known, msgspec.structs.replace(ended, envelope=without_result(envelope)))
        self.news.announce(known.id)
        if known.parent:  # the call that made this one may wait for it
            await self.store.renew((known.parent,), ended.ended)
            self.news.look()
        return kept

    def envelope(self, known: Invocation, *, questions: bool = False) -> Envelope:
        """Return the current result for the caller. `questions`: the data of a call that asks something has the questions, which are for
        a program and not for a model."""
        if known.envelope is not None:
            return envelope_of(known.envelope)
        error = status_error(known, self._approval_text())
        meta = Meta(duration_ms=0.0, truncated=False)
        data: dict[str, Any] = {} if known.progress is None else {"progress": known.progress}
        if questions and known.questions:
            data["questions"] = dict(known.questions)
        return Envelope(status="pending", tool=known.tool, call_id=known.id, data=data or None, error=error, meta=meta)

    async def hold(self, known: Invocation) -> Invocation | None:
        """Lease a call, so that no other process changes it for some time; None if another process holds it, or was faster."""
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
        """Return the number of the audit entry, which also has the fields of `said`. Without a record there was no answer: the lease is
        released."""
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


def done_so_far(resume: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls that a waiting call had made, by its steps."""
    made = resume.get("done") or {}
    return [{"step": key, "tool": one.get("tool"), "call_id": one.get("call_id")} for key, one in made.items()]


def kept_until(known: Invocation, now: float) -> float:
    """Return the time until which the caller can fetch the call, if it is known: an hour after its end, or less if it asked for less."""
    longest = (known.ended or max(now, known.expires)) + KEPT_S
    if known.task is None or not known.task.keep_s:
        return longest
    return min(longest, max(known.asked + known.task.keep_s, (known.ended or now) + GRACE_S))
