"""Notifier of webhooks about calls that wait for a person and about roles that need two people: it finds events and starts their
delivery."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from toolgen.config.notify import NotifyEvent, NotifySettings
from toolgen.connectors.executor import Permit
from toolgen.core.background import Background, FaultLog, cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import StateError, ToolgenError, place_of
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.approvals.role_grants import RoleGrants
from toolgen.gateway.approvals.validity import kept_call
from toolgen.gateway.approvals.view import recorded_rows
from toolgen.gateway.metrics.prometheus import NotificationCounts
from toolgen.gateway.notify.delivery import DeliveryCounts, WebhookDelivery
from toolgen.gateway.notify.messages import body_of
from toolgen.gateway.notify.notice import ENDS, Notice, events_of, message_id
from toolgen.gateway.notify.role_messages import role_body, role_event
from toolgen.gateway.notify.webhook import WebhookSender
from toolgen.gateway.operations.call_rows import in_schema_order
from toolgen.state.count_connection import StoreUnreachableError
from toolgen.state.grants import RoleGrant
from toolgen.state.invocations import Invocation
from toolgen.state.outbox import Outbox, WebhookMessage

__all__ = ["DEAD_KEPT_S", "Notifier"]

_logger = logging.getLogger(__name__)
DEAD_KEPT_S = 7 * 86_400.0
"""Time for which dead letters are stored."""
_EVERY_S = 1.0
_LEAST_S, _MOST_S = 0.2, 2.0
_IDLE_SHARE = 9
_REMEMBERED_S = 86_400.0
"""Time after a call's expiry for which its messages are remembered: longer than the call is stored."""
_MAX_REMEMBERED = 10_000
_END = "end"
"""Common name of all final events: a call has only one of them."""
_FOR_EVER_S = 100 * 365 * 86_400.0
_OVERLAP_S = 10.0
"""Time by which others may see an ended call late; longer than writing it takes."""


