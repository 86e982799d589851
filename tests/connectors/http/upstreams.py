"""Servers that send what a test says, and the client that asks them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvloop
from msgspec.structs import replace

from tests.stream_servers import stream_server
from toolgen.connectors.http.client import PLACES
from toolgen.connectors.http.connector import Dialer, Target, Timeouts
from toolgen.connectors.http.reply import RawResponse
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.core.clock import SystemClock
from toolgen.model.verdict import Allow

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
TIMEOUTS = Timeouts(connect_s=60, first_byte_s=60, total_s=60)


class Server:
    """Sends one script after the other on each connection, whatever was asked; counts the connections and keeps what it was sent."""

    def __init__(self, *scripts: bytes | None, ends: bool = False) -> None:
        self._scripts = scripts
        self._ends = ends
        self.connections = 0
        self.heads: list[bytes] = []
        self.origin = ""
        self.gone: list[asyncio.Event] = []

    @asynccontextmanager
    async def serving(
        self, *, scheme: str = "http", host: str = "api.invalid", timeouts: Timeouts = TIMEOUTS, tls: Any = None
    ) -> AsyncIterator[Asking]:
        async with stream_server(self._serve, tls=tls) as port:
            self.origin = f"{scheme}://{host}:{port}"
            asking = Asking(self.origin, dialer(timeouts), asyncio.Semaphore(PLACES))
            try:
                yield asking
            finally:
                await asking.dialer.close()
                await asyncio.wait_for(asyncio.gather(*(one.wait() for one in self.gone)), 120)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        gone = asyncio.Event()
        self.gone.append(gone)
        try:
            await self.talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            gone.set()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What is said on one connection."""
        for script in self._scripts:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            if script is not None:
                writer.write(script)
        if not self._ends:
            await reader.read()


@dataclass(frozen=True, slots=True)
class Asking:
    """Sends requests to one origin, as the executor does."""

    origin: str
    dialer: Dialer
    places: asyncio.Semaphore

    async def send(self, request: HttpRequest, limit: int = 1000, until: float = math.inf) -> RawResponse:
        there = replace(request, url=request.url.replace("http://api.invalid", self.origin))
        target = Target.of(there.url)
        (address,) = await self.dialer.addresses(target)
        return await self.dialer.client(target, address).send(there, limit, self.places, until)


async def _loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def dialer(timeouts: Timeouts) -> Dialer:
    """It takes every name for this machine."""
    return Dialer(permit=lambda _: Allow(rule="t"), resolver=_loopback, timeouts=timeouts, clock=SystemClock())


def asked(
    method: str = "GET",
    url: str = "http://api.invalid/a?b=1",
    body: bytes | None = None,
    headers: tuple[tuple[str, str], ...] = (("X-Key", "secret"),),
) -> HttpRequest:
    return HttpRequest(method=method, url=url, headers=headers, body=body)


async def answers(
    server: Server, *requests: HttpRequest, limit: int = 1000, **more: Any
) -> list[RawResponse | BaseException]:
    async with server.serving(**more) as client:
        found: list[RawResponse | BaseException] = []
        for request in requests:
            try:
                found.append(await client.send(request, limit))
            except Exception as error:
                found.append(error.with_traceback(None))  # its frames hold the answer, and so the connection
        return found
