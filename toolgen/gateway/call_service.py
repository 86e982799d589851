"""A call from the tool it names to its envelope: what it really asks for, the road it is sent down, and what is made of its answer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from toolgen.clock import Clock
from toolgen.errors import ConfigError
from toolgen.gateway.approvals import Approvals
from toolgen.gateway.compiled_policy import Governance
from toolgen.gateway.envelope_json import ended, enveloped, invalid, unmade
from toolgen.gateway.fallback import Fallbacks
from toolgen.gateway.response_shaping import Answering
from toolgen.gateway.tool_discovery import CALL, INPUTS, Discovery
from toolgen.model.call import Call, Principal
from toolgen.model.result import Envelope, Error, Refused, Result, Success
from toolgen.model.schema import JsonObject
from toolgen.pipeline.input_validation import no_json, no_text
from toolgen.pipeline.middleware import Trail
from toolgen.responses.answer_argument import WHOLE, Reading

__all__ = ["Asked", "Calls", "Running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a caller wants called, once the caller is known."""

    name: str
    arguments: JsonObject
    principal: Principal


class Running:
    """The calls under way: each runs to its end, whoever goes away, unless its trail says that its caller's absence ends it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Result]] = set()

    async def run(self, governance: Governance, call: Call, trail: Trail) -> Result:
        """One call down the whole road."""
        task = asyncio.create_task(governance.run(call, trail))
        self._tasks.add(task)
        if trail.seat is not None:
            trail.seat.hold(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            trail.presence.leave()  # whoever is cancelled here waits no more
            raise

    async def ended(self) -> None:
        """Returns when none is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)


class Calls:
    """What happens around the road: the stand-ins before it, the part of an answer that is shown and the fallback behind it."""

    def __init__(
        self,
        *,
        running: Running,
        answering: Answering,
        discovery: Discovery,
        fallbacks: Fallbacks,
        approvals: Approvals,
        clock: Clock,
    ) -> None:
        self._running = running
        self._answering = answering
        self._discovery = discovery
        self._fallbacks = fallbacks
        self._approvals = approvals
        self._clock = clock

    async def asked(
        self, governance: Governance, name: str, arguments: JsonObject, principal: Principal | str
    ) -> Asked | Envelope:
        """Whose call this is and to which tool, the one inside a `call_tool`; or the answer, where nothing is called.

        Searching and describing only read the catalog, as listing it does: they are no calls, and leave no record.
        """
        started = self._clock.monotonic()
        given: object = arguments
        if not isinstance(given, Mapping):
            return unmade(name, invalid("the arguments must be an object"))
        if fault := no_json(arguments):
            return unmade(name, invalid(fault))
        if fault := no_text(name):
            return unmade(name, invalid(f"the name of the tool {fault}"))
        try:
            who = governance.identity.named(principal) if isinstance(principal, str) else principal
        except ConfigError as error:
            return unmade(name, Error(code="forbidden", message=error.message, rule="default"))
        if name not in INPUTS or not self._discovery.answers(name, catalog := governance.catalog(who)):
            return Asked(name=name, arguments=arguments, principal=who)
        if name == CALL:
            inner = self._discovery.inner(arguments)
            if isinstance(inner, Refused):
                return unmade(name, inner.error)
            return Asked(name=inner.name, arguments=inner.arguments, principal=who)
        result = await self._discovery.answer(name, arguments, who, catalog)
        call_id = f"call_{secrets.token_hex(12)}"
        return ended(name, call_id, result, Trail(), (self._clock.monotonic() - started) * 1000)

    async def carry_out(
        self,
        governance: Governance,
        call: Call,
        trail: Trail | None = None,
        reading: Reading = WHOLE,
        *,
        last: bool = False,
    ) -> Envelope:
        """One call to its end, and where it failed its fallback's; `last` has none."""
        started = self._clock.monotonic()
        trail = trail or Trail()
        result = await self._running.run(governance, call, trail)
        if isinstance(result, Success) and self._answering.concerns(call, result, reading):
            result = await self._answering.presented(governance, call, result, reading)
        if isinstance(result, Refused):
            result = await self._guided(governance, call, result)
        envelope = enveloped(call, result, trail, (self._clock.monotonic() - started) * 1000)
        if envelope.call_id != call.id:
            return await self._approvals.repeated(envelope, call.principal)
        if last or isinstance(result, Success) or (other := self._fallbacks.instead(call, result)) is None:
            return envelope
        return await self._fall_back(governance, call, envelope, other)

    async def rehearse(self, governance: Governance, call: Call) -> Envelope:
        """What `carry_out` would send, after every guard has had its say. Sends, counts and records nothing."""
        started = self._clock.monotonic()
        result = await self._guided(governance, call, await governance.dry_road(call, Trail()))
        return enveloped(call, result, Trail(), (self._clock.monotonic() - started) * 1000)

    async def _fall_back(
        self, governance: Governance, call: Call, failed: Envelope, other: tuple[str, JsonObject]
    ) -> Envelope:
        """The call that is made instead of one that failed: a call like any other, so the policy may refuse it."""
        name, arguments = other
        made = governance.call(name, arguments, call.principal, call.session, call.client, call.id)
        made = made if call.trace is None else replace(made, trace=call.trace)
        envelope = await self.carry_out(governance, made, last=True)
        return envelope if self._fallbacks.better(envelope) else failed

    async def _guided(self, governance: Governance, call: Call, result: Result) -> Result:
        """Where tools are searched for, an unknown name is answered with the nearest that this principal may call."""
        if not isinstance(result, Refused) or result.error.code != "unknown_tool":
            return result
        catalog = governance.catalog(call.principal)
        if not self._discovery.stands_in(catalog):
            return result
        suggestion = await self._discovery.suggestion(call.tool.name, catalog)
        return Refused(error=msgspec.structs.replace(result.error, suggestion=suggestion))
