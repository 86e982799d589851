"""Calls that wait for a person, as their MCP client follows them: to their end, and through what their server asks meanwhile."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

from msgspec import Struct

from toolgen.frontends.mcp.bridged_calls import BridgedCalls, Wanted
from toolgen.frontends.mcp.messages import Caller, ProtocolStyle
from toolgen.frontends.mcp.tasks import Tasks
from toolgen.gateway.protocol import Facade
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject

__all__ = ["ApprovedCalls", "WaitingClient"]

_LOOK_S = 5.0


class WaitingClient(Struct, frozen=True, kw_only=True):
    """Client that waits for a call of the tool `name`: what it can be asked, and the seconds it waits, None for any time."""

    name: str
    arguments: JsonObject
    capabilities: frozenset[str]
    style: ProtocolStyle
    longest: float | None


class ApprovedCalls:
    """Follows calls of one gateway that wait for approval. `follower` sends questions to clients of the handshake era."""

    def __init__(self, gateway: Facade, tasks: Tasks, follower: BridgedCalls) -> None:
        self._gateway, self._tasks, self._follower = gateway, tasks, follower

    async def ended(self, envelope: Envelope, client: WaitingClient, caller: Caller) -> Envelope | Wanted:
        """Outcome of a call as soon as it ended, for as long as its caller waits and its person's answer may come; to a client of
        2026-07-28 also what its server asks."""
        loop, approvals = asyncio.get_running_loop(), self._gateway.tool_calls.approvals
        until = loop.time() + (math.inf if client.longest is None else client.longest)
        after = self._gateway.tool_calls.pending_after(caller.principal, client.name, client.arguments)
        asked: set[str] = set()
        while (
            envelope.status == "pending"
            and self._gateway.tool_calls.elicits
            and not caller.caller_connection.disconnected()
        ):
            news = approvals.calls.news.of(envelope.call_id)
            known = await approvals.calls.own(envelope.call_id, caller.principal)
            if known is None:
                break
            envelope = approvals.calls.envelope(known)
            questions = dict(self._tasks.asked(known, client.capabilities)) if known.asks else {}
            if questions and client.style is ProtocolStyle.STATELESS:
                return Wanted(questions)
            self._follower.ask(known, questions, caller, asked)
            if known.status != "pending" and after is not None:  # the person has answered, and the call is made
                until, after = min(until, loop.time() + after), None
            left = until - loop.time()
            if known.status == "ended":
                await approvals.calls.told(known)
            over = left <= 0 and not questions
            if known.status == "ended" or (known.approval.unanswered and known.status == "pending") or over:
                break
            await caller.caller_connection.awaiting(_set(news, max(0.0, min(_LOOK_S, left)) or _LOOK_S))
        return envelope


async def _set(news: asyncio.Event, within: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await news.wait()
