"""JSON of waiting calls for approvers: the caller, the tool, and the arguments and the request as they would be sent, both also as rows."""

from __future__ import annotations

from collections.abc import Iterable

from toolgen.audit.entry import timestamp
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.approvals.view import rows_json
from toolgen.gateway.operations.call_rows import in_schema_order
from toolgen.state.invocations import Invocation

__all__ = ["listed"]


async def listed(approvals: Approvals, found: Iterable[Invocation]) -> list[dict[str, object]]:
    """Return the calls as approvers see them, each with `request` or `refusal`, and `rows`. Times are RFC 3339."""
    return [await _approval_json(approvals, known) for known in found]


async def _approval_json(approvals: Approvals, known: Invocation) -> dict[str, object]:
    party, shown = known.principal.on_behalf_of, await approvals.shown_to_approver(known)
    tool = approvals.current.compiled_policy.tool(known.tool)
    found: dict[str, object] = {
        "id": known.id,
        "principal": known.principal.id,
        "on_behalf_of": "" if party is None else party.id,
        "tool": known.tool,
        "effect": known.effect,
        "arguments": in_schema_order(known.arguments, None if tool is None else tool.input_schema),
        "original": known.approval.original or "",
        "edited_by": known.approval.edited_by,
        "sql": known.approval.sql,
        "rule": known.rule,
        "digest": known.digest,
        "needs": [{"roles": list(need.roles), "people": need.quorum} for need in known.approval.needs],
        "agreed": [vote.by for vote in known.approval.votes],
        "asked": timestamp(known.asked),
        "expires": timestamp(known.expires),
        "session": known.session,
        "client": known.client,
        "parent": known.parent,
        **shown.sends,
        "shown": shown.digest,
        "rows": {"arguments": rows_json(shown.arguments)}
        | ({"request": rows_json(shown.request)} if shown.request else {}),
    }
    return {name: value for name, value in found.items() if value not in ("", [])}
