"""Reads of prompts and resources whose MCP server requests something of the caller: kept while the caller is asked, in both protocol
styles."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from toolgen.frontends.mcp.bridged_calls import BridgedCalls, Wanted
from toolgen.frontends.mcp.client_channel import BridgedChannel, StatefulChannel, StatelessChannel
from toolgen.frontends.mcp.messages import INVALID_PARAMS, Caller, ProtocolStyle, RpcFault
from toolgen.frontends.mcp.request_state import RequestState, States
from toolgen.frontends.mcp.tasks import Tasks
from toolgen.gateway.protocol import Facade
from toolgen.model.result import Envelope, Error, Meta
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.middleware import CallerConnection

__all__ = ["BridgedRead", "BridgedReads"]

_TOO_LARGE = Error(
    code="response_too_large", message="the answer is larger than the room that is left for this caller's answers"
)
_META = Meta(duration_ms=0.0, truncated=False)


class BridgedRead(Struct, frozen=True, kw_only=True):
    """Read of a prompt or resource. `about` names it, `arguments` are those of a prompt; `state` is that of the round before, and `answers`
    are what the client answers with this request. `read` makes it on a connection."""

    about: str
    arguments: JsonObject
    style: ProtocolStyle
    state: RequestState | None
    answers: Mapping[str, Any]
    read: Callable[[CallerConnection], Awaitable[dict[str, object] | Error]]


class BridgedReads:
    """Makes reads of one gateway, and continues those that were kept because of a question. The server is asked once."""

    def __init__(self, gateway: Facade, states: States, tasks: Tasks) -> None:
        self._gateway, self._states, self._tasks = gateway, states, tasks
        self._follower = BridgedCalls(gateway, states, tasks)

    async def answer(
        self, asked: BridgedRead, first: StatefulChannel | StatelessChannel, caller: Caller
    ) -> dict[str, object] | Error | RpcFault:
        """The result of a read, or in 2026-07-28 the one that asks for input. Raises `StateError` and `AuditError`."""
        if asked.state is not None and asked.state.call_id:
            return await self._continued(asked, asked.state.call_id, first.capabilities, caller)
        with caller.caller_connection.several(1) as (connection,):
            first = msgspec.structs.replace(first, caller_connection=connection)
            line = BridgedChannel(connection, self._tasks.questions, first.capabilities, first, returns=False)
            connection.line = line
            envelope = await self._gateway.tool_calls.approvals.background.left_after(
                _enveloped(asked, connection), wait=math.inf, caller_connection=connection, leave=line.asked
            )
            if line.asked.is_set() and line.kept and envelope.status == "pending":
                return await self._followed(asked, envelope.call_id, first.capabilities, caller)
            return _opened(envelope)

    async def _continued(
        self, asked: BridgedRead, call_id: str, capabilities: frozenset[str], caller: Caller
    ) -> dict[str, object] | Error | RpcFault:
        known = await self._gateway.tool_calls.approvals.calls.own(call_id, caller.principal)
        if known is None:
            return RpcFault(
                code=INVALID_PARAMS, message="the read that params.requestState is about is not kept any more"
            )
        fault = await self._tasks.take_answers(known, asked.answers, caller.principal)
        return fault or await self._followed(asked, call_id, capabilities, caller)

    async def _followed(
        self, asked: BridgedRead, call_id: str, capabilities: frozenset[str], caller: Caller
    ) -> dict[str, object] | Error | RpcFault:
        found = await self._follower.follow(call_id, capabilities, asked.style, caller, None)
        match found:
            case Wanted():
                state = self._states.close(
                    caller.principal, asked.about, asked.arguments, answers={}, call_id=call_id, asks=True
                )
                wanted = dict(found.questions)
                return {"resultType": "input_required", "inputRequests": wanted, "requestState": state}
            case RpcFault():
                return found
            case _:
                return _opened(found)


async def _enveloped(asked: BridgedRead, connection: CallerConnection) -> Envelope:
    """The outcome of a read in the form in which outcomes of calls are kept."""
    found = await asked.read(connection)
    call = connection.under_way
    call_id = "" if call is None else call.id
    if isinstance(found, Error):
        return Envelope(status="error", tool=asked.about, call_id=call_id, data=None, error=found, meta=_META)
    return Envelope(status="ok", tool=asked.about, call_id=call_id, data=cast("Json", found), error=None, meta=_META)


def _opened(envelope: Envelope) -> dict[str, object] | Error:
    """The result of a read in its envelope, or why there is none."""
    if envelope.error is not None:
        return envelope.error
    return dict(envelope.data) if isinstance(envelope.data, Mapping) else _TOO_LARGE
