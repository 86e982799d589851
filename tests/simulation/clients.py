"""Clients of the simulated gateways, each with one operation, and the people who answer for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.simulation.evidence import Decided, Told
from tests.simulation.invariants import latest
from tests.simulation.plan import Request
from toolgen.core.errors import AuditError, StateError
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope
from toolgen.pipeline.middleware import CallerConnection

if TYPE_CHECKING:
    from tests.simulation.world import Home, World

__all__ = ["SLACK_S", "Client"]

SLACK_S = 4.0


class Client:
    """The client of one operation, and the people who answer for it."""

    def __init__(self, world: World, request: Request) -> None:
        self._world, self._request = world, request
        self._turn = 0

    async def act(self) -> None:
        """Asks, comes back, takes back, and asks again, as the plan says."""
        request = self._request
        await asyncio.sleep(request.at)
        if request.kind == "keyed":
            await self._repeat()
            return
        envelope = await self._call()
        people: list[asyncio.Task[None]] = []
        if request.answer != "none":
            people += [asyncio.create_task(self._answer(gateway)) for gateway in request.answered_at]
        if envelope is None or envelope.status != "pending":
            await asyncio.gather(*people)  # who may see it in their list, whatever its client was told
            return
        if request.cancelled_after_s:
            people.append(asyncio.create_task(self._cancel(envelope.call_id)))
        await self._poll(envelope.call_id)
        for one in people:
            one.cancel()

    def _home(self) -> Home:
        number = self._request.gateways[self._turn % len(self._request.gateways)]
        self._turn += 1
        return self._world.homes[number]

    async def _call(self) -> Envelope | None:
        request, caller_connection = self._request, CallerConnection()

        async def work(gateway: Gateway) -> Envelope:
            principal = gateway.principal(request.principal)
            making = gateway.tool_calls.call(
                request.tool,
                {"op": request.name},
                principal=principal,
                idempotency_key=request.name if request.kind == "keyed" else "",
                caller_connection=caller_connection,
            )
            if request.wait is None:
                return await making
            background = gateway.approvals.background
            envelope = await background.call(
                request.tool, making, caller=principal, wait=request.wait, caller_connection=caller_connection
            )
            if envelope.status == "pending":
                return await gateway.approvals.calls.outcome(envelope.call_id, principal) or envelope
            return envelope

        return await self._ask("call", work, caller_connection)

    async def _repeat(self) -> None:
        """With its key, until it is told how the call ended."""
        while True:
            envelope = await self._call()
            if envelope is not None and envelope.status not in {"pending", "refused"}:
                return
            if self._world.now() > self._bound():
                return
            await asyncio.sleep(1.0)

    async def _poll(self, call_id: str) -> None:
        while self._world.now() < self._bound():

            async def work(gateway: Gateway) -> Envelope | None:
                return await gateway.approvals.calls.outcome(call_id, gateway.principal(self._request.principal), 1.0)

            before = self._world.now()
            envelope = await self._ask("poll", work, call_id=call_id)
            if envelope is not None and envelope.status != "pending":
                return
            await asyncio.sleep(max(0.0, before + 1.0 - self._world.now()))

    def _bound(self) -> float:
        """When this client gives up: a little after its call has to have ended."""
        return latest(self._world.evidence, self._request.at, self._request.own_s) + SLACK_S

    async def _answer(self, number: int) -> None:
        """A person finds the call in the list at a gateway, and answers."""
        request, lead = self._request, f"lead{number}"
        await asyncio.sleep(request.answered_after_s)

        approve = request.answer == "approve"

        async def work(gateway: Gateway) -> str:
            principal = gateway.principal(lead)
            for known in await gateway.approvals.answerable(principal):
                if known.arguments["op"] == request.name:
                    began, accepted = self._world.now(), None
                    try:
                        found = await gateway.approvals.decide(known.id, approve=approve, note="", principal=principal)
                        accepted = not hasattr(found, "code")
                    finally:
                        self._world.evidence.decided.append(
                            Decided(
                                began=began, at=self._world.now(), operation=request.name, call_id=known.id, approve=approve,
                                accepted=accepted,
                            )
                        )  # fmt: skip
                    return getattr(found, "code", "counted")
            return "not there"

        home = self._world.homes[number]
        for _ in range(4):
            try:
                said = await home.ask(work)
            except (ConnectionError, TimeoutError, StateError, AuditError) as error:
                said = type(error).__name__
            self._world.say(lead, f"{request.answer} {request.name} at {home.name}: {said}")
            if said in {"counted", "conflict", "expired"}:
                return
            await asyncio.sleep(1.0)

    async def _cancel(self, call_id: str) -> None:
        await asyncio.sleep(self._request.cancelled_after_s)

        async def work(gateway: Gateway) -> Envelope | None:
            return await gateway.approvals.background.cancel(call_id, gateway.principal(self._request.principal))

        await self._ask("cancel", work, call_id=call_id)

    async def _ask(
        self,
        asked: str,
        work: Callable[[Gateway], Awaitable[Envelope | None]],
        caller_connection: CallerConnection | None = None,
        call_id: str = "",
    ) -> Envelope | None:
        """One request, and what came back on the record of what clients were told."""
        home, world, name = self._home(), self._world, self._request.name
        began = world.now()
        found: Envelope | None = None
        status, code, text = "gone", "", ""
        try:
            found = await home.ask(work, caller_connection)
        except (ConnectionError, TimeoutError, StateError, AuditError) as error:
            status, text = "fault", f"{type(error).__name__}: {error}"[:90]
        if found is not None:
            status, call_id = found.status, found.call_id
            code = "" if found.error is None else found.error.code
            text = "" if found.error is None else found.error.message[:70]
        world.told(
            Told(
                at=world.now(), operation=name, gateway=home.name, status=status, code=code, call_id=call_id, asked=asked,
                text=text, began=began,
            )
        )  # fmt: skip
        return found
