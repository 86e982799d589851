"""Decisions about calls that wait for a person: who may decide, and when a decision counts. It is recorded before it takes effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from toolgen.gateway.approvals.approvers import (
    answerable,
    counted,
    escalated_to,
    in_words,
    may_ever_answer,
    met,
    open_roles,
)
from toolgen.gateway.approvals.grants import ApprovalGrants, remembered
from toolgen.gateway.approvals.terms import AS_ASKED, DecisionOptions, edited, too_late
from toolgen.gateway.approvals.validity import expiry_reason, is_expired, kept_call
from toolgen.gateway.approvals.view import ApprovalView, shown_to_approver, shown_to_caller
from toolgen.gateway.calls.departed_clients import DepartedClients
from toolgen.gateway.operations.background_calls import BackgroundCalls
from toolgen.gateway.operations.kept_principals import of_party
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Principal, parties
from toolgen.model.reason import reason_in
from toolgen.model.result import Error
from toolgen.pipeline.stages.approve import elicitable
from toolgen.state.invocations import ApprovalVote, Invocation, Remember, with_approval

__all__ = ["Approvals"]

_TRIES = 40
_AGAIN_S = 0.05
_AT_CLIENT = DecisionOptions(channel="mcp")
_UNANSWERED = Error(
    code="cancelled",
    message="a person has to approve this call; the person at the client was asked and gave no answer, and the policy lists no approvers",
    suggestion="make it again if the user wants it; a reviewer can list approvers under approvals: in the policy",
)
Found = TypeVar("Found")


class Approvals:
    """Decisions of people about calls that wait for them, and everything else that front ends need of stored calls.

    `current` is the policy in force: an answer counts only under the policy it was asked under. `calls` are the stored calls of every kind,
    `background` those that continue without their callers, and `grants` the answers that count for later calls. `departed` are clients that
    disconnected before they were answered.
    """

    def __init__(
        self,
        *,
        calls: WaitingCalls,
        current: CurrentPolicy,
        grants: ApprovalGrants,
        background: BackgroundCalls,
        departed: DepartedClients,
    ) -> None:
        self.calls, self.current, self.grants = calls, current, grants
        self.background, self.departed = background, departed

    def may_answer(self, principal: Principal) -> bool:
        """Return True if a principal may decide about calls of others, which needs a role and no delegation."""
        return may_ever_answer(self.current.compiled_policy.policy, principal)

    async def answerable(
        self, principal: Principal, waiting: tuple[Invocation, ...] | None = None
    ) -> tuple[Invocation, ...]:
        """Return the calls that this principal may answer, the oldest first; those of `waiting` if given."""
        if not self.may_answer(principal):
            return ()
        found, now = await self.waiting() if waiting is None else waiting, await self.calls.store.now()
        return tuple(
            item for item in found if self._roles(principal, item, now) and not self._concerned(principal, item)
        )

    async def waiting(self) -> tuple[Invocation, ...]:
        """Return all calls that wait for an answer, the oldest first, for those who may review them."""
        found, now = await self.calls.store.unfinished(), await self.calls.store.now()
        return tuple(item for item in found if item.status == "pending" and not is_expired(item, now))

    async def decide(
        self,
        call_id: str,
        *,
        approve: bool,
        note: str,
        principal: Principal,
        terms: DecisionOptions = AS_ASKED,
    ) -> Invocation | Error:
        """Answer for a call, with `terms`. A denial ends it, and so does a change since it was requested; it is approved once enough people
        agreed. The audit log has the channel of the answer and digests of the displayed request. A refused answer is recorded, and has no
        effect.

        Raises `AuditError` if the answer cannot be recorded (then it has no effect), and `StateError`.
        """
        known, note = await self.calls.current_of(call_id), reason_in(note)
        if not may_ever_answer(self.current.compiled_policy.policy, principal):
            found: Invocation | Error = Error(
                code="forbidden",
                message="this principal may not answer for the calls of others",
                suggestion="approvals.approvers in the policy names the roles that may; answer in your own name",
            )
        elif known is None or (known.kind != "approval" and not known.approval.votes):
            found = Error(code="not_found", message="no call with this id waits for an answer")
        elif self._concerned(principal, known):
            found = Error(code="forbidden", message="you cannot answer for your own call, or one made for you")
        elif not (roles := self._roles(principal, known, await self.calls.store.now())) and known.status == "pending":
            found = Error(code="forbidden", message=f"this call takes {in_words(known.approval.needs)}")
        elif known.kind != "approval":  # approved before, and it waits for its user's device now
            found = Error(code="conflict", message="this call does not wait for an answer any more")
        elif not approve and (terms.arguments is not None or terms.remember is not None):
            found = Error(
                code="validation", message="a denial has no other arguments, and does not count for later calls"
            )
        elif approve:
            found = await self._approve(known, ApprovalVote(by=principal.id, roles=roles, at=0.0), note, terms)
        else:
            found = await self._deny(known, note=note, by=principal.id, terms=terms)
        if isinstance(found, Error):
            await self._note_refused(call_id, principal, known, found)
        return found

    async def agree(self, call_id: str, *, approve: bool, caller: Principal) -> Invocation | Error:
        """Accept the answer of the person at the caller's own client, if the policy permits it. Raises the errors of `decide`."""
        known = await self.calls.own(call_id, caller)
        if known is None:
            return Error(code="not_found", message="no call with this id waits for an answer")
        if not self.may_elicit(known):
            return Error(code="forbidden", message="the policy accepts no answers from the person at a caller's client")
        note = "asked at the caller's client"
        if not approve:
            return await self._deny(known, note=note, by=caller.id, terms=_AT_CLIENT)
        return await self._approve(known, ApprovalVote(by=caller.id, roles=(), at=0.0), note, _AT_CLIENT)

    async def leave_to_approvers(self, call_id: str, caller: Principal) -> None:
        """Note that the person at the caller's own client gave no answer. The call waits for the approvers; without approvers it ends.
        Raises the errors of `decide`."""
        known = await self.calls.own(call_id, caller)
        if known is None or known.kind != "approval":
            return
        if answerable(self.current.compiled_policy.policy, parties(of_party(known.principal)), known.approval.needs):
            await self._in_turn(known, self._left_unanswered)
        else:
            error = msgspec.structs.replace(_UNANSWERED, rule=known.rule)
            await self._in_turn(known, lambda one: self.calls.close(one, by="", verdict="cancel", error=error))

    async def _left_unanswered(self, known: Invocation) -> Invocation | None:
        kept = await self.calls.store.replace(known, with_approval(known, unanswered=True))
        self.calls.news.announce(known.id)
        return kept

    def may_elicit(self, known: Invocation) -> bool:
        """Return True if the person at the caller's own client may decide: no rule requires other or several people."""
        return self.current.compiled_policy.policy.approval.elicits and elicitable(known.approval.needs)

    def shown_to_caller(self, known: Invocation) -> ApprovalView | None:
        """Return a waiting call for the person at its caller's own client; None if that person may not answer, gave no answer before,
        or could not judge it because an approver changed it."""
        if (
            known.kind != "approval"
            or known.status != "pending"
            or known.approval.original is not None
            or known.approval.unanswered
            or not self.may_elicit(known)
        ):
            return None
        compiled_policy = self.current.compiled_policy
        return shown_to_caller(known, kept_call(known, compiled_policy), compiled_policy)

    async def shown_to_approver(self, known: Invocation) -> ApprovalView:
        """Return a waiting call as its approvers see it."""
        compiled_policy = self.current.compiled_policy
        return await shown_to_approver(known, kept_call(known, compiled_policy), compiled_policy)

    async def _answered(self, known: Invocation, note: str, terms: DecisionOptions) -> dict[str, object] | Error:
        """Return the note, the channel and the displayed request for the record; an error if the approver saw another request."""
        if terms.channel == "mcp":
            shown = self.shown_to_caller(known) or ApprovalView(arguments=())
        else:
            shown = await self.shown_to_approver(known)
        if terms.shown and terms.shown != shown.digest:
            message = "the request has changed since you were shown it"
            return Error(code="conflict", message=message, suggestion="look at it again")
        said = {"note": note, "channel": terms.channel, "shown": dict(shown.recorded)}
        return {name: item for name, item in said.items() if item}

    async def _deny(self, known: Invocation, *, note: str, by: str, terms: DecisionOptions) -> Invocation | Error:
        if (over := await self._over(known)) is not None:
            return over
        said = await self._answered(known, note, terms)
        if isinstance(said, Error):
            return said
        message = f"a person denied this call: {note}" if note else "a person denied this call"
        suggestion = "do not make it again unless you are told to"
        error = Error(code="approval_denied", message=message, suggestion=suggestion, rule=known.rule)
        closed = await self._in_turn(
            known, lambda one: self.calls.close(one, by=by, verdict="deny", error=error, said=said)
        )
        return closed or too_late(await self.calls.current_of(known.id) or known)

    async def _over(self, known: Invocation) -> Error | None:
        """Return the reason why answers for a call do not count any more; a stale call ends here."""
        if known.kind != "approval" or known.status != "pending":
            return too_late(known)
        if reason := expiry_reason(known, await self.calls.store.now(), self.current.compiled_policy):
            error = Error(code="expired", message=reason, rule=known.rule)
            await self.calls.close(known, by="", verdict="expire", error=error)
            return Error(code="expired", message=reason)
        return None

    async def _approve(
        self, known: Invocation, vote: ApprovalVote, note: str, terms: DecisionOptions
    ) -> Invocation | Error:
        if (over := await self._over(known)) is not None:
            return over
        if terms.digest and terms.digest != known.digest:
            return Error(
                code="conflict", message="the call has changed since you were shown it", suggestion="look at it again"
            )
        if known.approval.original is not None and not terms.digest:
            suggestion = "read it again, and answer with its digest"
            return Error(
                code="conflict",
                message="an approver changed its arguments after the request",
                suggestion=suggestion,
            )
        said = await self._answered(known, note, terms)
        if isinstance(said, Error):
            return said
        vote = replace(vote, note="" if terms is _AT_CLIENT else note)
        if terms.remember is not None:
            remember = remembered(terms.remember, known, self.current.compiled_policy.policy)
            if isinstance(remember, Error):
                return remember
            vote = msgspec.structs.replace(vote, remember=remember)
        wanted = known
        if terms.arguments is not None:
            changed = await edited(known, terms.arguments, self.current.compiled_policy, by=vote.by)
            if isinstance(changed, Error):
                return changed
            wanted = changed

        async def agree(kept: Invocation) -> Invocation | Error | None:
            return (
                too_late(kept) if kept.digest != known.digest else await self._agreed(kept, wanted, vote, said, terms)
            )

        done: Invocation | Error | None = await self._in_turn(known, agree)
        return done or too_late(await self.calls.current_of(known.id) or known)

    async def _agreed(
        self,
        kept: Invocation,
        wanted: Invocation,
        vote: ApprovalVote,
        answered: Mapping[str, object],
        terms: DecisionOptions,
    ) -> Invocation | Error | None:
        """Count one approval of a call as it is `wanted`; None if another process was faster. `kept` is the stored call."""
        compiled_policy = self.current.compiled_policy
        votes = () if terms.arguments is not None else counted(compiled_policy.policy, kept.approval.votes)
        if compiled_policy.identity.concerns(vote.by, [one.by for one in votes]):
            return Error(
                code="conflict", message="you have answered for this call already; another person has to answer"
            )
        held = await self.calls.hold_current(kept)
        if held is None:
            return None
        now = await self.calls.store.now()
        votes = (*votes, msgspec.structs.replace(vote, at=now))
        # A vote without a role is from the person at the caller's own client, whose answer is sufficient.
        enough = not vote.roles or met(
            wanted.approval.needs, votes, escalated_to(compiled_policy.policy, kept.asked, now)
        )
        agreed = msgspec.structs.replace(
            held,
            arguments=wanted.arguments,
            bound=wanted.bound,
            digest=wanted.digest,
            status="approved" if enough else "pending",
            lease=0.0,
        )
        agreed = with_approval(
            agreed,
            sql=wanted.approval.sql,
            needs=wanted.approval.needs,
            original=wanted.approval.original,
            edited_by=wanted.approval.edited_by,
            votes=votes,
        )
        said = {**answered, **self._said(agreed, terms, enough=enough)}
        await self.calls.record(held, by=vote.by, verdict="approve", said=said)
        done = await self.calls.store.replace(held, agreed)
        self.calls.news.announce()
        if done is not None and enough and vote.remember is not None:
            return await self._granted(done, vote.remember)
        return done

    async def _granted(self, known: Invocation, terms: Remember) -> Invocation:
        """Return the approved call with its grant, if enough people agreed on the same terms."""
        call = kept_call(known, self.current.compiled_policy)
        if call is None:
            return known
        grant = await self.grants.give(known, call, terms)
        return known if grant is None else with_approval(known, grant=grant.id)

    def _said(self, known: Invocation, terms: DecisionOptions, *, enough: bool) -> dict[str, object]:
        """Return the details of an approval for the audit log: number of votes, and edited arguments."""
        said: dict[str, object] = {}
        if sum(need.quorum for need in known.approval.needs) > 1:
            said |= {"votes": len(known.approval.votes), "enough": enough}
        if known.approval.votes[-1].remember is not None:
            said["remember"] = msgspec.to_builtins(known.approval.votes[-1].remember)
        if terms.arguments is not None:
            call = kept_call(known, self.current.compiled_policy)
            said["edited"] = {} if call is None else self.current.compiled_policy.concealing.arguments(call)
        return said

    async def _in_turn(self, known: Invocation, work: Callable[[Invocation], Awaitable[Found | None]]) -> Found | None:
        """Run `work` with the stored call. Retry for a while if another answer is being stored."""
        for _ in range(_TRIES):
            now_kept = await self.calls.current_of(known.id)
            if now_kept is None or now_kept.status != "pending":
                return None
            found = await work(now_kept)
            if found is not None:
                return found
            await self.calls.news.changed(_AGAIN_S)
        return None

    def _roles(self, principal: Principal, known: Invocation, now: float) -> tuple[str, ...]:
        """Return the roles of a principal in which it may answer for a call."""
        return tuple(sorted(principal.roles & open_roles(self.current.compiled_policy.policy, known, now)))

    async def _note_refused(self, call_id: str, principal: Principal, known: Invocation | None, error: Error) -> None:
        """Record a refused answer. The id of an unknown call is recorded up to 128 characters."""
        named = {"call_id": known.id, "tool": known.tool} if known is not None else {}
        shown = {} if known is not None else {"arguments": {"id": call_id.encode("ascii", "replace").decode()[:128]}}
        entry = {"event": "refusal", "status": "refused", "code": error.code, "principal": principal.id}
        await self.calls.log.append(entry | named | shown)

    def _concerned(self, principal: Principal, known: Invocation) -> bool:
        """Return True if the call was made by or for this principal, under any of its identities."""
        return self.current.compiled_policy.identity.concerns(principal.id, parties(of_party(known.principal)))
