"""Ways into a front end for tests: an HTTP client on the application itself, and real servers on a free loopback port: ours, and one that
knows nothing of us and speaks ASGI."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from tests.gateway.gateways import KEY, FakeGateway
from tests.stream_servers import stop_listening
from toolgen.frontends.http.app import App
from toolgen.frontends.http.connection import HttpConnection
from toolgen.frontends.http.connections import Connections, HttpServer
from toolgen.frontends.http.request import Handlers
from toolgen.frontends.python.gateway import Gateway

BASE = "http://127.0.0.1:8080"
JSON = {"content-type": "application/json"}


def bearer(key: str = KEY) -> dict[str, str]:
    """The header that carries a credential."""
    return {"authorization": f"Bearer {key}"}


ADAPTER = "asgi"
"""How `client` brings requests to the application; the fixture `adapter` runs a test with each."""


@pytest.fixture(params=["asgi", "connection"])
def adapter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with `client` over ASGI, and again over a socket of our own server: one set of rules for both."""
    monkeypatch.setitem(globals(), "ADAPTER", request.param)


@contextlib.asynccontextmanager
async def client(gateway: FakeGateway, *, key: str | None = KEY) -> AsyncIterator[httpx.AsyncClient]:
    """httpx on the application: over ASGI without a socket, or on a connection of our own server."""
    app, headers = App(gateway), bearer(key) if key else {}
    async with contextlib.AsyncExitStack() as stack:
        transport: httpx.AsyncBaseTransport = httpx.ASGITransport(app)
        if ADAPTER == "connection":
            url = await stack.enter_async_context(listening(app))
            transport = _Wire(int(url.rpartition(":")[2]))
        yield await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers))


class _Wire(httpx.AsyncBaseTransport):
    """Sends a request exactly as it is, whatever its headers say, on a connection of its own, and reads one answer."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        line = b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)
        lines = [line, *(b"%b: %b" % field for field in request.headers.raw), b"", body]
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(b"\r\n".join(lines))
            head = await reader.readuntil(b"\r\n\r\n")
            status, *fields = head.decode("latin-1").split("\r\n")[:-2]
            headers = [(name, value) for name, _, value in (field.partition(": ") for field in fields)]
            length = int(next(value for name, value in headers if name == "content-length"))
            content = await reader.readexactly(0 if request.method == "HEAD" else length)
        finally:
            writer.close()
        return httpx.Response(int(status.split(" ")[1]), headers=headers, content=content)


@contextlib.asynccontextmanager
async def listening(
    app: Handlers, listener: socket.socket | None = None, connections: Connections | None = None
) -> AsyncIterator[str]:
    """The application on a real port, a free one where none is listened at yet; yields its URL."""
    server = HttpServer(app, connections or Connections())
    listener = listener or socket.create_server(("127.0.0.1", 0))
    accepting = await asyncio.get_running_loop().create_server(partial(HttpConnection, server), sock=listener)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await stop_listening(accepting)
        await server.drain(10)


@contextlib.asynccontextmanager
async def serving(path: Path) -> AsyncIterator[tuple[Gateway, str]]:
    """The gateway of a project on a free port; yields it, and the URL of its MCP endpoint."""
    async with Gateway.load(path) as gateway:
        app = App(gateway)
        async with listening(app) as url:
            try:
                yield gateway, f"{url}/mcp"
            finally:
                app.end_streams()


@contextlib.asynccontextmanager
async def served_by_uvicorn(app: Any) -> AsyncIterator[str]:
    """The application as ASGI on a real port, behind somebody else's server; yields its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        loop="none",
        server_header=False,
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


def run(main: Coroutine[Any, Any, None], seconds: float = 120) -> None:
    """Runs one test's coroutine to its end, at most so long."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await main

    asyncio.run(bounded())
