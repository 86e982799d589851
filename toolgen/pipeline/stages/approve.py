"""Approval stage: which people have to approve a call, how many, and the digest that binds their answer to exactly this call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from toolgen.core.canonical import digest, encodable
from toolgen.core.errors import AuditError
from toolgen.model.call import Call, Principal
from toolgen.model.caller_requests import REQUEST_CAPABILITIES
from toolgen.model.result import Cancelled, Error, Refused, Result
from toolgen.model.tool import Tool
from toolgen.model.verdict import Consent
from toolgen.pipeline.call_plan import Prepared, PreparedStage, unasked
from toolgen.pipeline.middleware import CallContext, CallerConnection, Judged
from toolgen.pipeline.stages.broken_off import UNAVAILABLE
from toolgen.state.invocations import Requirement

__all__ = [
    "STALE",
    "ApprovalQueue",
    "ApproveStage",
    "Question",
    "approval_digest",
    "asking_rules",
    "elicitable",
    "given_approval",
    "needs_of",
    "party_digested",
    "scope_digest",
    "stale",
    "without_approval",
]

STALE = "the policy, the tool or the caller has changed since the call was asked for; make the call again"

_UNASKED = "unasked "


class Question(Struct, frozen=True, kw_only=True):
    """Question to people: may this call be made? An answer is bound to `digest` and is valid for `expires_s` seconds.

    `rule` is the rule that requires approval, `asked_by` are all such rules, `sql` is the statement that would run, or "" for other calls.
    All of `needs` have to be met. `scope` is `digest` without the arguments. `answerable` are the kinds of requests that the client answers
    while the call runs after that.
    """

    call: Call
    digest: str
    policy_digest: str
    needs: tuple[Requirement, ...]
    expires_s: float
    rule: str
    sql: str
    asked_by: tuple[str, ...] = ()
    scope: str = ""
    answerable: tuple[str, ...] = ()


class ApprovalQueue(Protocol):
    """Queue of approval questions. It stores a call and returns its answer, which is `Pending` if a person will look at it.

    A protocol, because the gateway implements it, which the pipeline must not import.
    """

    async def ask(self, question: Question) -> Result: ...

    async def granted(self, question: Question) -> bool:
        """Return True if a standing approval covers the call; the use is then counted and recorded. Raises `AuditError`."""
        ...


async def _unchecked(_: Call) -> Error | None:
    return None


class ApproveStage(Struct, frozen=True, kw_only=True):
    """Approval stage. A call passes if no rule asks, or if it has an approval for exactly this call; otherwise the approvers are asked.

    `roles` and `quorum` are those of the policy, for rules without their own. `answerable` returns True if enough people could answer for a
    caller; the caller and the user it acts for do not count. With too few, the call is cancelled. `exchanged` returns True if a call is
    made upstream with its caller's own token: no token is stored while a call waits, so such a call could not be made after its approval,
    and is refused. `scope_hash` is the digest of what the policy says about calls of a principal to a tool; `policy_digest` is that of the
    whole policy, for the audit log. `check` returns the error of a call before people are asked to approve it.
    """

    policy_digest: str
    scope_hash: Callable[[Principal, Tool], str]
    roles: frozenset[str]
    expires_s: float
    answerable: Callable[[Principal, Sequence[Requirement]], bool]
    exchanged: Callable[[Call], bool]
    approvals: ApprovalQueue
    check: Callable[[Call], Awaitable[Error | None]] = _unchecked
    elicits: bool = False
    quorum: int = 1
    remembers: bool = False

    def __call__(self, call: Call, call_context: CallContext) -> Judged | Coroutine[Any, Any, Judged]:
        return self._asked(call, call_context) if call_context.verdict == "ask" else call

    def prepared(self, _tool: Tool) -> Prepared:
        """Return a step that passes a call if no rule asks about it."""
        return PreparedStage(unasked)

    async def _asked(self, call: Call, call_context: CallContext) -> Judged:
        scope_hash = self.scope_hash(call.principal, call.tool)
        asked = approval_digest(call, scope_hash)
        if call.approval:
            return call if call.approval == asked else stale(call_context)
        if self.exchanged(call):
            return _unkept_token(call_context)
        needs = needs_of(call_context.consents, self.roles, self.quorum)
        question = Question(
            call=call,
            digest=asked,
            policy_digest=self.policy_digest,
            needs=needs,
            expires_s=self.expires_s,
            rule=call_context.rule,
            sql=call_context.sql,
            asked_by=asking_rules(call_context),
            scope=scope_digest(call.principal, call.tool, scope_hash) if self.remembers else "",
            answerable=self._answerable_requests(call_context.caller_connection, needs),
        )
        if call_context.caller_connection.cancel_requested:
            return Cancelled(
                error=Error(code="cancelled", message="the caller cancelled this call", rule=call_context.rule)
            )
        if self.remembers:
            try:
                if await self.approvals.granted(question):
                    return call
            except AuditError:
                return UNAVAILABLE
        client = self.elicits and call_context.caller_connection.elicits and elicitable(needs)
        if not client and not self.answerable(call.principal, needs):
            return _unanswerable(call_context)
        if (fault := await self.check(call)) is not None:
            return Refused(error=fault)
        return await self.approvals.ask(question)

    def _answerable_requests(self, connection: CallerConnection, needs: Sequence[Requirement]) -> tuple[str, ...]:
        """Return the kinds of requests that the client answers after the call waited, because it returns for the call or its person is
        asked to approve."""
        asked = self.elicits and connection.elicits and elicitable(needs)
        if connection.line is None or not (asked or connection.returns):
            return ()
        return tuple(sorted(connection.line.capabilities.intersection(REQUEST_CAPABILITIES)))

    def dry_run(self, call: Call, call_context: CallContext) -> Judged:
        """Judge a dry run without asking people; the result shows the question that people would be asked."""
        call_context.judged = call
        if call_context.verdict != "ask":
            return call
        if self.exchanged(call):
            return _unkept_token(call_context)
        if not self.answerable(call.principal, needs_of(call_context.consents, self.roles, self.quorum)):
            return _unanswerable(call_context)
        return call


def needs_of(consents: Sequence[Consent], roles: frozenset[str], quorum: int) -> tuple[Requirement, ...]:
    """Return the required approvals: each rule's own approvers, or those of the policy. Equal groups of approvers are asked once."""
    found: dict[tuple[str, ...], Requirement] = {}
    for consent in consents or (Consent(rule=""),):
        who = tuple(sorted(consent.roles or roles))
        need = Requirement(roles=who, quorum=consent.quorum or quorum, own=bool(consent.roles))
        known = found.get(who)
        found[who] = need if known is None or known.quorum < need.quorum else known
    return tuple(found[who] for who in sorted(found))


