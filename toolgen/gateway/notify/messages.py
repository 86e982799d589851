"""The body of a message to a webhook: JSON of our own, or what incoming webhooks of Slack take.

In Slack's, what comes from a caller is plain text in a block, where no mention and no link is read; the text for notifications is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from toolgen.audit.entry import timestamp
from toolgen.config.notify import NotifyEvent, Webhook
from toolgen.gateway.approvers import in_words
from toolgen.gateway.json_body import encode
from toolgen.gateway.notify.notice import Notice, decision_of
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import spelled

__all__ = ["body_of", "escaped", "plain"]

_MAX_ARGUMENTS_SIZE = 16_384
_MAX_FIELD_LENGTH = 500
_MAX_TEXT_LENGTH = 2500
"""Slack takes 2,000 characters in a field and 3,000 in a text (Block Kit, section block)."""
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_TITLES: Mapping[NotifyEvent, str] = MappingProxyType(
    {
        "approval_requested": "A call waits for approval",
        "approval_reminder": "A call still waits for approval",
        "approval_escalated": "A call waits for approval, and others may answer now",
        "approval_expired": "A call was not approved in time, or something has changed since",
        "approval_withdrawn": "A call was taken back by its caller",
    }
)


def body_of(webhook: Webhook, notice: Notice) -> bytes:
    """The body that a webhook is sent, JSON."""
    return encode(_slack(webhook, notice) if webhook.format == "slack" else _generic(webhook, notice))


def _generic(webhook: Webhook, notice: Notice) -> dict[str, Any]:
    """`type`, `timestamp` and `data`, as Standard Webhooks recommends."""
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
        "needs": [{"roles": list(need.roles), "people": need.quorum} for need in known.needs],
        "escalated_to": list(notice.escalated_to) if notice.event == "approval_escalated" else [],
        "asked": timestamp(known.asked),
        "expires": timestamp(known.expires),
        "decision": decision,
        "decided_by": list(by),
        "edited_by": known.edited_by if decision == "approve" else "",
        **_arguments(webhook, notice),
    }
    return {name: value for name, value in shown.items() if value not in ("", [])}


def _arguments(webhook: Webhook, notice: Notice) -> dict[str, object]:
    if not webhook.arguments or notice.arguments is None:
        return {}
    if len(encode(notice.arguments)) > _MAX_ARGUMENTS_SIZE:
        return {"arguments_omitted": "they are too long for a message"}
    return {"arguments": notice.arguments}


def _slack(webhook: Webhook, notice: Notice) -> dict[str, Any]:
    """`text` and `blocks`. The link is our own; it is no button, which would take an app that answers Slack."""
    known, user = notice.known, notice.known.principal.on_behalf_of
    title = _title(notice)
    who = known.principal.id + (f" for {user.id}" if user is not None else "")
    fields = {
        "Tool": f"{known.tool} ({known.effect})",
        "Caller": who,
        "Rule": known.rule,
        "Asked of": in_words(known.needs),
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
        written = json.dumps(notice.arguments, indent=1, ensure_ascii=False)
        blocks.append({"type": "section", "text": plain(written, _MAX_TEXT_LENGTH)})
    blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"<{notice.url}|Open it in the console>"}})
    return {"text": escaped(f"{title}: {spelled(known.tool)}, by {spelled(who)}"), "blocks": blocks}


def _title(notice: Notice) -> str:
    if notice.event == "approval_decided":
        return "A call was approved" if decision_of(notice)[0] == "approve" else "A call was denied"
    return _TITLES[notice.event]


def escaped(text: str) -> str:
    """A text for notifications of Slack, in which no mention and no link is read."""
    return bounded(text, _MAX_FIELD_LENGTH).translate(_ESCAPED)


def plain(text: str, length: int = _MAX_FIELD_LENGTH) -> dict[str, Any]:
    """A plain text of Slack, with nothing in it that would not be seen."""
    return {"type": "plain_text", "text": bounded(spelled(text.replace("\r", "")), length), "emoji": False}
