"""What a webhook is sent of a call that waits for a person: which events there are, and the body of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolgen.audit.entry import timestamp
from toolgen.config.notify import NotifyEvent, Webhook
from toolgen.gateway.json_body import encode
from toolgen.model.schema import JsonObject
from toolgen.state.invocations import Invocation

__all__ = ["ENDS", "Notice", "body_of", "events_of", "message_id"]

ENDS: frozenset[NotifyEvent] = frozenset({"approval_decided", "approval_expired", "approval_withdrawn"})
"""After these nothing more is told of a call."""
_ENDINGS: dict[str, NotifyEvent] = {"expired": "approval_expired", "cancelled": "approval_withdrawn"}
_MAX_ARGUMENTS_SIZE = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One event of one call. `arguments` are as the record shows them, None where they are not to be shown. `url` is the console's page
    of the call. `at` is when it was noticed, in seconds since the epoch."""

    event: NotifyEvent
    known: Invocation
    arguments: JsonObject | None
    url: str
    at: float


def events_of(known: Invocation) -> Iterator[NotifyEvent]:
    """What there is to be told of a call that waits, or waited, for a person, as far as it is: the first first."""
    yield "approval_requested"
    if known.status == "ended" and not _agreed(known):
        yield _ENDINGS.get(_code(known), "approval_decided")
    elif known.status != "pending" or known.kind != "approval":
        yield "approval_decided"


def _agreed(known: Invocation) -> bool:
    """Whether a call that has ended was carried out, as far as its ending tells."""
    return _code(known) not in {"approval_denied", *_ENDINGS}


def _code(known: Invocation) -> str:
    error = (known.envelope or {}).get("error") or {}
    return str(error.get("code", ""))


def message_id(known: Invocation, event: str, receiver: str) -> str:
    """The same for the same event, call and receiver, however often and wherever it is made."""
    return "msg_" + hashlib.sha256(f"{known.id} {event} {receiver}".encode()).hexdigest()[:32]


def body_of(webhook: Webhook, notice: Notice) -> bytes:
    """The body that a webhook is sent, JSON."""
    return encode(_generic(webhook, notice))


def _generic(webhook: Webhook, notice: Notice) -> dict[str, Any]:
    """`type`, `timestamp` and `data`, as Standard Webhooks recommends."""
    return {"type": notice.event, "timestamp": timestamp(notice.at), "data": _data(webhook, notice)}


def _data(webhook: Webhook, notice: Notice) -> dict[str, Any]:
    known = notice.known
    user = known.principal.on_behalf_of
    shown: dict[str, object] = {
        "id": known.id,
        "url": notice.url,
        "tool": known.tool,
        "effect": known.effect,
        "principal": known.principal.id,
        "on_behalf_of": "" if user is None else user.id,
        "rule": known.rule,
        "needs": [{"roles": list(need.roles), "people": need.quorum} for need in known.needs],
        "asked": timestamp(known.asked),
        "expires": timestamp(known.expires),
        **_decision(notice),
        **_arguments(webhook, notice),
    }
    return {name: value for name, value in shown.items() if value not in ("", [])}


def _arguments(webhook: Webhook, notice: Notice) -> dict[str, object]:
    if not webhook.arguments or notice.arguments is None:
        return {}
    if len(encode(notice.arguments)) > _MAX_ARGUMENTS_SIZE:
        return {"arguments_omitted": "they are too long for a message"}
    return {"arguments": notice.arguments}


def _decision(notice: Notice) -> dict[str, object]:
    known = notice.known
    if notice.event != "approval_decided":
        return {}
    if _code(known) == "approval_denied":
        return {"decision": "deny", "decided_by": [known.closed_by] if known.closed_by else []}
    return {"decision": "approve", "decided_by": [vote.by for vote in known.votes], "edited_by": known.edited_by}
