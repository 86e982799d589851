"""Calls that a call makes while it is carried out: a step of a workflow, a function that calls tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from toolgen.connectors.executor import Answered
from toolgen.core.errors import AuditError, StateError
from toolgen.gateway.call_service import GONE, Calls
from toolgen.gateway.compiled_policy import CurrentPolicy
from toolgen.gateway.json_body import invalid, unmade
from toolgen.gateway.nesting import inside, nesting_error
from toolgen.gateway.suspended_calls import SuspendedCalls
from toolgen.model.call import Call
from toolgen.model.result import Envelope, Error
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.pipeline.middleware import CallContext

__all__ = ["NestedCalls"]

_logger = logging.getLogger(__name__)


class NestedCalls:
    """`InnerCalls` of one gateway, for its executors.

    Each is decided by the policy that is in force when it is made, for the caller as that policy knows it by then: limited, approved and
    recorded like any other, with the outer call's id as its parent. The turn that the outer call took is not taken again.
    """

    def __init__(self, current: CurrentPolicy, calls: Calls, suspended: SuspendedCalls) -> None:
        self._current, self._calls, self._suspended = current, calls, suspended

    async def call(self, outer: Call, name: str, arguments: JsonObject) -> Answered:
        """Call a tool from within a call, as `InnerCalls.call` requires."""
        compiled_policy = self._current.compiled_policy
        caller = compiled_policy.by_now(outer.principal)
        if caller is None:
            return Answered(envelope=unmade(name, GONE))
        asked = await self._calls.asked(compiled_policy, name, arguments, caller, outer.session)
        if isinstance(asked, Envelope):
            return Answered(envelope=asked)
        if self._calls.is_own(compiled_policy, asked):
            return Answered(envelope=await self._calls.own(compiled_policy, asked, outer.session))
        reading, given = compiled_policy.reading(asked.name, asked.arguments, asked.principal)
        if isinstance(reading, Error):
            return Answered(envelope=unmade(asked.name, reading))
        if reading.cursor:
            return Answered(
                envelope=unmade(asked.name, invalid("an inner call has its answer whole: leave the cursor out"))
            )
        try:
            restored = await compiled_policy.restored(asked.name, given, asked.principal, outer.session, signed=True)
        except StateError:
            return Answered(envelope=unmade(asked.name, _UNSIGNED))
        made = compiled_policy.call(asked.name, restored.arguments, asked.principal, outer.session, outer.client)
        if made.tool.digest not in self._calls.file_arguments.without:
            made = await self._calls.file_arguments.described(made)
        made = inside(restored.of(msgspec.structs.replace(made, restored=outer.restored)), outer)
        if (error := nesting_error(made, compiled_policy.tool)) is not None:
            return Answered(envelope=unmade(asked.name, error))
        call_context = CallContext()
        call_context.caller_connection.started = False
        try:
            envelope = await self._calls.carry_out(compiled_policy, made, call_context, reading)
        except asyncio.CancelledError:  # the outer call ended: what it has not sent yet is not sent later
            call_context.caller_connection.call_off()
            raise
        envelope = compiled_policy.tokens.handed(envelope, asked.principal, outer.session)
        return Answered(envelope=envelope, http_status=call_context.http_status)

    async def outcome(self, outer: Call, call_id: str) -> Answered | None:
        """Return the outcome of an inner call, as `InnerCalls.outcome` requires."""
        waiting = self._calls.approvals.calls
        try:
            known = await waiting.own(call_id, outer.principal)
        except StateError as error:
            _logger.error("how call %s ended cannot be read: %s", call_id, error)  # noqa: TRY400 - it says all there is
            return None
        if known is None or known.parent != outer.id:
            return None
        try:
            envelope = self._current.compiled_policy.tokens.handed(
                waiting.envelope(known), outer.principal, outer.session
            )
        except StateError as error:
            _logger.error("how call %s ended cannot be read: %s", call_id, error)  # noqa: TRY400 - as above
            return None
        return Answered(envelope=envelope, http_status=known.http_status)

    async def withdraw(self, outer: Call, call_id: str) -> None:
        """Cancel an inner call, as `InnerCalls.withdraw` requires."""
        try:
            await self._calls.approvals.calls.cancel(call_id, outer.principal)
        except (StateError, AuditError) as error:
            _logger.error("call %s could not be withdrawn: %s", call_id, error)  # noqa: TRY400 - as above

    async def suspend(self, outer: Call, resume: JsonObject, waits: Sequence[str]) -> Error:
        """Suspend the outer call, as `InnerCalls.suspend` requires."""
        return await self._suspended.suspend(outer, resume, waits)

    def received(self, outer: Call) -> JsonObject:
        """Return the outer call's arguments with its caller's tokens signed, as `InnerCalls.received` requires."""
        return self._current.compiled_policy.tokens.received(outer)

    def catalog(self, outer: Call) -> Sequence[Tool]:
        """Return the tools that the caller may call, as `InnerCalls.catalog` requires."""
        compiled_policy = self._current.compiled_policy
        caller = compiled_policy.by_now(outer.principal)
        return () if caller is None or isinstance(caller, str) else compiled_policy.catalog(caller, outer.session)


_UNSIGNED = Error(
    code="upstream_unavailable",
    message="the key that signs tokens cannot be read now, so nothing was sent",
    suggestion="if this goes on, tell the operator of the gateway",
    retry_after_s=1.0,
    rule="tokens",
)
