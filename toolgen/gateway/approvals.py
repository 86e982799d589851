"""Calls that wait for a person: who is asked, who may answer, and what becomes of them. Every answer is on record before it counts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from toolgen.audit.log import AuditLog
from toolgen.errors import StateError
from toolgen.gateway.background_calls import BackgroundCalls
from toolgen.gateway.compiled_policy import CurrentPolicy, Governance
from toolgen.gateway.json_body import encode
from toolgen.gateway.prometheus import ApprovalCounts
from toolgen.gateway.waiting_calls import WaitingCalls, of_party, party_of
from toolgen.model.call import Call, Principal, parties
from toolgen.model.result import Error, Pending, Refused, Result
from toolgen.model.tool import absent
from toolgen.pipeline.stages.guards import STALE, Question, approval_digest
from toolgen.state.invocations import Invocation, Invocations

__all__ = ["MAX_EACH", "MAX_NOTE_LENGTH", "MAX_WAITING", "Approvals"]

MAX_EACH = 20
MAX_WAITING = 500
MAX_SUSPENDED_EACH = 100
SUSPENDED_S = 7 * 86_400.0
"""How long a call may wait for others that it made; each of them ends sooner."""
MAX_ARGUMENTS_SIZE = 65_536
MAX_NOTE_LENGTH = 500
_STORM_RETRY_S = 30.0
_logger = logging.getLogger(__name__)


_UNKEPT = Error(
    code="upstream_unavailable",
    message="a person would have to agree to this call, and where such calls are kept cannot be reached now",
    suggestion="try again in a moment; if this goes on, tell the operator of the gateway",
    retry_after_s=1.0,
)


class Approvals(WaitingCalls):
    """Calls that wait for a person. `current` has the policy as it is now: an answer counts only under the policy it was asked under."""

    def __init__(self, *, store: Invocations, log: AuditLog, current: CurrentPolicy) -> None:
        super().__init__(store=store, log=log)
        self.background = BackgroundCalls(self)
        self.current = current
        self.tells["approval", "pending"] = lambda known: _asked(known, self.current.governance.policy.approval.roles)
        self.tells["approval", "approved"] = self.tells["approval", "running"] = _agreed
        self.tells["workflow", "approved"] = _waits

    async def ask(self, question: Question) -> Result:
        """Keeps a call until somebody answers for it; refused where nobody could read it, or too many wait already."""
        call = question.call
        size = len(encode(call.arguments))
        if size > MAX_ARGUMENTS_SIZE:
            return Refused(
                error=Error(
                    code="validation",
                    message=f"a person has to read these arguments, and {size} bytes are too many (most: {MAX_ARGUMENTS_SIZE})",
                    suggestion="make several calls with smaller arguments",
                    rule=question.rule,
                )
            )
        try:
            invocation = _invocation(question, await self.store.now())
            kept = await self.keep(invocation, each=MAX_EACH, total=MAX_WAITING)
        except StateError as fault:
            _logger.error("a call that has to wait for a person was refused: %s", fault)  # noqa: TRY400 - it says all there is
            return Refused(error=msgspec.structs.replace(_UNKEPT, rule=question.rule))
        if not kept:
            return Refused(
                error=Error(
                    code="rate_limited",
                    message="too many calls wait for a person already",
                    suggestion="wait until some are answered, or withdraw them",
                    retry_after_s=_STORM_RETRY_S,
                    rule=question.rule,
                )
            )
        _logger.info("call %s of %s waits for a person (rule %s)", call.id, call.tool.name, question.rule)
        return Pending(error=_asked(invocation, question.roles))

    async def waiting(self) -> ApprovalCounts:
        """How many calls wait for a person, and for how long the oldest has. Raises `StateError`."""
        asked = [known.asked for known in await self.store.unfinished() if known.status == "pending"]
        oldest_s = max(0.0, await self.store.now() - min(asked)) if asked else 0.0
        return ApprovalCounts(waiting=len(asked), oldest_s=oldest_s)

    def may_answer(self, principal: Principal) -> bool:
        """Whether a principal may answer for others at all: by its role, and in its own name."""
        return principal.on_behalf_of is None and self.current.governance.policy.approval.may_answer(
            principal.id, principal.roles, ()
        )

    async def answerable(self, principal: Principal) -> tuple[Invocation, ...]:
        """The calls that wait for an answer this principal may give, the oldest first."""
        if not self.may_answer(principal):
            return ()
        found, now = await self.store.unfinished(), await self.store.now()
        return tuple(
            item
            for item in found
            if item.status == "pending" and item.expires > now and not self._concerned(principal, item)
        )

    async def decide(self, call_id: str, *, approve: bool, note: str, principal: Principal) -> Invocation | Error:
        """Answers for a call. The first answer counts, once; what changed since it was asked for expires instead.

        Raises `AuditError` when the answer cannot be recorded (then it was not given), and `StateError`.
        """
        if not self.may_answer(principal):
            return Error(
                code="forbidden",
                message="this principal may not answer for the calls of others",
                suggestion="approvals.approvers in the policy names the roles that may; answer in your own name",
            )
        known = await self.store.get(call_id)
        if known is None:
            return Error(code="not_found", message="no call with this id waits for an answer")
        if self._concerned(principal, known):
            return Error(code="forbidden", message="nobody answers for a call of their own, or one made for them")
        return await self._answer(known, approve=approve, note=note, by=principal.id)

    async def agree(self, call_id: str, *, approve: bool, caller: Principal) -> Invocation | Error:
        """The answer of the person at a caller's own client, where the policy lets it count. Raises as `decide`."""
        known = await self.own(call_id, caller)
        if known is None:
            return Error(code="not_found", message="no call with this id waits for an answer")
        if not self.current.governance.policy.approval.elicits:
            return Error(code="forbidden", message="the policy takes no answers from the person at a caller's client")
        return await self._answer(known, approve=approve, note="asked at the caller's client", by=caller.id)

    async def _answer(self, known: Invocation, *, approve: bool, note: str, by: str) -> Invocation | Error:
        if known.kind != "approval" or known.status != "pending":
            return _too_late(known)
        if stale := self.stale(known, await self.store.now()):
            await self.close(
                known, by="", verdict="expire", error=Error(code="expired", message=stale, rule=known.rule)
            )
            return Error(code="expired", message=stale)
        if not approve:
            message = f"a person denied this call: {note}" if note else "a person denied this call"
            error = Error(
                code="approval_denied",
                message=message,
                suggestion="do not make it again unless you are told to",
                rule=known.rule,
            )
            closed = await self.close(known, by=by, verdict="deny", error=error, note=note)
            return closed or _too_late(known)
        held = await self.hold(known)
        if held is None:
            return _too_late(known)
        await self.record(held, by=by, verdict="approve", note=note)
        approved = msgspec.structs.replace(held, status="approved", lease=0.0)
        kept = await self.store.replace(held, approved)
        self.announce()
        return kept or _too_late(known)

    def _concerned(self, principal: Principal, known: Invocation) -> bool:
        """Whether this call is the principal's own, or made for it, under whichever of its identities."""
        return self.current.governance.identity.concerns(principal.id, parties(of_party(known.principal)))

    def stale(self, known: Invocation, now: float) -> str:
        """Why an answer for this call can no longer count, "" when it can."""
        if known.expires <= now:
            return "nobody answered for this call in time; make it again if it is still wanted"
        return "" if self.call(known, self.current.governance) is not None else STALE

    async def suspend(self, call: Call, resume: Mapping[str, Any], waits: Sequence[str]) -> Error:
        """Keeps a call that waits for others that it made: it is made again, with `resume`, when all of them have ended.

        Raises `StateError` where it cannot be kept.
        """
        governance, now = self.current.governance, await self.store.now()
        question = Question(
            call=call,
            digest=approval_digest(call, governance.concern(call.principal, call.tool)),
            policy_digest=governance.policy.digest,
            roles=frozenset(),
            expires_s=SUSPENDED_S,
            rule="",
            sql="",
        )
        made = msgspec.structs.replace(
            _invocation(question, now), kind="workflow", status="approved", resume=dict(resume), waits=tuple(waits)
        )
        if (adding := self.left.get(call.id)) is not None:
            await adding
        while (known := await self.store.get(call.id)) is not None:
            if known.status == "ended":
                raise StateError("the call was given up meanwhile")
            changed = msgspec.structs.replace(made, home=known.home, version=known.version, asked=known.asked)
            if await self.store.replace(known, changed) is not None:
                self.announce()
                return _waits(made)
        if not await self.store.add(made, each=MAX_SUSPENDED_EACH, total=MAX_WAITING):
            raise StateError("too many calls wait for others already")
        return _waits(made)

    async def answered(self, known: Invocation) -> bool:
        """Whether every call that one waits for has ended, or is not kept any more."""
        for call_id in known.waits:
            inner = await self.store.get(call_id)
            if inner is not None and inner.status != "ended":
                return False
        return True

    def call(self, known: Invocation, governance: Governance) -> Call | None:
        """The call as it was asked for, carrying its approval; None where this policy sees another call in it than was asked for."""
        asked = of_party(known.principal)
        found = governance.identity.current(asked, known.asked)
        if found is None:
            return None
        principal = replace(found, toolsets=asked.toolsets)
        call = Call(
            id=known.id,
            tool=governance.tool(known.tool) or absent(known.tool),
            arguments=known.arguments,
            principal=principal,
            session=known.session,
            client=known.client,
            parent=known.parent,
            idempotency_key=known.idempotency_key,
            bound=known.bound,
            approval=known.digest,
            withheld=governance.withheld,
            resume=known.resume,
        )
        return call if approval_digest(call, governance.concern(principal, call.tool)) == known.digest else None


