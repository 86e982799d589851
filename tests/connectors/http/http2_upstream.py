"""HTTP/2 server over the h2 library that keeps what it was sent, and answers as the path says."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from tests.connectors.http.upstreams import TIMEOUTS
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.client import PLACES, OriginClient
from toolgen.connectors.http.connector import Dialer, Target
from toolgen.connectors.http.reply import RawResponse
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.http.tls import ClientCertificate
from toolgen.core.clock import SystemClock
from toolgen.model.verdict import Allow

Answer = Callable[["Connection", int], None]


async def resolve(_: str, __: int) -> list[str]:
    return ["127.0.0.1"]


class Upstream:
    """The server. `answers` holds what is done for a path; a path that is missing is never answered."""

    def __init__(self, answers: dict[str, Answer] | None = None, *, most: int = 100) -> None:
        self.answers = {"/e": echo, **(answers or {})}
        self.most = most
        self.connections: list[Connection] = []
        self.changed = asyncio.Event()
        self.port = 0

    @property
    def requests(self) -> list[str]:
        return [path for connection in self.connections for path in connection.paths.values()]

    @property
    def resets(self) -> list[tuple[str, int]]:
        """Path and error code of the requests that the client has reset."""
        return [reset for connection in self.connections for reset in connection.resets]

    async def until(self, holds: Callable[[], bool], within_s: float = 10.0) -> None:
        """Wait until something is true of what was received."""
        async with asyncio.timeout(within_s):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    @asynccontextmanager
    async def serving(
        self,
        *,
        scheme: str = "http",
        host: str = "api.invalid",
        timeouts: Timeouts = TIMEOUTS,
        tls: Any = None,
        certificate: ClientCertificate | None = None,
    ) -> AsyncIterator[Caller]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        dialer = Dialer(
            permit=lambda _: Allow(rule="t"), resolver=resolve, timeouts=timeouts, clock=SystemClock(), http2=True
        )
        try:
            yield Caller(dialer, f"{scheme}://{host}:{self.port}", certificate)
        finally:
            await dialer.close()
            server.close()
            for connection in self.connections:
                connection.transport.abort()
            await server.wait_closed()


class Caller:
    """Sends requests to the server through the client of its origin."""

    def __init__(self, dialer: Dialer, origin: str, certificate: ClientCertificate | None) -> None:
        self._origin = origin
        self._places = asyncio.Semaphore(PLACES)
        self.client: OriginClient = dialer.client(Target.of(origin + "/"), "127.0.0.1", certificate=certificate)

    async def send(self, path: str = "/e", method: str = "GET", **more: Any) -> RawResponse:
        names = ("headers", "body", "stream")
        asked: dict[str, Any] = {"headers": (), "body": None}
        asked |= {name: more.pop(name) for name in names if name in more}
        request = HttpRequest(method=method, url=self._origin + path, **asked)
        return await self.client.send(request, more.pop("limit", 1 << 20), self._places, **more)


class Connection(asyncio.Protocol):
    """One connection of the server. `bodies` holds what came of each request's body, `fields` its headers as they were encoded."""

    transport: asyncio.Transport

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.paths: dict[int, str] = {}
        self.fields: dict[int, list[Any]] = {}
        self.bodies: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.resets: list[tuple[str, int]] = []
        self.goodbye: int | None = None
        self.takes_bodies = True
        self.outgoing: dict[int, bytes] = {}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        most = {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: upstream.most}
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=most)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.upstream.connections.append(self)
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.upstream.changed.set()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        try:
            events = self.h2.receive_data(data)
        except h2.exceptions.ProtocolError:
            self.flush()
            self.transport.close()
            raise
        for event in events:
            self._take(event)
        self.flush()
        self.upstream.changed.set()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                found = dict(event.headers)
                stream, path = event.stream_id, found[b":path"].decode()
                self.paths[stream], self.fields[stream] = path, list(event.headers)
                self.bodies[stream] = bytearray()
                if event.stream_ended is not None:
                    self.ended.add(stream)
                answer = self.upstream.answers.get(path)
                if answer is not None and (event.stream_ended is not None or path.startswith("/early")):
                    answer(self, stream)
            case h2.events.DataReceived():
                stream = event.stream_id
                self.bodies[stream] += event.data
                if self.takes_bodies:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
                answer = self.upstream.answers.get(self.paths[stream])
                if event.stream_ended is not None:
                    self.ended.add(stream)
                    if answer is not None and not self.paths[stream].startswith("/early"):
                        answer(self, stream)
            case h2.events.StreamReset(remote_reset=True):
                self.resets.append((self.paths[event.stream_id], int(event.error_code)))
                self.outgoing.pop(event.stream_id, None)
            case h2.events.WindowUpdated():
                for stream in list(self.outgoing):
                    with contextlib.suppress(h2.exceptions.StreamClosedError):  # its reset is the next event
                        self._more(stream)
            case h2.events.ConnectionTerminated():
                self.goodbye = int(event.error_code)

    def answer(self, stream: int, body: bytes = b"", *headers: tuple[str, str], status: int = 200) -> None:
        """Answer with a body as fast as the client takes it."""
        self.h2.send_headers(stream, [(":status", str(status)), *headers], end_stream=not body)
        if body:
            self.outgoing[stream] = body
            self._more(stream)

    def _more(self, stream: int) -> None:
        body = self.outgoing.pop(stream)
        while body and (room := min(self.h2.local_flow_control_window(stream), 16_384)) > 0:
            part, body = body[:room], body[room:]
            self.h2.send_data(stream, part, end_stream=not body)
        if body:
            self.outgoing[stream] = body


def echo(connection: Connection, stream: int) -> None:
    """Answers with what was received."""
    headers = {name.decode(): value.decode() for name, value in connection.fields[stream]}
    said = {"headers": headers, "body": connection.bodies[stream].decode("latin-1"), "stream": stream}
    connection.answer(stream, json.dumps(said).encode(), ("content-type", "application/json"))
