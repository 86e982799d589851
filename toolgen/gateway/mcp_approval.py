"""Calls that wait for approval, put to the person at the caller's own MCP client as a form, where the policy lets that person answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolgen.canonical import encodable
from toolgen.gateway.approvals import Approvals
from toolgen.model.call import Principal
from toolgen.model.schema import JsonObject
from toolgen.state.invocations import Invocation

__all__ = ["APPROVAL", "form_of", "said"]

APPROVAL = "approval"
LONGEST_SHOWN = 16_384
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


def form_of(known: Invocation) -> JsonObject | None:
    """The parameters of an elicitation about exactly this call; None where a person could not read it whole."""
    written = _visible(msgspec.json.format(msgspec.json.encode(encodable(known.arguments)), indent=2).decode())
    if len(written) + len(known.sql) > LONGEST_SHOWN:
        return None
    parts = [f"{known.tool} ({known.effect}) is to be called with exactly these arguments:", written]
    if known.sql:
        parts.append(f"It would run:\n{_visible(known.sql)}")
    return {"message": "\n".join(parts), "requestedSchema": _SCHEMA}


async def said(approvals: Approvals, call_id: str, answer: Mapping[str, Any] | None, principal: Principal) -> None:
    """Takes the answer: approved, denied, or neither, which withdraws the call. Raises `AuditError` and `StateError`."""
    action = answer.get("action") if answer is not None else None
    content = answer.get("content") if answer is not None else None
    if action == "accept" and isinstance(content, Mapping) and isinstance(content.get("approve"), bool):
        await approvals.agree(call_id, approve=content["approve"], caller=principal)
    elif action == "decline":
        await approvals.agree(call_id, approve=False, caller=principal)
    else:
        await approvals.cancel(call_id, principal)


def _visible(text: str) -> str:
    """The text with nothing in it that a person would not see, or see in another place than it stands."""
    return "".join(sign if sign.isprintable() or sign == "\n" else f"\\u{ord(sign):04x}" for sign in text)
