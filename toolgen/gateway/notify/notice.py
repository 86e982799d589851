"""Notification events of a call that waits for a person, and when a call is over."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from msgspec import Struct

from toolgen.config.notify import NotifyEvent
from toolgen.gateway.operations.call_rows import ValueRow
from toolgen.model.schema import JsonObject
from toolgen.state.invocations import Invocation

__all__ = ["ENDS", "Notice", "decision_of", "events_of", "message_id"]

ENDS: frozenset[NotifyEvent] = frozenset({"approval_decided", "approval_expired", "approval_withdrawn"})
"""Events after which no more messages about a call are sent."""
_ENDINGS: dict[str, NotifyEvent] = {"expired": "approval_expired", "cancelled": "approval_withdrawn"}


class Notice(Struct, frozen=True, kw_only=True):
    """Event of a call. `arguments` are in their recorded form, None if they must not be shown; `rows` has a row for each value.

    `url` is the console's page of the call, `escalated_to` has the roles that may answer too once it is escalated. `at` is when it was
    noticed, in seconds since the epoch.
    """

    event: NotifyEvent
    known: Invocation
    arguments: JsonObject | None
    rows: tuple[ValueRow, ...]
    url: str
    escalated_to: tuple[str, ...]
    at: float


def events_of(known: Invocation) -> Iterator[NotifyEvent]:
    """Yield the events of a call that waits or waited for a person, oldest first."""
    yield "approval_requested"
    passed: list[tuple[float, NotifyEvent]] = [
        (known.approval.reminded, "approval_reminder"),
        (known.approval.escalated, "approval_escalated"),
    ]
    yield from (event for at, event in sorted(passed) if at)
    if known.status == "ended":
        yield _ENDINGS.get(_code(known), "approval_decided")
    elif known.status != "pending" or known.kind != "approval":
        yield "approval_decided"


def decision_of(notice: Notice) -> tuple[str, tuple[str, ...]]:
    """Return `approve` or `deny` and the people who decided; empty for a call that was not decided."""
    known = notice.known
    if notice.event != "approval_decided":
        return "", ()
    if _code(known) == "approval_denied":
        return "deny", (known.closed_by,) if known.closed_by else ()
    return "approve", tuple(vote.by for vote in known.approval.votes)


def _code(known: Invocation) -> str:
    error = (known.envelope or {}).get("error") or {}
    return str(error.get("code", ""))


def message_id(about: str, event: str, receiver: str) -> str:
    """Return the message id for an event, receiver and subject; equal in every worker and at every attempt."""
    return "msg_" + hashlib.sha256(f"{about} {event} {receiver}".encode()).hexdigest()[:32]
