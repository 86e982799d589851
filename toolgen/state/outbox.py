"""Messages that have to reach a receiver outside: what was told of each call, what is still to be delivered, and what could not be."""

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
"""Messages that wait for one receiver; those that come then are dead letters at once."""
MAX_DEAD = 1000
"""Dead letters that are kept of one receiver; the oldest go first."""
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
    """A message that this worker delivers until its lease is over. It waits `since` then, and `attempts` were made before. `token` is the
    lease's."""

    message: WebhookMessage
    since: float
    attempts: int
    token: str


class Delivered(Struct, frozen=True):
    """The receiver has it."""


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
    """A message that could not be delivered, since `at`, with the number of attempts and the reason."""

    id: str
    receiver: str
    event: str
    call_id: str
    at: float
    attempts: int
    why: str


class OutboxCounts(Struct, frozen=True, kw_only=True):
    """Messages of one receiver that wait, those that are dead letters, and for how many seconds the oldest has waited."""

    waiting: int = 0
    dead: int = 0
    oldest_s: float = 0.0


class Outbox(Protocol):
    """An outbox that every worker shares. Each method raises `StateError` when it cannot be read or written.

    Who writes a message writes that its event was told in the same step, so each event of a call is told once. A receiver is served by
    one worker at a time, which has a lease; when that lapses another one goes on. So a message is delivered at least once.
    """

    async def tell(self, call_id: str, event: str, messages: Sequence[WebhookMessage], *, until: float) -> bool:
        """Keeps messages about an event of a call; False where it was told before. That is remembered `until` then."""

    async def claim(self, receiver: str, lease_s: float) -> MessageLease | None:
        """The message that is due next, for this worker alone; None where there is none, or another worker delivers one."""

    async def settle(self, claim: MessageLease, outcome: Outcome) -> bool:
        """Says what became of a message, and lets go of the receiver. False where the lease was over: then it has no effect."""

    async def counts(self, receiver: str) -> OutboxCounts:
        """Number of messages of a receiver."""

    async def dead(self, receiver: str, limit: int = 100) -> tuple[DeadLetter, ...]:
        """Dead letters of a receiver, the newest first."""

    async def revive(self, receiver: str) -> int:
        """Puts all dead letters of a receiver back, due now; how many. Their time begins again."""

    async def forget(self, dead_before: float) -> None:
        """Removes what is remembered for longer than it was to be, and messages that died, or have waited since, before a time: those to
        who is a receiver no more."""

    async def now(self) -> float:
        """The time that all who share this go by, in seconds since the epoch."""

    async def close(self) -> None:
        """Lets go of what is open."""
