"""Outbox in Redis: visible to every process of every machine that shares it, and encrypted."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence

import msgspec

from toolgen.core.errors import StateError
from toolgen.state.count_connection import Script
from toolgen.state.encryption import Seal, SealedScript
from toolgen.state.outbox import (
    MAX_DEAD,
    MAX_WAITING,
    Dead,
    DeadLetter,
    Delivered,
    Later,
    MessageLease,
    OutboxCounts,
    Outcome,
    WebhookMessage,
)
from toolgen.state.redis_connection import RedisLink

__all__ = ["RedisOutbox"]

_SCRIPT = Script.named("outbox")
_UNUSABLE = "it was changed in Redis, or sealed with another key"
_logger = logging.getLogger(__name__)


class RedisOutbox:
    """Outbox in Redis. A message is in a box that only the key of `seal` creates or opens, for one receiver and one id.

    A writer in Redis can delete a message or repeat it under its id, but cannot create, change or redirect one. `receivers` are the known
    ones.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], receivers: Sequence[str]) -> None:
        self._redis = SealedScript(link, seal, _SCRIPT, "outbox", kept="messages to webhooks")
        self._receivers = tuple(receivers)

    async def tell(self, call_id: str, event: str, messages: Sequence[WebhookMessage], *, until: float) -> bool:
        seal = await self._redis.seal()
        parts: list[str | bytes] = []
        for message in messages:
            box = seal.close(msgspec.json.encode(message), _about(message.receiver, message.id))
            parts += [message.receiver, message.id, box]
        bounds = (str(MAX_WAITING), str(MAX_DEAD))
        done = await self._redis.run("tell", call_id, event, repr(until), *bounds, *parts)
        return bool(done == 1)

    async def claim(self, receiver: str, lease_s: float) -> MessageLease | None:
        seal, token = await self._redis.seal(), secrets.token_hex(8)
        found = await self._redis.run("claim", receiver, token, repr(lease_s))
        if not found:
            return None
        message_id, box, since, attempts = found
        message = _opened(seal, receiver, message_id, box)
        if message is None:
            _logger.error("a message to %s is left out: %s", receiver, _UNUSABLE)
            bare = WebhookMessage(id=_text(message_id), receiver=receiver, event="", call_id="", made=0.0, body=b"")
            await self.settle(MessageLease(message=bare, since=0.0, attempts=0, token=token), Dead(why=_UNUSABLE))
            return None
        return MessageLease(message=message, since=float(since), attempts=int(attempts), token=token)

    async def settle(self, claim: MessageLease, outcome: Outcome) -> bool:
        await self._redis.seal()
        match outcome:
            case Delivered():
                said = ("delivered", "0", "0", "")
            case Later(due=due, why=why, held=held):
                said = ("later", repr(due), repr(held), why)
            case Dead(why=why):
                said = ("dead", "0", "0", why)
        where = (claim.message.receiver, claim.message.id, claim.token)
        return bool(await self._redis.run("settle", *where, *said, str(MAX_DEAD)) == 1)

    async def counts(self, receiver: str) -> OutboxCounts:
        now = await self.now()
        waiting, dead, oldest = await self._redis.run("counts", receiver)
        return OutboxCounts(waiting=waiting, dead=dead, oldest_s=max(0.0, now - float(oldest)) if oldest else 0.0)

    async def dead(self, receiver: str, limit: int = 100) -> tuple[DeadLetter, ...]:
        seal = await self._redis.seal()
        found = await self._redis.run("dead", receiver, str(limit))
        letters = []
        for message_id, box, at, attempts, why in zip(*(found[start::5] for start in range(5)), strict=True):
            message = _opened(seal, receiver, message_id, box)
            letters.append(
                DeadLetter(
                    id=_text(message_id),
                    receiver=receiver,
                    event="" if message is None else message.event,
                    call_id="" if message is None else message.call_id,
                    at=float(at),
                    attempts=int(attempts),
                    why=_text(why),
                )
            )
        return tuple(letters)

    async def revive(self, receiver: str) -> int:
        return int(await self._redis.run("revive", receiver))

    async def forget(self, dead_before: float) -> None:
        for receiver in self._receivers:
            await self._redis.run("forget", receiver, repr(dead_before))

    async def now(self) -> float:
        return await self._redis.now()

    async def close(self) -> None:
        await self._redis.close()


def _opened(seal: Seal, receiver: str, message_id: bytes, box: bytes) -> WebhookMessage | None:
    """Return a stored message; None for one that was changed, moved, or is not a message."""
    try:
        return msgspec.json.decode(seal.open(box, _about(receiver, _text(message_id))), type=WebhookMessage)
    except (StateError, msgspec.MsgspecError):
        return None


def _about(receiver: str, message_id: str) -> str:
    return f"message {receiver} {message_id}"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
