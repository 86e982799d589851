"""Outbox of messages to external receivers: recorded events of each call, pending messages, and failed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

__all__ = [
    "CROWDED",
    "MAX_DEAD",
    "MAX_WAITING",
    "Dead",
    "DeadLetter",
    "Delivered",
    "Later",
    "MessageLease",
    "Outbox",
    "OutboxCounts",
    "Outcome",
    "WebhookMessage",
]

MAX_WAITING = 2000
"""Maximum pending messages of one receiver; further ones become dead letters at once."""
MAX_DEAD = 1000
"""Maximum dead letters of one receiver; the oldest are removed first."""
CROWDED = "too many messages wait for this receiver"


class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a receiver, by the receiver's name in toolgen.yaml. `id` is the same in every delivery. `made` is in seconds
    since the epoch."""

    id: str
    receiver: str
    event: str
    call_id: str
    made: float
    body: bytes


class MessageLease(Struct, frozen=True, kw_only=True):
    """Lease of a message that this worker delivers. It waits since `since`, and `attempts` were made before. `token` is the lease's."""

    message: WebhookMessage
    since: float
    attempts: int
    token: str


class Delivered(Struct, frozen=True):
    """Successful delivery."""


class Later(Struct, frozen=True, kw_only=True):
    """Retry of a message at `due`, because of `why`. No other message is sent to the receiver before `held`."""

    due: float
    why: str
    held: float = 0.0


class Dead(Struct, frozen=True, kw_only=True):
    """End of the retries of a message, because of `why`."""

    why: str


Outcome: TypeAlias = Delivered | Later | Dead


class DeadLetter(Struct, frozen=True, kw_only=True):
    """Failed message, since `at`, with the number of attempts and the reason."""

    id: str
    receiver: str
    event: str
    call_id: str
    at: float
    attempts: int
    why: str


class OutboxCounts(Struct, frozen=True, kw_only=True):
    """Pending messages of one receiver, its dead letters, and the seconds that the oldest has waited."""

    waiting: int = 0
    dead: int = 0
    oldest_s: float = 0.0


class Outbox(Protocol):
    """Outbox shared by every worker. Each method raises `StateError` when it cannot be read or written.

    A message and the record of its event are written in one step, so each event of a call is reported once. One worker at a time serves a
    receiver, with a lease; when that expires another one continues. So a message is delivered at least once.
    """

    async def tell(self, call_id: str, event: str, messages: Sequence[WebhookMessage], *, until: float) -> bool:
        """Store messages about an event of a call; return False if the event was recorded before. The record is kept until `until`."""

    async def claim(self, receiver: str, lease_s: float) -> MessageLease | None:
        """Return the message that is due next, leased to this worker; None if there is none, or another worker delivers one."""

    async def settle(self, claim: MessageLease, outcome: Outcome) -> bool:
        """Record the outcome of a delivery, and release the receiver. Return False if the lease had expired: then it has no effect."""

    async def counts(self, receiver: str) -> OutboxCounts:
        """Return the number of messages of a receiver."""

    async def dead(self, receiver: str, limit: int = 100) -> tuple[DeadLetter, ...]:
        """Return dead letters of a receiver, the newest first."""

    async def revive(self, receiver: str) -> int:
        """Make all dead letters of a receiver due now, and return their number. Their time starts again."""

    async def forget(self, dead_before: float) -> None:
        """Remove expired records, and messages that died, or have waited, since before a time: those of removed receivers."""

    async def now(self) -> float:
        """Return the common time of all users of the outbox, in seconds since the epoch."""

    async def close(self) -> None:
        """Close the storage."""
