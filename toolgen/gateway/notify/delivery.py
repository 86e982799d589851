"""Delivery of messages to one webhook: signed, one at a time over all workers, with bounded retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from toolgen.core.background import FaultLog
from toolgen.core.errors import AuditError, StateError, place_of
from toolgen.gateway.notify.webhook import DeliveryError, WebhookSender
from toolgen.state.count_connection import StoreUnreachableError
from toolgen.state.outbox import Dead, Delivered, Later, MessageLease, Outbox, Outcome

__all__ = ["LEASE_S", "MAX_AGE_S", "DeliveryCounts", "WebhookDelivery"]

_logger = logging.getLogger(__name__)
LEASE_S = 30.0
"""Time for which a stopped worker may hold a receiver; longer than one delivery takes."""
MAX_AGE_S = 24 * 3600.0
"""Time for which delivery of a message is tried."""
_FIRST_PAUSE_S = 5.0
_MAX_PAUSE_S = 3600.0
_IDLE_S = 1.0

Note = Callable[[Mapping[str, Any]], Awaitable[object]]


class DeliveryCounts:
    """Attempts of this worker, by their outcomes."""

    def __init__(self) -> None:
        self.delivered = self.failed = self.dead = 0


class WebhookDelivery:
    """Delivery to one webhook. `receiver` is its name, `note` writes to the audit log, `chance` draws from 0 to 1."""

    def __init__(
        self,
        *,
        receiver: str,
        outbox: Outbox,
        sender: WebhookSender,
        note: Note,
        chance: Callable[[], float],
        counts: DeliveryCounts,
        trouble: FaultLog,
    ) -> None:
        self._receiver = receiver
        self._sender = sender
        self._outbox = outbox
        self._note = note
        self._chance = chance
        self._counts = counts
        self.trouble = trouble
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Signal that there may be something to deliver."""
        self._news.set()

    async def run(self) -> None:
        """Deliver due messages until cancelled."""
        while True:
            self._news.clear()
            try:
                while await self.once():
                    pass
                self.trouble.clear()
            except StateError as error:
                self.trouble.say(str(error), passing=isinstance(error.__cause__, StoreUnreachableError))
            with suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_S):
                    await self._news.wait()

    async def once(self) -> bool:
        """Attempt to deliver the next due message; return False if there is none. Raises `StateError`."""
        claim = await self._outbox.claim(self._receiver, LEASE_S)
        if claim is None:
            return False
        try:
            outcome = await self._attempt(claim)
        except asyncio.CancelledError:  # the gateway stops: another worker continues at once, or after the lease
            with suppress(StateError):
                await self._outbox.settle(claim, Later(due=await self._outbox.now(), why="the gateway stopped"))
            raise
        await self._outbox.settle(claim, outcome)
        return True

    async def _attempt(self, claim: MessageLease) -> Outcome:
        now = await self._outbox.now()
        try:
            await self._sender.send(claim.message.id, claim.message.body, now)
        except DeliveryError as failure:
            return await self._failed(claim, failure, now)
        except Exception as error:  # noqa: BLE001 - a message that cannot be sent holds up no other
            why = f"it cannot be sent ({type(error).__name__})"
            _logger.error("%s: %s", why, place_of(error))  # noqa: TRY400 - what it came from may quote anything
            return await self._failed(claim, DeliveryError(why=why), now)
        self._counts.delivered += 1
        return Delivered()

    async def _failed(self, claim: MessageLease, failure: DeliveryError, now: float) -> Outcome:
        due = now + max(self._pause(claim.attempts), failure.wait_s)
        if failure.lasting or due > claim.since + MAX_AGE_S:
            return await self._bury(claim, failure)
        self._counts.failed += 1
        _logger.warning(
            "%s to webhook %s failed, and is tried again in %.0f s: %s",
            claim.message.event,
            claim.message.receiver,
            due - now,
            failure.why,
        )
        return Later(due=due, why=failure.why, held=now + failure.wait_s if failure.holds else 0.0)

    def _pause(self, attempts: int) -> float:
        """Return the exponential pause, with jitter in its upper half, so that concurrent failures are not retried together."""
        longest: float = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempts, 20))
        return longest * (0.5 + self._chance() / 2)

    async def _bury(self, claim: MessageLease, failure: DeliveryError) -> Dead:
        """Record a message that is not retried, in the audit log and in the log."""
        message = claim.message
        self._counts.dead += 1
        why = failure.why if failure.lasting else f"not delivered in time: {failure.why}"
        _logger.error("%s to webhook %s is not delivered: %s", message.event, message.receiver, why)
        said = {"webhook": message.receiver, "event": message.event, "id": message.id, "why": why}
        refused = failure.code == "egress_refused"
        try:
            await self._note(
                {
                    "event": "notification",
                    "call_id": message.call_id,
                    "status": "refused" if refused else "error",
                    "code": failure.code,
                    "arguments": said,
                }
            )
        except AuditError:
            _logger.error("that could not be recorded")  # noqa: TRY400 - the log of the record says why
        return Dead(why=why)
