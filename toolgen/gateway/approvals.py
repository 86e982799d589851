"""Calls that wait for a person: who is asked, who may answer, and what becomes of them. Every answer is on record before it counts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolgen.audit.log import AuditLog
from toolgen.core.errors import StateError
from toolgen.gateway.approval_answers import Answers
from toolgen.gateway.approval_terms import MAX_ARGUMENTS_SIZE
from toolgen.gateway.approvers import in_words
from toolgen.gateway.background_calls import BackgroundCalls
from toolgen.gateway.compiled_policy import CurrentPolicy
from toolgen.gateway.departed_clients import DepartedClients
from toolgen.gateway.json_body import encode
from toolgen.gateway.kept_principals import party_of
from toolgen.gateway.prometheus import ApprovalCounts
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.result import Error, Pending, Refused, Result
from toolgen.model.unavailable import unavailable
from toolgen.model.waiting import reads_end
from toolgen.pipeline.stages.approve import Question, approval_digest
from toolgen.policy.document.policy import Policy
from toolgen.state.equal_calls import EqualCalls
from toolgen.state.grants import CallGrant, Grants
from toolgen.state.invocations import Invocation, Invocations, next_steps

__all__ = ["MAX_EACH", "MAX_NOTE_LENGTH", "MAX_WAITING", "Approvals"]

MAX_EACH = 20
MAX_WAITING = 500
MAX_SUSPENDED_EACH = 100
SUSPENDED_S = 7 * 86_400.0
"""How long a call may wait for others that it made; each of them ends sooner."""
MAX_NOTE_LENGTH = 500
_STORM_RETRY_S = 30.0
_logger = logging.getLogger(__name__)


_UNKEPT = unavailable("a person would have to agree to this call, and where such calls are kept cannot be reached now")


class Approvals(Answers):
    """Calls that wait for a person. `current` has the policy as it is now: an answer counts only under the policy it was asked under."""

    def __init__(
        self,
        *,
        store: Invocations,
        log: AuditLog,
        current: CurrentPolicy,
        departed: DepartedClients,
        grants: Grants[CallGrant] | None = None,
        equal_calls: EqualCalls | None = None,
        pending_after_s: float | None = None,
    ) -> None:
        super().__init__(store=store, log=log, current=current, grants=grants, equal_calls=equal_calls)
        self.departed = departed
        """Clients that left before they were answered."""
        self.background = BackgroundCalls(self, pending_after_s)
        self.status_messages["approval", "pending"] = self._asked
        self.status_messages["approval", "approved"] = self.status_messages["approval", "running"] = _agreed
        self.status_messages["workflow", "approved"] = _waits

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
            invocation = _with_steps(_invocation(question, await self.store.now()), self.current.compiled_policy.policy)
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
        return Pending(error=self._asked(invocation))

    def _asked(self, known: Invocation) -> Error:
        """Return the error of a waiting call: who has to agree and, if the policy has it, where; never how to agree."""
        several = len(known.needs) > 1 or any(need.quorum > 1 for need in known.needs)
        where = self.current.compiled_policy.policy.approval.text
        return Error(
            code="approval_required",
            message=f"{in_words(known.needs)} {'have' if several else 'has'} to agree to this call{f' ({where})' if where else ''}",
            suggestion=f"do not make it again: it is carried out once that is so, and {reads_end(known.id)}; tell the user what waits",
            rule=known.rule,
        )

    async def granted(self, question: Question) -> bool:
        """Return True if a grant covers the call; the use is counted and written to the audit log. Raises `AuditError`."""
        return self.grants is not None and await self.grants.use(question)

    async def step(self, known: Invocation, now: float) -> None:
        """Does what is due about a call that nobody has answered for: people are reminded, and others may answer too, which is on record
        before it is told. Of many workers one does it. Raises `AuditError` where it cannot be recorded; then it is done later."""
        due = {name: now for name, at in next_steps(known).items() if at <= now}
        held = await self.hold(known) if due else None
        if held is None:
            return
        if "escalated" in due:
            approval = self.current.compiled_policy.policy.approval
            said = {"after_s": approval.escalate_s, "to": sorted(approval.escalate_to)}
            await self.record(held, by="", verdict="", said=said, event="escalation")
        if "reminded" in due:
            _logger.info("call %s of %s still waits for a person", known.id, known.tool)
        await self.store.replace(held, msgspec.structs.replace(held, lease=0.0, **due))
        self.announce()

    async def waiting(self) -> ApprovalCounts:
        """How many calls wait for a person, and for how long the oldest has. Raises `StateError`."""
        asked = [known.asked for known in await self.store.unfinished() if known.status == "pending"]
        oldest_s = max(0.0, await self.store.now() - min(asked)) if asked else 0.0
        return ApprovalCounts(waiting=len(asked), oldest_s=oldest_s)

    async def suspend(self, call: Call, resume: Mapping[str, Any], waits: Sequence[str]) -> Error:
        """Keeps a call that waits for others that it made: it is made again, with `resume`, when all of them have ended.

        Raises `StateError` where it cannot be kept.
        """
        compiled_policy, now = self.current.compiled_policy, await self.store.now()
        question = Question(
            call=call,
            digest=approval_digest(call, compiled_policy.scope_hash(call.principal, call.tool)),
            policy_digest=compiled_policy.policy.digest,
            needs=(),
            expires_s=SUSPENDED_S,
            rule="",
            sql="",
        )
        made = msgspec.structs.replace(
            _invocation(question, now), kind="workflow", status="approved", resume=dict(resume), waits=tuple(waits)
        )
        await self.is_left(call.id)
        first: int | None = None
        while (known := await self.store.get(call.id)) is not None:
            if known.status == "ended":
                raise StateError("the call was given up meanwhile")
            first = known.attempt if first is None else first
            if known.attempt > first:  # an earlier try was done after all, and somebody may have gone on with it
                return _waits(made)
            changed = msgspec.structs.replace(
                made, home=known.home, version=known.version, asked=known.asked, task=known.task
            )
            if await self.store.replace(known, changed) is not None:
                self.announce()
                return _waits(made)
        if not await self.store.add(made, each=MAX_SUSPENDED_EACH, total=MAX_WAITING):
            raise StateError("too many calls wait for others already")
        return _waits(made)

    async def answered(self, known: Invocation) -> bool:
        """True if every call that one waits for has ended, or is not kept any more."""
        for call_id in known.waits:
            inner = await self.current_of(call_id)
            if inner is not None and inner.status != "ended":
                return False
        return True


def _with_steps(invocation: Invocation, policy: Policy) -> Invocation:
    """With the times at which people are reminded of it, and others are asked, while nobody answers."""
    approval, asked = policy.approval, invocation.asked
    return msgspec.structs.replace(
        invocation,
        remind_at=max(asked, invocation.expires - approval.remind_s) if approval.remind_s else 0.0,
        escalate_at=asked + approval.escalate_s if approval.escalate_s else 0.0,
    )


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
        restored=call.restored,
        sent=dict(call.sent),
        sql=question.sql,
        rule=question.rule,
        digest=question.digest,
        tool_digest=call.tool.digest,
        policy_digest=question.policy_digest,
        session=call.session,
        client=call.client,
        parent=call.parent,
        ancestry=call.ancestry,
        idempotency_key=call.idempotency_key,
        equal=call.equal,
        asked=now,
        expires=now + question.expires_s,
        needs=question.needs,
        asked_by=question.asked_by,
    )


def _waits(known: Invocation) -> Error:
    return Error(
        code="deferred",
        message=f"it waits for {len(known.waits)} of its steps that somebody has to answer for: {bounded(', '.join(known.waits), 400)}",
        suggestion=f"do not make it again: it goes on by itself, and {reads_end(known.id)}",
        rule=known.rule,
    )


def _agreed(known: Invocation) -> Error:
    message = "a person agreed to this call; it is being carried out"
    suggestion = f"do not make it again: {reads_end(known.id)}"
    return Error(code="approval_required", message=message, suggestion=suggestion, rule=known.rule)