def asking_rules(call_context: CallContext) -> tuple[str, ...]:
    """Return the names of all rules that require approval, in order."""
    return tuple(sorted({call_context.rule, *(consent.rule for consent in call_context.consents)} - {""}))


def elicitable(needs: Sequence[Requirement]) -> bool:
    """Return True if the person at the caller's own client could approve alone: no rule names other people or several of them."""
    return len(needs) == 1 and needs[0].quorum == 1 and not needs[0].own


def approval_digest(call: Call, scope_hash: str) -> str:
    """Return `sha256:…` over everything an approval is bound to.

    That is the caller and its user, with the claims and mapping that identify them, the version of the tool, the arguments, and what the
    policy says about such a call (`scope_hash`, a digest).
    """
    return digest(
        {
            "principal": party_digested(call.principal),
            "tool": call.tool.name,
            "tool_digest": call.tool.digest,
            "policy_digest": scope_hash,
            "arguments": encodable(call.arguments),
        }
    )


def without_approval(call_digest: str) -> str:
    """Return the mark (`Call.approval`) of a call that is made again without an approval: if a rule asks by then, the call is refused."""
    return f"{_UNASKED}{call_digest}"


def given_approval(call: Call) -> str:
    """Return the digest that people approved for a call that is made again; "" if nobody was asked."""
    return "" if call.approval.startswith(_UNASKED) else call.approval


def scope_digest(principal: Principal, tool: Tool, scope_hash: str) -> str:
    """Return `sha256:…` over the same data without the arguments."""
    return digest(
        {
            "principal": party_digested(principal),
            "tool": tool.name,
            "tool_digest": tool.digest,
            "policy_digest": scope_hash,
        }
    )


def party_digested(principal: Principal | None) -> object:
    """Return the form of a caller, and of the user that it acts for, that goes into a digest."""
    if principal is None:
        return None
    origin = principal.origin
    derived = {} if origin is None else {"origin": encodable(msgspec.structs.asdict(origin))}
    return {
        "id": principal.id,
        "roles": sorted(principal.roles),
        "attributes": encodable(principal.attributes),
        "on_behalf_of": party_digested(principal.on_behalf_of),
        "toolsets": sorted(principal.toolsets),
        **({"account": principal.account} if principal.account else {}),
        **derived,
    }


def stale(call_context: CallContext) -> Refused:
    """Return the result of a call that differs from the approved one."""
    return Refused(error=Error(code="expired", message=STALE, rule=call_context.rule))


def _unanswerable(call_context: CallContext) -> Cancelled:
    return Cancelled(
        error=Error(
            code="cancelled",
            message="a person has to approve this call, and nobody can be asked",
            suggestion="a reviewer can allow it in the policy, or list approvers under approvals:",
            rule=call_context.rule,
        )
    )


def _unkept_token(call_context: CallContext) -> Refused:
    return Refused(
        error=Error(
            code="forbidden",
            message="a person has to approve this call, and it uses its caller's own token upstream, which is not stored while it "
            "waits; nobody was asked",
            suggestion="the author of the policy can allow it without approval, or configure a credential of the system for its callers",
            rule=call_context.rule,
        )
    )
