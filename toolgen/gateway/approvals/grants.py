"""Standing approvals: an answer that counts for later calls too, for some time. Each is recorded before it counts, and so is each use."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from toolgen.audit.entry import timestamp
from toolgen.audit.log import AuditLog
from toolgen.core.errors import StateError
from toolgen.core.json_codec import decode_json, encode_json
from toolgen.gateway.approvals.approvers import counted, escalated_to, met
from toolgen.gateway.approvals.terms import GrantRequest
from toolgen.gateway.operations.kept_principals import of_party
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Call, Principal, as_asked, parties
from toolgen.model.result import Error
from toolgen.pipeline.stages.approve import Question, scope_digest
from toolgen.policy.document.policy import Policy
from toolgen.state.grants import CallGrant, Grants
from toolgen.state.invocations import ApprovalVote, Invocation, Remember

__all__ = ["MAX_EACH", "MAX_GRANTS", "ApprovalGrants", "grant_json", "remembered"]

MAX_EACH = 20
"""Maximum number of grants in force for one principal and tool."""
MAX_GRANTS = 500
_TRIES = 100
_logger = logging.getLogger(__name__)


def remembered(grant_request: GrantRequest, known: Invocation, policy: Policy) -> Remember | Error:
    """Return the grant that an approver requests within the bounds of the policy, or an error if the policy does not allow it."""
    bounds = policy.approval.remember
    if bounds is None:
        message, suggestion = "the policy lets an answer count for one call only", "approvals.remember allows more"
        return Error(code="forbidden", message=message, suggestion=suggestion)
    if grant_request.seconds is None and grant_request.calls is None and not grant_request.session:
        return Error(code="validation", message="remember: needs for, calls or session, or several of them")
    seconds = bounds.max_s if grant_request.seconds is None else grant_request.seconds
    calls = bounds.max_calls if grant_request.calls is None else grant_request.calls
    if seconds < 1 or calls < 1:
        return Error(code="validation", message="an answer is remembered for at least 1s, and 1 call")
    if seconds > bounds.max_s or calls > bounds.max_calls:
        message = f"the policy lets an answer be remembered for {bounds.max_s:g}s and {bounds.max_calls} calls at most"
        return Error(code="forbidden", message=message)
    if grant_request.any_arguments and not bounds.any_arguments:
        return Error(code="forbidden", message="the policy lets an answer count for the same arguments only")
    if grant_request.session and not known.session:
        return Error(code="validation", message="this call belongs to no session")
    return Remember(
        seconds=seconds, calls=calls, session=grant_request.session, any_arguments=grant_request.any_arguments
    )


class ApprovalGrants:
    """Approvals given in advance (call grants). `current` is the policy in force: a grant ends when the policy it depends on changes."""

    def __init__(self, *, store: Grants[CallGrant], log: AuditLog, current: CurrentPolicy) -> None:
        self.store = store
        self._log = log
        self._current = current
        self._counting = asyncio.Lock()  # so that calls of one process do not race each other

    async def give(self, known: Invocation, call: Call, terms: Remember) -> CallGrant | None:
        """Create the grant of an approved call; None if too few people agreed on the same terms, or too many grants are in force.

        Raises `AuditError` and `StateError`.
        """
        compiled_policy, now = self._current.compiled_policy, await self.store.now()
        votes = tuple(vote for vote in known.approval.votes if vote.remember == terms)
        if not met(known.approval.needs, votes, escalated_to(compiled_policy.policy, known.asked, now)):
            return None
        scope_hash = compiled_policy.scope_hash(call.principal, call.tool)
        grant = CallGrant(
            id=f"grant_{secrets.token_hex(12)}",
            group=_group(known.principal.id, known.tool),
            created=now,
            expires=now + terms.seconds,
            principal=known.principal,
            tool=known.tool,
            effect=known.effect,
            tool_digest=known.tool_digest,
            scope=scope_digest(call.principal, call.tool, scope_hash),
            digest="" if terms.any_arguments else known.digest,
            asked_by=known.approval.asked_by,
            arguments={}
            if terms.any_arguments
            else decode_json(encode_json(compiled_policy.concealing.arguments(call))),
            session=known.session if terms.session else "",
            calls=terms.calls,
            needs=known.approval.needs,
            votes=votes,
            call_id=known.id,
        )
        await self._record(grant, "grant", by=votes[-1].by, status="ok")
        if await self.store.add(grant, each=MAX_EACH, total=MAX_GRANTS):
            return grant
        await self._record(grant, "grant_end", by="", status="refused", code="rate_limited")
        return None

    async def use(self, question: Question) -> bool:
        """Return True if a grant covers a call; the use is counted and written to the audit log. Raises `AuditError`.

        If grants cannot be read, no grant applies and approval is required.
        """
        try:
            used = await self._found(question)
        except StateError as fault:
            _logger.error("grants cannot be read: %s", fault)  # noqa: TRY400 - it says all there is
            return False
        if used is not None:
            await self._record_use(used, question)
        return used is not None

    async def _found(self, question: Question) -> CallGrant | None:
        """Return the grant that covers a call, with the call counted."""
        call = question.call
        async with self._counting:
            for grant in await self.store.of(_group(call.principal.id, call.tool.name)):
                if (used := await self._count(grant, question)) is not None:
                    return used
        return None

    async def _count(self, grant: CallGrant, question: Question) -> CallGrant | None:
        """Return the grant with this call counted, or None if it does not cover it. Of concurrent uses of the last one, one succeeds."""
        known: CallGrant | None = grant
        for _ in range(_TRIES):
            if known is None or known.ended or known.used >= known.calls:
                return None
            if not self._stands(known):
                await self._end(known, by="", code="expired")
                return None
            if not self._covers(known, question):
                return None
            used = known.used + 1
            over = await self.store.now() if used >= known.calls else 0.0
            counted_one = await self.store.replace(known, msgspec.structs.replace(known, used=used, ended=over))
            if counted_one is not None:
                return counted_one
            known = await self.store.get(grant.id)
        return None

    def _covers(self, grant: CallGrant, question: Question) -> bool:
        policy, call = self._current.compiled_policy.policy, question.call
        return (
            grant.scope == question.scope
            and grant.digest in {"", question.digest}
            and grant.session in {"", call.session}
            and set(question.asked_by) <= set(grant.asked_by)
            and met(question.needs, counted(policy, grant.votes), policy.approval.escalate_to)
        )

    def _stands(self, grant: CallGrant) -> bool:
        """Return True if policy, tool and principal are unchanged since the grant was given."""
        compiled_policy, asked = self._current.compiled_policy, of_party(grant.principal)
        found, tool = compiled_policy.identity.current(asked, grant.created), compiled_policy.tool(grant.tool)
        if found is None or tool is None or compiled_policy.policy.approval.remember is None:
            return False
        principal = as_asked(found, asked)
        return scope_digest(principal, tool, compiled_policy.scope_hash(principal, tool)) == grant.scope

    async def listed(self, principal: Principal | None) -> tuple[CallGrant, ...]:
        """Return the valid grants that a principal may end; with None all valid ones."""
        found = await self.store.all()
        return tuple(one for one in found if self._stands(one) and (principal is None or self._may_end(principal, one)))

    async def end(self, grant_id: str, principal: Principal) -> CallGrant | Error:
        """End a grant, for every gateway at once, after it was recorded. A refusal is recorded too, and has no effect.

        Raises `AuditError` and `StateError`.
        """
        error = Error(code="not_found", message="no grant with this id is in force")
        for _ in range(_TRIES):
            known = await self.store.get(grant_id)
            if known is not None and not self._may_end(principal, known):
                error = Error(code="forbidden", message="this principal may not end this grant")
                break
            if known is None or known.ended:
                break
            if (ended := await self._end(known, by=principal.id, code="cancelled")) is not None:
                return ended
        shown = grant_id.encode("ascii", "replace").decode()[:128]
        said = {"event": "refusal", "status": "refused", "code": error.code, "principal": principal.id}
        await self._log.append({**said, "arguments": {"id": shown}})
        return error

    def _may_end(self, principal: Principal, grant: CallGrant) -> bool:
        """Return True if a principal may end a grant, in its own name: it approved it, or could have, and the grant is not for its own
        calls."""
        compiled_policy = self._current.compiled_policy
        if principal.on_behalf_of is not None:
            return False
        if any(vote.by == principal.id for vote in grant.votes):
            return True
        named = {role for need in grant.needs for role in need.roles} | compiled_policy.policy.approval.escalate_to
        return not named.isdisjoint(principal.roles) and not compiled_policy.identity.concerns(
            principal.id, parties(of_party(grant.principal))
        )

    async def _end(self, known: CallGrant, *, by: str, code: str) -> CallGrant | None:
        await self._record(known, "grant_end", by=by, status="ok", code=code)
        ended = msgspec.structs.replace(known, ended=await self.store.now(), ended_by=by)
        return await self.store.replace(known, ended)

    async def _record(self, grant: CallGrant, event: str, *, by: str, status: str, code: str = "") -> None:
        """Write to the audit log that a grant begins (`grant`) or ends early (`grant_end`)."""
        entry = {
            "event": event,
            "call_id": grant.call_id,
            "principal": by,
            "tool": grant.tool,
            "tool_digest": grant.tool_digest,
            "policy_digest": self._current.compiled_policy.policy.digest,
            "status": status,
            "code": code,
            "arguments": {"grant": grant_json(grant)},
        }
        await self._log.append(entry)

    async def _record_use(self, grant: CallGrant, question: Question) -> None:
        """Record that a call runs by a grant, and who gave it."""
        by = people(grant.votes)
        entry = {
            "event": "decision",
            "call_id": question.call.id,
            "principal": by[-1],
            "tool": grant.tool,
            "tool_digest": grant.tool_digest,
            "policy_digest": question.policy_digest,
            "verdict": "approve",
            "rule": question.rule,
            "arguments": {"grant": grant.id, "approvers": by, "used": grant.used},
        }
        await self._log.append(entry)


def grant_json(grant: CallGrant) -> dict[str, Any]:
    """Return a grant in its listed and recorded form. Times are RFC 3339."""
    user = grant.principal.on_behalf_of
    shown: dict[str, Any] = {
        "kind": "approval",
        "id": grant.id,
        "principal": grant.principal.id,
        "on_behalf_of": "" if user is None else user.id,
        "tool": grant.tool,
        "effect": grant.effect,
        "any_arguments": not grant.digest,
        "arguments": grant.arguments if grant.digest else "",
        "session": grant.session,
        "calls": grant.calls,
        "used": grant.used,
        "rules": list(grant.asked_by),
        "approvers": people(grant.votes),
        "call_id": grant.call_id,
        "created": timestamp(grant.created),
        "expires": timestamp(grant.expires),
    }
    return {name: value for name, value in shown.items() if value not in ("", [])}


def people(votes: Sequence[ApprovalVote]) -> list[str]:
    """Return the people who approved."""
    return [vote.by for vote in votes]


def _group(principal: str, tool: str) -> str:
    return f"{principal}\n{tool}"
