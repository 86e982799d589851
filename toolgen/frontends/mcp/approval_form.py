"""Form for a call that waits for approval, put to the person at the caller's own MCP client where the policy lets that person answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.operations.call_rows import isolated
from toolgen.model.call import Principal
from toolgen.model.schema import JsonObject
from toolgen.state.invocations import Invocation

__all__ = ["APPROVAL", "form_of", "said"]

APPROVAL = "approval"
MAX_SHOWN_LENGTH = 16_384
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Approve",
            "description": "Whether this call may be made, exactly as shown",
        }
    },
    "required": ["approve"],
}


def form_of(known: Invocation, approvals: Approvals) -> JsonObject | None:
    """The parameters of an elicitation about exactly this call, as its caller knows it; None where the person at the caller's client may
    not answer, or could not read the call whole. Each long value stands whole below the others."""
    shown = approvals.shown_to_caller(known)
    if shown is None:
        return None
    lines = [f"{known.tool} ({known.effect}) is to be called with exactly these arguments:"]
    for row in shown.arguments:
        about = [row.about, "whole below"] if row.whole else [row.about]
        lines.append(_line(row.label, row.text, "; ".join(part for part in about if part)))
    if not shown.arguments:
        lines.append("none")
    lines += [f"\nThe whole of {isolated(row.name)}:\n{isolated(row.whole)}" for row in shown.arguments if row.whole]
    message = "\n".join(lines)
    return {"message": message, "requestedSchema": _SCHEMA} if len(message) <= MAX_SHOWN_LENGTH else None


def _line(name: str, text: str, about: str) -> str:
    return f"{isolated(name)} = {isolated(text)}" + (f" ({about})" if about else "")


async def said(approvals: Approvals, call_id: str, answer: Mapping[str, Any] | None, principal: Principal) -> None:
    """Take the answer: approved or denied. An error, a form that was closed, or anything else is no answer, and leaves the call to the
    approvers. Raises `AuditError` and `StateError`."""
    action = answer.get("action") if answer is not None else None
    content = answer.get("content") if answer is not None else None
    if action == "accept" and isinstance(content, Mapping) and isinstance(content.get("approve"), bool):
        await approvals.agree(call_id, approve=content["approve"], caller=principal)
    elif action == "decline":
        await approvals.agree(call_id, approve=False, caller=principal)
    else:
        await approvals.leave_to_approvers(call_id, principal)
