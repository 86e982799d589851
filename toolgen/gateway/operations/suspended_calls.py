"""Suspended calls: they wait for other calls that they made, or for an account of their person, and run again after that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolgen.core.errors import StateError
from toolgen.gateway.accounts.accounts import Accounts
from toolgen.gateway.approvals.requests import invocation_of
from toolgen.gateway.operations.kept_principals import of_party
from toolgen.gateway.operations.status_messages import account_error, suspension_error
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.account_need import AuthorizationRequiredError
from toolgen.model.call import Call
from toolgen.model.result import Error
from toolgen.pipeline.stages.approve import Question, approval_digest, given_approval
from toolgen.state.invocations import AccountNeed, AccountState, Invocation, WorkflowState

__all__ = ["ACCOUNT_S", "SuspendedCalls"]

MAX_SUSPENDED_EACH = 100
SUSPENDED_S = 7 * 86_400.0
"""Time that a call may wait for others that it made; each of them ends sooner."""
ACCOUNT_S = 1200.0
"""Time that a call may wait for an account: the link is open for half of it, and the sign-in at the system for the rest."""
MAX_ACCOUNT_EACH = 20
_LOOK_S = 0.5


class SuspendedCalls:
    """Calls that wait for others, or for an account. `current` is the policy in force."""

    def __init__(self, calls: WaitingCalls, current: CurrentPolicy, accounts: Accounts) -> None:
        self._calls, self._current, self._accounts = calls, current, accounts
        self._looked: dict[str, float] = {}

    @property
    def _total(self) -> int:
        """Maximum number of suspended calls: as many as may wait for people, because they wait for those."""
        return self._current.compiled_policy.policy.approval.max_waiting

    async def suspend(self, call: Call, resume: Mapping[str, Any], waits: Sequence[str]) -> Error:
        """Store a call that waits for others that it made: it is made again, with `resume`, when all of them have ended.

        Raises `StateError` if it cannot be stored.
        """
        made = msgspec.structs.replace(
            await self._invocation(call, SUSPENDED_S),
            waits_for=WorkflowState(resume=dict(resume), waits=tuple(waits)),
            status="approved",
        )
        if await self._kept(made, each=MAX_SUSPENDED_EACH) is None:
            raise StateError("too many calls wait for others already")
        return suspension_error(made)

    async def await_account(self, call: Call, needed: AuthorizationRequiredError) -> Error | None:
        """Store a call for which its person has to link an account: it is made again, through every stage, after that. Return the error for
        its caller, or None if the call could not be stored, so that the caller has to make it again."""
        need = AccountNeed(
            name=needed.account,
            page=needed.page,
            scopes=needed.demand.scopes,
            since=self._accounts.now() if needed.demand else 0.0,
        )
        try:
            made = msgspec.structs.replace(
                await self._invocation(call, ACCOUNT_S), waits_for=AccountState(account=need), status="approved"
            )
            kept = await self._kept(made, each=MAX_ACCOUNT_EACH)
            if kept is None:
                return None
            await self._calls.stands_for_equal(kept)
        except StateError:
            return None
        return account_error(kept)

    async def answered(self, known: Invocation) -> bool:
        """Return True if every call that this one waits for has ended, or is not stored any more."""
        for call_id in known.workflow.waits:
            inner = await self._calls.current_of(call_id)
            if inner is not None and inner.status != "ended":
                return False
        return True

    async def awaits_account(self, known: Invocation) -> bool:
        """Return True if the person of a call has not linked the account that it waits for. The accounts are read at most twice a
        second."""
        need, tool, now = (
            known.account,
            self._current.compiled_policy.tool(known.tool),
            asyncio.get_running_loop().time(),
        )
        if need is None or tool is None:  # a call whose tool is gone ends like any other call
            return False
        if self._looked.get(known.id, -_LOOK_S) > now - _LOOK_S:
            return True
        person = of_party(known.principal)
        if await self._accounts.usable(person, tool.source, need.name, since=need.since):
            self._looked.pop(known.id, None)
            return False
        self._looked[known.id] = now
        if len(self._looked) > self._total:
            del self._looked[next(iter(self._looked))]
        return True

    async def _invocation(self, call: Call, seconds: float) -> Invocation:
        """Return the stored form of a call. If it was approved before, it keeps the digest of that approval, which belongs to the policy of
        that time."""
        compiled_policy = self._current.compiled_policy
        scope_hash = compiled_policy.scope_hash(call.principal, call.tool)
        question = Question(
            call=call,
            digest=given_approval(call) or approval_digest(call, scope_hash),
            policy_digest=compiled_policy.policy.digest,
            needs=(),
            expires_s=seconds,
            rule="",
            sql="",
        )
        return invocation_of(question, await self._calls.store.now())

    async def _kept(self, made: Invocation, *, each: int) -> Invocation | None:
        """Store a call that is suspended, in place of what is stored of it; None if too many wait. Raises `StateError`."""
        await self._calls.worker.is_left(made.id)
        first: int | None = None
        while (known := await self._calls.store.get(made.id)) is not None:
            if known.status == "ended":
                raise StateError("the call was given up meanwhile")
            first = known.attempt if first is None else first
            if known.attempt > first:  # an earlier try succeeded after all, and another worker may have continued it
                return known
            changed = msgspec.structs.replace(
                made, home=known.home, version=known.version, asked=known.asked, task=known.task
            )
            if isinstance(made.waits_for, AccountState):
                changed = _after(changed, known)
            if (kept := await self._calls.store.replace(known, changed)) is not None:
                self._calls.news.announce()
                return kept
        return await self._calls.store.add(made, each=each, total=self._total)


def _after(made: Invocation, known: Invocation) -> Invocation:
    """Return a call that waits for an account, with its earlier approval, if there is one, and not beyond the expiry of that."""
    if known.kind not in {"approval", "account"} or (known.kind == "account" and not _approved(known)):
        return made
    state = msgspec.structs.replace(made.waits_for, approval=known.approval)
    return msgspec.structs.replace(made, waits_for=state, rule=known.rule, expires=min(made.expires, known.expires))


def _approved(known: Invocation) -> bool:
    return isinstance(known.waits_for, AccountState) and known.waits_for.approval is not None
