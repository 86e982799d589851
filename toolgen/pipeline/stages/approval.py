"""The stage where a call waits for a person who agrees to exactly it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from toolgen.canonical import digest, encodable
from toolgen.model.call import Call, Principal
from toolgen.model.result import Cancelled, Error, Refused, Result
from toolgen.model.tool import Tool
from toolgen.pipeline.middleware import Trail

__all__ = ["STALE", "ApproveStage", "Desk", "Question", "approval_digest"]

STALE = "the policy, the tool or the caller has changed since the call was asked for; make the call again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked: may this call be made? An answer is bound to `digest` and stands for `expires_s` seconds.

    `rule` is what wants it asked, `sql` the statement that would run, "" for other calls. `roles` may answer.
    """

    call: Call
    digest: str
    policy_digest: str
    roles: frozenset[str]
    expires_s: float
    rule: str
    sql: str


class Desk(Protocol):
    """Where questions are put: it keeps the call and answers for it, `Pending` when somebody will look at it."""

    async def ask(self, question: Question) -> Result: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveStage:
    """Lets a call on when no rule asks, or when it carries the approval of exactly itself; else asks those who may answer.

    `answerable` says whether anybody could answer for a caller: never itself, nor whom it acts for. With nobody it ends cancelled.
    `exchanged` says of a call that it is made upstream with its caller's own token: nobody keeps that while a call waits, so it could not
    be made once somebody agreed, and is refused. `concern` is the digest of what the policy says about calls of a principal to a tool;
    `policy_digest` of all it says, for the record.
    """

    policy_digest: str
    concern: Callable[[Principal, Tool], str]
    roles: frozenset[str]
    expires_s: float
    answerable: Callable[[Principal], bool]
    exchanged: Callable[[Call], bool]
    desk: Desk
    elicits: bool = False

    async def __call__(self, call: Call, trail: Trail) -> Call | Result:
        if trail.verdict != "ask":
            return call
        asked = approval_digest(call, self.concern(call.principal, call.tool))
        if call.approval:
            return call if call.approval == asked else _stale(trail)
        if self.exchanged(call):
            return _unkept_token(trail)
        if not (self.elicits and trail.presence.elicits) and not self.answerable(call.principal):
            return _called_off(trail)
        return await self.desk.ask(
            Question(
                call=call,
                digest=asked,
                policy_digest=self.policy_digest,
                roles=self.roles,
                expires_s=self.expires_s,
                rule=trail.rule,
                sql=trail.sql,
            )
        )

    async def rehearse(self, call: Call, trail: Trail) -> Call | Result:
        """For a dry run: nobody is asked, and what is shown is what somebody would be asked about."""
        if trail.verdict == "ask" and self.exchanged(call):
            return _unkept_token(trail)
        if trail.verdict == "ask" and not self.answerable(call.principal):
            return _called_off(trail)
        return call


def approval_digest(call: Call, concern: str) -> str:
    """`sha256:…` over everything an approval is bound to: who calls for whom, and by what claims and mapping they are that, which version
    of the tool, with what, and what the policy says about such a call (`concern`, a digest)."""
    return digest(
        {
            "principal": _party(call.principal),
            "tool": call.tool.name,
            "tool_digest": call.tool.digest,
            "policy_digest": concern,
            "arguments": encodable(call.arguments),
        }
    )


def _party(principal: Principal | None) -> object:
    if principal is None:
        return None
    origin = principal.origin
    derived = {} if origin is None else {"origin": encodable(msgspec.structs.asdict(origin))}
    return {
        "id": principal.id,
        "roles": sorted(principal.roles),
        "attributes": encodable(principal.attributes),
        "on_behalf_of": _party(principal.on_behalf_of),
        "toolsets": sorted(principal.toolsets),
        **derived,
    }


def _stale(trail: Trail) -> Refused:
    return Refused(error=Error(code="expired", message=STALE, rule=trail.rule))


def _called_off(trail: Trail) -> Cancelled:
    return Cancelled(
        error=Error(
            code="cancelled",
            message="a person would have to agree to this call, and nobody can be asked",
            suggestion="a reviewer can allow it in the policy, or name under approvals: who may agree",
            rule=trail.rule,
        )
    )


def _unkept_token(trail: Trail) -> Refused:
    return Refused(
        error=Error(
            code="forbidden",
            message="a person would have to agree to this call, and it acts upstream by its caller's own token, which is not kept while it "
            "waits; nobody was asked",
            suggestion="whoever writes the policy can allow it without approval, or give its callers a credential of the system's own",
            rule=trail.rule,
        )
    )
