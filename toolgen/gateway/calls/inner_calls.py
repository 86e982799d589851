"""Inner calls: calls that a running call makes, such as a step of a workflow or a function that calls tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from toolgen.connectors.executor import Answered
from toolgen.core.errors import AuditError, StateError
from toolgen.gateway.calls.call_preparation import CallOptions, CallPreparation
from toolgen.gateway.calls.call_service import Calls
from toolgen.gateway.operations.suspended_calls import SuspendedCalls
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Call
from toolgen.model.result import Envelope, Error
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.pipeline.middleware import CallContext

__all__ = ["NestedCalls"]

_logger = logging.getLogger(__name__)


class NestedCalls:
    """`InnerCalls` of one gateway, for its executors.

    Each is decided by the policy in force when it is made, for the caller under that policy: limited, approved and recorded like any other,
    with the outer call's id as its parent. It uses the turn of the outer call.
    """

    def __init__(
        self, current: CurrentPolicy, preparation: CallPreparation, calls: Calls, suspended: SuspendedCalls
    ) -> None:
        self._current, self._preparation, self._calls, self._suspended = current, preparation, calls, suspended

    async def call(self, outer: Call, name: str, arguments: JsonObject) -> Answered:
        """Call a tool from within a call, as `InnerCalls.call` requires."""
        compiled_policy = self._current.compiled_policy
        options = CallOptions(
            name=name,
            arguments=arguments,
            principal=outer.principal,
            session=outer.session,
            client=outer.client,
            outer=outer,
            purpose="inner",
        )
        prepared = await self._preparation.prepare(compiled_policy, options)
        if isinstance(prepared, Envelope):
            return Answered(envelope=prepared)
        made = prepared.call
        call_context = CallContext()
        call_context.caller_connection.started = False
        try:
            envelope = await self._calls.carry_out(compiled_policy, made, call_context, prepared.reading)
        except asyncio.CancelledError:  # the outer call ended: unsent inner calls are not sent later
            call_context.caller_connection.call_off()
            raise
        envelope = compiled_policy.tokens.handed(envelope, made.principal, outer.session)
        return Answered(
            envelope=envelope, http_status=call_context.http_status, awaits_account=call_context.awaits_account
        )

    async def outcome(self, outer: Call, call_id: str) -> Answered | None:
        """Return the outcome of an inner call, as `InnerCalls.outcome` requires."""
        waiting = self._calls.approvals.calls
        try:
            known = await waiting.own(call_id, outer.principal)
        except StateError as error:
            _logger.error("the outcome of call %s cannot be read: %s", call_id, error)  # noqa: TRY400 - it says all there is
            return None
        if known is None or known.parent != outer.id:
            return None
        try:
            envelope = self._current.compiled_policy.tokens.handed(
                waiting.envelope(known), outer.principal, outer.session
            )
        except StateError as error:
            _logger.error("the outcome of call %s cannot be read: %s", call_id, error)  # noqa: TRY400 - as above
            return None
        awaits = known.kind == "account" and known.status != "ended"
        return Answered(envelope=envelope, http_status=known.http_status, awaits_account=awaits)

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
