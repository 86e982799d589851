"""Sender of requests that are no tool calls: for tokens, key sets, secrets. Its dependencies are loaded on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from toolgen.connectors.http.outbound.request import OutboundRequest, OutboundResponse, Via

__all__ = ["ask"]


async def ask(asked: OutboundRequest, via: Via) -> OutboundResponse:
    """Send one request, once. Raises `OutboundError`.

    Each request has a new connection: they are minutes apart, and an earlier permission may have ended.
    """
    exchange = await asyncio.to_thread(_exchange)  # loading takes a quarter of a second, and must not delay calls
    return await exchange(asked, via)


def _exchange() -> Callable[[OutboundRequest, Via], Awaitable[OutboundResponse]]:
    from toolgen.connectors.http.outbound.transport import exchange  # noqa: PLC0415 - httpx is a tenth of a start, and most never ask anything

    return exchange
