"""Webhook messages about roles that need two people: a role is requested, and another person agreed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from toolgen.audit.entry import timestamp
from toolgen.config.notify import NotifyEvent, Webhook
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.notify.messages import escaped, plain
from toolgen.model.prompt_injection import spelled
from toolgen.state.grants import RoleGrant

__all__ = ["role_body", "role_event"]

_TITLES: Mapping[NotifyEvent, str] = MappingProxyType(
    {
        "break_glass_requested": "Break glass: a role was requested, and another person has to approve it",
        "break_glass_given": "Break glass: two people approved a role, which is in force",
    }
)


def role_event(grant: RoleGrant) -> NotifyEvent:
    """Return the event for the current state of a role that needs two people."""
    return "break_glass_requested" if grant.waits else "break_glass_given"


def role_body(webhook: Webhook, grant: RoleGrant, at: float, url: str) -> bytes:
    """Return the JSON body for a webhook. `at` is in seconds since the epoch, `url` the console's page of roles."""
    event = role_event(grant)
    if webhook.format == "slack":
        return encode(_slack(event, grant, url))
    shown: dict[str, object] = {
        "id": grant.id,
        "url": url,
        "role": grant.role,
        "principal": grant.to,
        "reason": grant.reason,
        "seconds": grant.seconds,
        "asked_by": grant.asked_by,
        "agreed_by": grant.agreed_by,
        "expires": timestamp(grant.expires),
    }
    data = {name: value for name, value in shown.items() if value != ""}
    return encode({"type": event, "timestamp": timestamp(at), "data": data})


def _slack(event: NotifyEvent, grant: RoleGrant, url: str) -> dict[str, Any]:
    title = _TITLES[event]
    fields = {
        "Role": grant.role,
        "For": grant.to,
        "Asked by": grant.asked_by,
        "Agreed by": grant.agreed_by,
        "Reason": grant.reason,
        "Expires": timestamp(grant.expires)[:19] + "Z",
    }
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": plain(title)},
        {"type": "section", "fields": [plain(f"{name}\n{text}") for name, text in fields.items() if text]},
        {"type": "section", "text": {"type": "mrkdwn", "text": f"<{url}|Open it in the console>"}},
    ]
    return {"text": escaped(f"{title}: {spelled(grant.role)} for {spelled(grant.to)}"), "blocks": blocks}
