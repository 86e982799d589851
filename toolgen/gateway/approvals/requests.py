"""Requests for approval: a call is stored until it is answered, with reminders and escalation."""

from __future__ import annotations

import logging

import msgspec

from toolgen.core.errors import StateError
from toolgen.gateway.approvals.grants import ApprovalGrants
from toolgen.gateway.approvals.terms import MAX_ARGUMENTS_SIZE
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.metrics.prometheus import ApprovalCounts
from toolgen.gateway.operations.kept_principals import party_of
from toolgen.gateway.operations.status_messages import approval_error
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.result import Error, Pending, Refused, Result
from toolgen.model.unavailable import unavailable
from toolgen.pipeline.stages.approve import Question
from toolgen.policy.document.policy import Policy
from toolgen.state.invocations import ApprovalState, Invocation, next_steps, with_approval

__all__ = ["MAX_EACH", "MAX_NOTE_LENGTH", "ApprovalRequests", "invocation_of"]

MAX_EACH = 20
MAX_NOTE_LENGTH = 500
_STORM_RETRY_S = 30.0
_logger = logging.getLogger(__name__)


_UNKEPT = unavailable("a person has to approve this call, and the store of waiting calls cannot be reached now")


class ApprovalRequests:
    """Requests for approval, for the approve stage (`ApprovalQueue`). `current` is the policy in force, which determines the approvers."""

    def __init__(self, *, calls: WaitingCalls, current: CurrentPolicy, grants: ApprovalGrants) -> None:
        self._calls, self._current, self._grants = calls, current, grants

    async def ask(self, question: Question) -> Result:
        """Store a call until it is answered; refuse it if no approver could read it, or too many calls wait already."""
        call = question.call
        size = len(encode(call.arguments))
        if size > MAX_ARGUMENTS_SIZE:
            return Refused(
                error=Error(
                    code="validation",
                    message=f"a person has to read these arguments, and {size} bytes are too many (maximum: {MAX_ARGUMENTS_SIZE})",
                    suggestion="make several calls with smaller arguments",
                    rule=question.rule,
                )
            )
        try:
            policy = self._current.compiled_policy.policy
            invocation = _with_steps(invocation_of(question, await self._calls.store.now()), policy)
            kept = await self._calls.keep(invocation, each=MAX_EACH, total=policy.approval.max_waiting)
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
        return Pending(error=approval_error(invocation, policy.approval.text))

    async def granted(self, question: Question) -> bool:
        """Return True if a grant covers the call; the use is counted and written to the audit log. Raises `AuditError`."""
        return await self._grants.use(question)

    async def step(self, known: Invocation, now: float) -> None:
        """Take the due step for an unanswered call: a reminder, or an escalation, which is recorded before it is announced. One of many
        workers does it. Raises `AuditError` if it cannot be recorded; then it is done later."""
        due = {name: now for name, at in next_steps(known).items() if at <= now}
        held = await self._calls.hold(known) if due else None
        if held is None:
            return
        if "escalated" in due:
            approval = self._current.compiled_policy.policy.approval
            said = {"after_s": approval.escalate_s, "to": sorted(approval.escalate_to)}
            await self._calls.record(held, by="", verdict="", said=said, event="escalation")
        if "reminded" in due:
            _logger.info("call %s of %s still waits for a person", known.id, known.tool)
        await self._calls.store.replace(held, with_approval(msgspec.structs.replace(held, lease=0.0), **due))
        self._calls.news.announce()

    async def waiting(self) -> ApprovalCounts:
        """Return the number of calls that wait for a person, and the age of the oldest. Raises `StateError`."""
        asked = [known.asked for known in await self._calls.store.unfinished() if known.status == "pending"]
        oldest_s = max(0.0, await self._calls.store.now() - min(asked)) if asked else 0.0
        return ApprovalCounts(waiting=len(asked), oldest_s=oldest_s)


def _with_steps(invocation: Invocation, policy: Policy) -> Invocation:
    """Return the call with the times of its reminder and its escalation."""
    approval, asked = policy.approval, invocation.asked
    return with_approval(
        invocation,
        remind_at=max(asked, invocation.expires - approval.remind_s) if approval.remind_s else 0.0,
        escalate_at=asked + approval.escalate_s if approval.escalate_s else 0.0,
    )


def invocation_of(question: Question, now: float) -> Invocation:
    """Return a call in its stored form, waiting for an answer."""
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
        waits_for=ApprovalState(sql=question.sql, needs=question.needs, asked_by=question.asked_by),
        answerable=question.answerable,
    )
