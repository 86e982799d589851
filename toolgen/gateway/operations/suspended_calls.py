"""Calls that wait for other calls that they made: kept with what they resume with, and made again when all of these have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolgen.core.errors import StateError
from toolgen.gateway.approvals.requests import MAX_WAITING, invocation_of
from toolgen.gateway.operations.status_messages import suspension_error
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Call
from toolgen.model.result import Error
from toolgen.pipeline.stages.approve import Question, approval_digest
from toolgen.state.invocations import Invocation, WorkflowState

__all__ = ["SuspendedCalls"]

MAX_SUSPENDED_EACH = 100
SUSPENDED_S = 7 * 86_400.0
"""Time that a call may wait for others that it made; each of them ends sooner."""


class SuspendedCalls:
    """Calls that wait for others. `current` is the policy in force."""

    def __init__(self, calls: WaitingCalls, current: CurrentPolicy) -> None:
        self._calls, self._current = calls, current

    async def suspend(self, call: Call, resume: Mapping[str, Any], waits: Sequence[str]) -> Error:
        """Keeps a call that waits for others that it made: it is made again, with `resume`, when all of them have ended.

        Raises `StateError` where it cannot be kept.
        """
        compiled_policy, now = self._current.compiled_policy, await self._calls.store.now()
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
            invocation_of(question, now),
            waits_for=WorkflowState(resume=dict(resume), waits=tuple(waits)),
            status="approved",
        )
        await self._calls.worker.is_left(call.id)
        first: int | None = None
        while (known := await self._calls.store.get(call.id)) is not None:
            if known.status == "ended":
                raise StateError("the call was given up meanwhile")
            first = known.attempt if first is None else first
            if known.attempt > first:  # an earlier try was done after all, and somebody may have gone on with it
                return suspension_error(made)
            changed = msgspec.structs.replace(
                made, home=known.home, version=known.version, asked=known.asked, task=known.task
            )
            if await self._calls.store.replace(known, changed) is not None:
                self._calls.news.announce()
                return suspension_error(made)
        if not await self._calls.store.add(made, each=MAX_SUSPENDED_EACH, total=MAX_WAITING):
            raise StateError("too many calls wait for others already")
        return suspension_error(made)

    async def answered(self, known: Invocation) -> bool:
        """True if every call that one waits for has ended, or is not kept any more."""
        for call_id in known.workflow.waits:
            inner = await self._calls.current_of(call_id)
            if inner is not None and inner.status != "ended":
                return False
        return True