class Notifier:
    """Notification task of a worker. Calls do not wait for it: it reads their state and writes new events to the outbox, where each event
    of a call is stored once. So another worker, or the next one, sends the events of a worker that died."""

    def __init__(  # noqa: PLR0913 - all that a notification is made of
        self,
        *,
        settings: NotifySettings,
        outbox: Outbox,
        approvals: Approvals,
        role_grants: RoleGrants,
        permit: Permit,
        clock: Clock,
        background: Background,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._outbox = outbox
        self._approvals, self._role_grants = approvals, role_grants
        self._clock = clock
        self._background = background
        self._tasks: list[asyncio.Task[None]] = []
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._sent = DeliveryCounts()
        self._trouble = FaultLog(clock, "no messages about approvals are sent")
        self._undelivered = FaultLog(clock, "notifications")
        self.deliveries = {
            name: WebhookDelivery(
                receiver=name,
                outbox=outbox,
                sender=WebhookSender(webhook, permit),
                note=approvals.calls.log.append,
                chance=chance,
                counts=self._sent,
                trouble=FaultLog(clock, f"nothing is delivered to webhook {name}"),
            )
            for name, webhook in settings.webhooks.items()
        }
        self._since: float | None = None
        self._waiting = self._dead = 0
        self._oldest_s = 0.0

    @property
    def troubles(self) -> tuple[FaultLog, ...]:
        """Return possible faults of the outbox and of the deliveries."""
        return (self._trouble, self._undelivered, *(one.trouble for one in self.deliveries.values()))

    @property
    def counts(self) -> NotificationCounts:
        """Return the numbers of messages sent by this worker, and the outbox as last read."""
        return NotificationCounts(
            delivered=self._sent.delivered,
            failed=self._sent.failed,
            buried=self._sent.dead,
            waiting=self._waiting,
            dead=self._dead,
            oldest_s=self._oldest_s,
        )

    def start(self) -> None:
        """Start searching for events, and delivering."""
        self._tasks = [self._background.start("sending messages about approvals", self._run)]
        for name, delivery in self.deliveries.items():
            self._tasks.append(self._background.start(f"delivering to webhook {name}", delivery.run))

    async def stop(self) -> None:
        """Stop at once: another worker sends unfinished messages again."""
        await cancel(*self._tasks)
        await self._outbox.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self.sweep()
                await self._look()
                self._trouble.clear()
            except StateError as error:
                self._trouble.say(str(error), passing=isinstance(error.__cause__, StoreUnreachableError))
            # At any number of events and waiting calls, it uses a tenth of a processor at most.
            await asyncio.sleep(min(max(_LEAST_S, _IDLE_SHARE * (loop.time() - began)), _MOST_S))
            await self._approvals.calls.news.changed(_EVERY_S)

    async def sweep(self) -> None:
        """Write messages for all calls that wait, or have ended since the last time. Raises `StateError`."""
        store = self._approvals.calls.store
        now = await store.now()
        for known in await store.unfinished():
            await self._tell_all(known)
        for grant in await self._role_grants.listed(None):
            if grant.break_glass:
                await self._once(grant.id, role_event(grant), partial(self._tell_role, grant))
        if self._since is None:  # calls that ended while no worker ran, but none from before webhooks were configured
            first = await self._outbox.tell("", "began", (), until=now + _FOR_EVER_S)
            self._since = now if first else 0.0
        while True:
            ended = await store.ended_since(self._since)
            for known in ended:
                if known.kind == "approval" or known.approval.votes:
                    await self._tell_all(known)
            if not ended or ended[-1].ended <= self._since:
                break
            self._since = ended[-1].ended
        self._since = now - _OVERLAP_S

    async def _tell_all(self, known: Invocation) -> None:
        for event in events_of(known):
            key = _END if event in ENDS else event
            await self._once(known.id, key, partial(self._tell, known, event, key))

    async def _once(self, about: str, key: str, tell: Callable[[], Awaitable[None]]) -> None:
        if (about, key) in self._told:
            return
        try:
            await tell()
        except ToolgenError:
            raise
        except Exception as error:  # noqa: BLE001 - what nobody can tell of holds up nothing else
            _logger.error("no message about %s was sent: %s", about, place_of(error))  # noqa: TRY400
        self._told[about, key] = None
        if len(self._told) > _MAX_REMEMBERED:
            self._told.popitem(last=False)

    async def _tell_role(self, grant: RoleGrant) -> None:
        now, event, url = await self._outbox.now(), role_event(grant), f"{self._settings.console}/console/approvals"
        bodies = {name: role_body(one, grant, now, url) for name, one in self._settings.webhooks.items()}
        await self._write(grant.id, event, event, bodies, now, max(grant.expires, now))

    async def _tell(self, known: Invocation, event: NotifyEvent, key: str) -> None:
        now = await self._outbox.now()
        compiled_policy = self._approvals.current.compiled_policy
        call = kept_call(known, compiled_policy)
        schema = None if call is None else call.tool.input_schema
        arguments = None if call is None else in_schema_order(compiled_policy.concealing.arguments(call), schema)
        notice = Notice(
            event=event,
            known=known,
            arguments=arguments,
            rows=() if arguments is None else recorded_rows(arguments, schema, known.bound),
            url=f"{self._settings.console}/console/approvals/{known.id}",
            escalated_to=tuple(sorted(compiled_policy.policy.approval.escalate_to)),
            at=now,
        )
        bodies = {name: body_of(webhook, notice) for name, webhook in self._settings.webhooks.items()}
        await self._write(known.id, event, key, bodies, now, max(known.expires, now))

    async def _write(
        self, about: str, event: NotifyEvent, key: str, bodies: Mapping[str, bytes], now: float, expires: float
    ) -> None:
        """Put messages into the outbox for webhooks that want this event, unless another worker did."""
        messages = [
            WebhookMessage(
                id=message_id(about, event, name),
                receiver=name,
                event=event,
                call_id=about,
                made=now,
                body=bodies[name],
            )
            for name, webhook in self._settings.webhooks.items()
            if event in webhook.events
        ]
        if await self._outbox.tell(about, key, messages, until=expires + _REMEMBERED_S):
            for message in messages:
                self.deliveries[message.receiver].wake()

    async def _look(self) -> None:
        """Read the state of the outbox, for metrics and warnings, and remove old messages."""
        standing = {name: await self._outbox.counts(name) for name in self.deliveries}
        self._waiting = sum(one.waiting for one in standing.values())
        self._dead = sum(one.dead for one in standing.values())
        self._oldest_s = max((one.oldest_s for one in standing.values()), default=0.0)
        lost = [f"{one.dead} to {name}" for name, one in standing.items() if one.dead]
        if lost:
            self._undelivered.say(f"{', '.join(lost)} could not be delivered (toolgen notify list)", passing=True)
        else:
            self._undelivered.clear()
        await self._outbox.forget(await self._outbox.now() - DEAD_KEPT_S)
