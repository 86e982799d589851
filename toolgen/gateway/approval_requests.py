"""What an approver is shown of a call that waits: who asks for what, with which arguments, and the request as it would be sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from toolgen.audit.entry import timestamp
from toolgen.gateway.approvals import Approvals
from toolgen.gateway.compiled_policy import Governance
from toolgen.model.result import Cancelled, Failed, Pending, Refused, Success
from toolgen.pipeline.middleware import Trail
from toolgen.state.invocations import Invocation

__all__ = ["approval_json", "listed", "request_of"]


def approval_json(known: Invocation) -> dict[str, object]:
    """A call as it was asked for. Times are RFC 3339."""
    party = known.principal.on_behalf_of
    shown: dict[str, object] = {
        "id": known.id,
        "principal": known.principal.id,
        "on_behalf_of": "" if party is None else party.id,
        "tool": known.tool,
        "effect": known.effect,
        "arguments": known.arguments,
        "original": known.original or "",
        "edited_by": known.edited_by,
        "sql": known.sql,
        "rule": known.rule,
        "digest": known.digest,
        "needs": [{"roles": list(need.roles), "people": need.quorum} for need in known.needs],
        "agreed": [vote.by for vote in known.votes],
        "asked": timestamp(known.asked),
        "expires": timestamp(known.expires),
        "session": known.session,
        "client": known.client,
        "parent": known.parent,
    }
    return {name: value for name, value in shown.items() if value not in ("", [])}


async def listed(approvals: Approvals, found: Iterable[Invocation]) -> list[dict[str, object]]:
    """Calls as an approver is shown them: each as `approval_json`, with what `request_of` says."""
    governance = approvals.current.governance
    return [approval_json(item) | await request_of(approvals, item, governance) for item in found]


async def request_of(approvals: Approvals, known: Invocation, governance: Governance) -> dict[str, object]:
    """`request`: what the call would send now, secrets masked, made as a dry run makes it. `refusal` where it would not be sent.

    Nothing is sent, counted or recorded.
    """
    call = approvals.call(known, governance)
    if call is None:
        return {"refusal": {"code": "expired", "message": "the policy, the tool or the caller has changed since"}}
    result = await governance.would_send(call, Trail())
    match result:
        case Success(data=data):
            return {"request": data}
        case Failed(error=error) | Refused(error=error) | Cancelled(error=error) | Pending(error=error):
            return {"refusal": {"code": error.code, "message": error.message}}
        case _:
            assert_never(result)
