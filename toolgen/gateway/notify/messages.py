"""Body of a message to a webhook: JSON of our own, or the format of Slack's incoming webhooks. For Slack, text of a caller is plain text in
a block, where mentions and links have no effect; the text for notifications is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from toolgen.audit.entry import timestamp
from toolgen.config.notify import NotifyEvent, Webhook
from toolgen.gateway.approvals.approvers import in_words
from toolgen.gateway.approvals.view import rows_json
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.notify.notice import Notice, decision_of
from toolgen.gateway.operations.call_rows import isolated
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import spelled

__all__ = ["body_of", "escaped", "plain"]

_MAX_ARGUMENTS_SIZE = 16_384
_MAX_FIELD_LENGTH = 500
_MAX_ROWS = 100
_MAX_TEXT_LENGTH = 2500
"""Maximum text: Slack accepts 2,000 characters in a field and 3,000 in a text (Block Kit, section block)."""
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_TITLES: Mapping[NotifyEvent, str] = MappingProxyType(
    {
        "approval_requested": "A call waits for approval",
        "approval_reminder": "A call still waits for approval",
        "approval_escalated": "A call waits for approval, and others may answer now",
        "approval_expired": "A call was not approved in time, or something has changed since",
        "approval_withdrawn": "A call was withdrawn by its caller",
    }
)


def body_of(webhook: Webhook, notice: Notice) -> bytes:
    """Return the JSON body for a webhook."""
    return encode(_slack(webhook, notice) if webhook.format == "slack" else _generic(webhook, notice))


def _generic(webhook: Webhook, notice: Notice) -> dict[str, Any]:
    """Return `type`, `timestamp` and `data`, as Standard Webhooks recommends."""
    return {"type": notice.event, "timestamp": timestamp(notice.at), "data": _data(webhook, notice)}


def _data(webhook: Webhook, notice: Notice) -> dict[str, Any]:
    known, user = notice.known, notice.known.principal.on_behalf_of
    decision, by = decision_of(notice)
    shown: dict[str, object] = {
        "id": known.id,
        "url": notice.url,
        "tool": known.tool,
        "effect": known.effect,
        "principal": known.principal.id,
        "on_behalf_of": "" if user is None else user.id,
        "rule": known.rule,
        "needs": [{"roles": list(need.roles), "people": need.quorum} for need in known.approval.needs],
        "escalated_to": list(notice.escalated_to) if notice.event == "approval_escalated" else [],
        "asked": timestamp(known.asked),
        "expires": timestamp(known.expires),
        "decision": decision,
        "decided_by": list(by),
        "edited_by": known.approval.edited_by if decision == "approve" else "",
        **_arguments(webhook, notice),
    }
    return {name: value for name, value in shown.items() if value not in ("", [])}


def _arguments(webhook: Webhook, notice: Notice) -> dict[str, object]:
    if not webhook.arguments or notice.arguments is None:
        return {}
    left_out = len(notice.rows) - _MAX_ROWS
    more: dict[str, object] = {"rows_omitted": left_out} if left_out > 0 else {}
    if len(encode(notice.arguments)) > _MAX_ARGUMENTS_SIZE:
        rows = tuple(replace(row, text="", whole="") if row.whole else row for row in notice.rows[:_MAX_ROWS])
        return {"arguments_omitted": "they are too long for a message", "rows": rows_json(rows), **more}
    rows = tuple(replace(row, whole="") for row in notice.rows[:_MAX_ROWS])
    return {"arguments": notice.arguments, "rows": rows_json(rows), **more}


def _slack(webhook: Webhook, notice: Notice) -> dict[str, Any]:
    """Return `text` and `blocks`. The link is the gateway's own URL and not a button, which would need an app
    that answers Slack."""
    known, user = notice.known, notice.known.principal.on_behalf_of
    title = _title(notice)
    who = known.principal.id + (f" for {user.id}" if user is not None else "")
    fields = {
        "Tool": f"{known.tool} ({known.effect})",
        "Caller": who,
        "Rule": known.rule,
        "Asked of": in_words(known.approval.needs),
        "And of": ", ".join(notice.escalated_to) if notice.event == "approval_escalated" else "",
        "Expires": timestamp(known.expires)[:19] + "Z",
        "By": ", ".join(decision_of(notice)[1]),
    }
    parts = [plain(f"{name}\n{text}", _MAX_FIELD_LENGTH) for name, text in fields.items() if text]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": plain(title, _MAX_FIELD_LENGTH)},
        {"type": "section", "fields": parts},
    ]
    if webhook.arguments and notice.arguments is not None:
        text = {
            "type": "plain_text",
            "text": _lines(notice),
            "emoji": False,
        }  # rows contain no invisible characters
        blocks.append({"type": "section", "text": text})
    blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"<{notice.url}|Open it in the console>"}})
    return {"text": escaped(f"{title}: {spelled(known.tool)}, by {spelled(who)}"), "blocks": blocks}


def _lines(notice: Notice) -> str:
    """Return a line for each value, as many as fit, and the number of the others."""
    lines: list[str] = []
    left = _MAX_TEXT_LENGTH - 100
    for row in notice.rows:
        line = f"{isolated(row.label)} = {isolated(row.text)}" + (f" ({row.about})" if row.about else "")
        left -= len(line) + 1
        if left < 0:
            lines.append(f"{len(notice.rows) - len(lines):,} more: open it in the console")
            break
        lines.append(line)
    return "\n".join(lines) or "no arguments"


def _title(notice: Notice) -> str:
    if notice.event == "approval_decided":
        return "A call was approved" if decision_of(notice)[0] == "approve" else "A call was denied"
    return _TITLES[notice.event]


def escaped(text: str) -> str:
    """Escape a text for notifications of Slack, so that mentions and links have no effect."""
    return bounded(text, _MAX_FIELD_LENGTH).translate(_ESCAPED)


def plain(text: str, length: int = _MAX_FIELD_LENGTH) -> dict[str, Any]:
    """Return a plain text of Slack without invisible characters."""
    return {"type": "plain_text", "text": bounded(spelled(text.replace("\r", "")), length), "emoji": False}
