"""Requests that are no calls, whose time ends in the TLS handshake: their connection is closed at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.stream_servers import stream_server
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundRequest, UnreachableError, Via


async def test_a_connection_whose_handshake_is_cancelled_is_closed() -> None:
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(4096):  # until the client closes the connection
            pass
        ended.set()

    async with stream_server(silent) as port:
        via = Via(permit=None, destination=Destination(host="", port=0, service="keys"), total_s=0.3)
        with pytest.raises(UnreachableError) as caught:
            await ask(OutboundRequest(method="GET", url=f"https://127.0.0.1:{port}/"), via)
        # The traceback of the error holds the frames of the connection, so that nothing of it is garbage yet.
        async with asyncio.timeout(10):
            await ended.wait()
        assert caught.value is not None