def _invocation(question: Question, now: float) -> Invocation:
    """A call as it is kept until somebody answers."""
    call = question.call
    return Invocation(
        id=call.id,
        principal=party_of(call.principal),
        tool=call.tool.name,
        effect=call.tool.effect.value,
        arguments=dict(call.arguments),
        bound=call.bound,
        sql=question.sql,
        rule=question.rule,
        digest=question.digest,
        tool_digest=call.tool.digest,
        policy_digest=question.policy_digest,
        session=call.session,
        client=call.client,
        parent=call.parent,
        idempotency_key=call.idempotency_key,
        asked=now,
        expires=now + question.expires_s,
    )


def _asked(known: Invocation, roles: frozenset[str]) -> Error:
    return Error(
        code="approval_required",
        message=f"a person with the role {' or '.join(sorted(roles))} has to agree to this call",
        suggestion=(
            "do not make it again: it is carried out when somebody approves it, and its result is then at "
            f"/v1/calls/{known.id}; tell the user what waits (`toolgen approvals approve {known.id}`)"
        ),
        rule=known.rule,
    )


def _waits(known: Invocation) -> Error:
    return Error(
        code="deferred",
        message=f"it waits for {len(known.waits)} of its steps that somebody has to answer for: {', '.join(known.waits)[:400]}",
        suggestion=f"do not make it again: it goes on by itself, and its result is then at /v1/calls/{known.id}",
        rule=known.rule,
    )


def _agreed(known: Invocation) -> Error:
    message = "a person agreed to this call; it is being carried out"
    return Error(code="approval_required", message=message, rule=known.rule)


def _too_late(known: Invocation) -> Error:
    return Error(
        code="conflict",
        message="this call waits for no answer any more"
        if known.kind != "approval" or known.status != "pending"
        else "somebody else is answering for this call",
    )
