"""Sends requests that are no tool calls: for tokens, key sets, secrets. What it takes is loaded with the first of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from toolgen.connectors.http.outbound.request import OutboundRequest, OutboundResponse, Via

__all__ = ["ask"]


async def ask(asked: OutboundRequest, via: Via) -> OutboundResponse:
    """Sends one request, once. Raises `OutboundError`.

    A connection of its own each time: these are minutes apart, and what was allowed once need not be allowed any more.
    """
    exchange = await asyncio.to_thread(_exchange)  # loading it takes a quarter of a second, and holds up no call
    return await exchange(asked, via)


def _exchange() -> Callable[[OutboundRequest, Via], Awaitable[OutboundResponse]]:
    from toolgen.connectors.http.outbound.transport import exchange  # noqa: PLC0415 - httpx is a tenth of a start, and most never ask anything

    return exchange
