"""Calls whose MCP server requests something of the caller: kept while the caller is asked, and followed in both protocol styles."""

from __future__ import annotations

import asyncio
import math
from asyncio import QueueFull
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from toolgen.frontends.mcp.messages import INVALID_PARAMS, Caller, ProtocolStyle, RpcFault
from toolgen.frontends.mcp.request_state import States
from toolgen.frontends.mcp.tasks import QUESTION, Tasks
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.protocol import Facade
from toolgen.model.result import Envelope
from toolgen.state.invocations import Invocation

__all__ = ["BridgedCalls", "Wanted"]

_LOOK_S = 5.0


class Wanted(Struct, frozen=True):
    """Questions that a client of 2026-07-28 is asked by an answer, by their keys."""

    questions: Mapping[str, Any]


class BridgedCalls:
    """Follows calls of one gateway that were kept because of a question. `states` seals which call an answer belongs to."""

    def __init__(self, gateway: Facade, states: States, tasks: Tasks) -> None:
        self._gateway, self._states, self._tasks = gateway, states, tasks

    async def follow(
        self, call_id: str, capabilities: frozenset[str], style: ProtocolStyle, caller: Caller, after: float | None
    ) -> Envelope | Wanted | RpcFault:
        """The outcome of a kept call, or that it goes on after so many seconds; to a client of 2026-07-28 also what it is asked.

        Raises `StateError`.
        """
        asked: set[str] = set()
        try:
            return await self._followed(call_id, capabilities, style, caller, after, asked)
        finally:
            if asked and caller.send is not None:
                self._tasks.pages.close(caller.principal, caller.connection, caller.send)

    async def _followed(
        self,
        call_id: str,
        capabilities: frozenset[str],
        style: ProtocolStyle,
        caller: Caller,
        after: float | None,
        asked: set[str],
    ) -> Envelope | Wanted | RpcFault:
        calls, loop = self._gateway.tool_calls.approvals.calls, asyncio.get_running_loop()
        until = math.inf if after is None else loop.time() + after
        while True:
            news = calls.news.of(call_id)
            known = await calls.own(call_id, caller.principal)
            if known is None:
                return RpcFault(code=INVALID_PARAMS, message="the call is not kept any more")
            left = until - loop.time()
            if known.status == "ended":
                await calls.told(known)
                return await self._gateway.tool_calls.files.with_media(caller.principal, calls.envelope(known))
            if caller.caller_connection.disconnected():
                if style is ProtocolStyle.STATEFUL:  # in the other style the client comes back, or cancels nothing
                    await self._gateway.tool_calls.approvals.background.cancel(call_id, caller.principal)
                return calls.envelope(known)
            open_questions = dict(self._tasks.asked(known, capabilities))
            if style is ProtocolStyle.STATELESS and open_questions:
                return Wanted(open_questions)
            if left <= 0 and not open_questions:
                return calls.envelope(known)
            self.ask(known, open_questions, caller, asked)
            await caller.caller_connection.awaiting(_set(news, max(0.0, min(_LOOK_S, left)) or _LOOK_S))

    def ask(self, known: Invocation, questions: Mapping[str, Any], caller: Caller, asked: set[str]) -> None:
        """Send a client of the handshake era what it was not asked yet. The id of the question says which call it belongs to, sealed: any
        worker takes the answer."""
        for key, question in questions.items():
            if caller.send is None or key in asked:
                continue
            sealed = self._states.close(caller.principal, "", {}, answers={QUESTION: key}, call_id=known.id)
            message = {"jsonrpc": "2.0", "id": sealed, "method": question["method"], "params": question["params"]}
            with suppress(QueueFull):  # who does not read is not asked
                caller.send(encode(message))
                asked.add(key)
                self._tasks.pages.shown(
                    caller.principal, caller.connection, question["method"], question["params"], caller.send
                )


async def _set(news: asyncio.Event, within: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await news.wait()
