"""Ways into a front end for tests: an HTTP client on the application itself, and a real server on a free loopback port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import httpx
import uvicorn

from tests.gateway.gateways import KEY, FakeGateway
from toolgen.gateway.asgi.app import App
from toolgen.gateway.asgi.connections import Connections
from toolgen.gateway.asgi.uvicorn_protocol import connecting

BASE = "http://127.0.0.1:8080"
JSON = {"content-type": "application/json"}


def bearer(key: str = KEY) -> dict[str, str]:
    """The header that carries a credential."""
    return {"authorization": f"Bearer {key}"}


@contextlib.asynccontextmanager
async def client(gateway: FakeGateway, *, key: str | None = KEY) -> AsyncIterator[httpx.AsyncClient]:
    """httpx on the application, without a socket."""
    transport = httpx.ASGITransport(App(gateway))
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer(key) if key else {}) as http:
        yield http


@contextlib.asynccontextmanager
async def listening(
    app: Any, listener: socket.socket | None = None, connections: Connections | None = None
) -> AsyncIterator[str]:
    """The application on a real port, a free one where none is listened at yet; yields its URL."""
    http = connecting(connections or Connections())
    listener = listener or socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=http, ws="none", lifespan="off", log_config=None, loop="none")
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs one test's coroutine to its end, at most two minutes."""

    async def bounded() -> None:
        async with asyncio.timeout(120):
            await main

    asyncio.run(bounded())
