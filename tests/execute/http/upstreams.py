"""Servers that send what a test says, and the client that asks them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from toolgen.execute.http.client import Client, trusting_the_system
from toolgen.execute.http.connection import Reply, Times
from toolgen.execute.http.wire import Request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
Run = Callable[[Awaitable[Any]], Any]


class Server:
    """Sends one script after the other on each connection, whatever was asked; counts the connections."""

    def __init__(self, *scripts: bytes | None, ends: bool = False) -> None:
        self._scripts = scripts
        self._ends = ends
        self.connections = 0
        self.heads: list[bytes] = []
        self.port = 0
        self.gone: list[asyncio.Event] = []

    @asynccontextmanager
    async def serving(self, **more: Any) -> AsyncIterator[Client]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=more.pop("ssl", None))
        self.port = server.sockets[0].getsockname()[1]
        client = make(self.port, **more)
        try:
            yield client
        finally:
            client.close()
            server.close()
            await asyncio.wait_for(asyncio.gather(*(one.wait() for one in self.gone)), 60)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        gone = asyncio.Event()
        self.gone.append(gone)
        try:
            for script in self._scripts:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                if script is not None:
                    writer.write(script)
            if not self._ends:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            gone.set()


def make(port: int, **more: Any) -> Client:
    options: dict[str, Any] = {
        "scheme": "http",
        "host": "api.invalid",
        "port": port,
        "address": "127.0.0.1",
        "times": Times(connect_s=30, read_s=30, total_s=60),
        "tls": trusting_the_system,
    }
    return Client(**{**options, **more})


def asked(method: str = "GET", url: str = "http://api.invalid/a?b=1", body: bytes | None = None) -> Request:
    return Request(method=method, url=url, headers=(("X-Key", "secret"),), body=body)


async def answers(server: Server, *requests: Request, limit: int = 1000, **more: Any) -> list[Reply | BaseException]:
    async with server.serving(**more) as client:
        found: list[Reply | BaseException] = []
        for request in requests:
            try:
                found.append(await client.send(request, limit))
            except Exception as error:
                found.append(error)
        return found
