"""HTTP clients of the contract, each with a server of its protocol that answers as the path says."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from msgspec import Struct

from tests.connectors.http import http2_upstream
from tests.connectors.http.upstreams import dialer
from tests.stream_servers import stream_server
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.client import PLACES
from toolgen.connectors.http.connector import Target
from toolgen.connectors.http.reply import BrokenError, TimedOutError, UnsentError
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.http.streaming_client import StreamingClient

__all__ = ["CLIENTS", "HOST", "Answered", "Client", "NoAnswerError", "Received"]

HOST = "api.invalid"  # which no resolver knows: clients connect to the address that was checked
LONG = 300_000
HEAD_TOO_LONG = 1 << 20


class NoAnswerError(Exception):
    """There is no whole answer. `late`: it did not come in time."""

    def __init__(self, *, late: bool = False) -> None:
        super().__init__("late" if late else "broken")
        self.late = late


class Received(Struct, frozen=True, kw_only=True):
    """A request as the server has it. Names of headers are in lower case."""

    method: str
    target: str
    host: str
    headers: list[tuple[str, str]]
    body: bytes


class Answered(Struct, frozen=True, kw_only=True):
    """An answer as the client has it."""

    status: int
    body: bytes
    truncated: bool = False


class Client(ABC):
    """A client, its server, and what that has received. `limited`: the client bounds a body itself."""

    limited = True

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.port = 0

    @abstractmethod
    def serving(self) -> AbstractAsyncContextManager[None]:
        """Run the server."""

    @property
    @abstractmethod
    def received(self) -> list[Received]: ...

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @abstractmethod
    async def send(self, request: HttpRequest, limit: int = 1 << 20) -> Answered:
        """Send a request. Raises `NoAnswerError`, and `ValueError` for one that cannot be sent."""

    async def ask(
        self,
        path: str = "/ok",
        method: str = "GET",
        headers: tuple[tuple[str, str], ...] = (),
        body: bytes | None = None,
        limit: int = 1 << 20,
    ) -> Answered:
        return await self.send(HttpRequest(method=method, url=self.url + path, headers=headers, body=body), limit)


# HTTP/1.1

_ONE: dict[str, bytes | None] = {
    "/ok": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "/missing": b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone",
    "/moved": b"HTTP/1.1 302 Found\r\nLocation: /ok\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n",
    "/long": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LONG + b"x" * LONG,
    "/silent": None,
    "/half": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
    "/stalled": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
    "/nothing": b"",
    "/head": b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * HEAD_TOO_LONG + b"\r\nContent-Length: 2\r\n\r\nok",
    "/noise": b"\x00\xffnot HTTP at all\r\n\r\n",
}
_ENDS = {"/half", "/nothing", "/noise"}


class _Http1(Client):
    def __init__(self, timeouts: Timeouts) -> None:
        super().__init__(timeouts)
        self._received: list[Received] = []

    @property
    def received(self) -> list[Received]:
        return self._received

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async with stream_server(self._talk) as self.port, self.client():
            yield

    @abstractmethod
    def client(self) -> AbstractAsyncContextManager[None]: ...

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *lines = head.rstrip("\r\n").split("\r\n")
                method, target, _ = line.split(" ")
                pairs = [(name.lower(), value.strip()) for name, _, value in (one.partition(":") for one in lines)]
                found = dict(pairs)
                body = await reader.readexactly(int(found.get("content-length", "0")))
                headers = [pair for pair in pairs if pair[0] not in {"host", "connection"}]
                self._received.append(
                    Received(method=method, target=target, host=found["host"], headers=headers, body=body)
                )
                path = target.partition("?")[0]
                if (answer := _ONE[path]) is not None:
                    writer.write(answer)
                    await writer.drain()
                if path in _ENDS:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class OwnHttp1(_Http1):
    """The client of calls."""

    @asynccontextmanager
    async def client(self) -> AsyncIterator[None]:
        self._dialer = dialer(self.timeouts)
        self._places = asyncio.Semaphore(PLACES)
        try:
            yield
        finally:
            await self._dialer.close()

    async def send(self, request: HttpRequest, limit: int = 1 << 20) -> Answered:
        client = self._dialer.client(Target.of(request.url), "127.0.0.1")
        return await _whole(client, request, limit, self._places)


class Streaming(_Http1):
    """The client of answers that go on. Its caller bounds a body."""

    limited = False

    @asynccontextmanager
    async def client(self) -> AsyncIterator[None]:
        yield

    async def send(self, request: HttpRequest, limit: int = 1 << 20) -> Answered:
        client = StreamingClient("127.0.0.1", self.timeouts, None)
        try:
            async with client.send(request) as reply:
                return Answered(status=reply.status, body=b"".join([chunk async for chunk in reply.chunks()]))
        except OSError as error:
            raise NoAnswerError(late=str(error).endswith("Timeout")) from error


# HTTP/2


def _reset(connection: http2_upstream.Connection, stream: int) -> None:
    connection.h2.send_headers(stream, [(":status", "200"), ("content-length", "9")])
    connection.h2.send_data(stream, b"half")
    connection.h2.reset_stream(stream, 2)


def _gone(connection: http2_upstream.Connection, stream: int) -> None:
    connection.transport.abort()


def _begun(connection: http2_upstream.Connection, stream: int) -> None:
    connection.h2.send_headers(stream, [(":status", "200"), ("content-length", "9")])
    connection.h2.send_data(stream, b"half")


def _noise(connection: http2_upstream.Connection, stream: int) -> None:
    connection.transport.write(b"\x00\xffnot HTTP at all\r\n\r\n" * 10)


_TWO: dict[str, http2_upstream.Answer] = {
    "/ok": lambda one, stream: one.answer(stream, b"ok"),
    "/missing": lambda one, stream: one.answer(stream, b"gone", status=404),
    "/moved": lambda one, stream: one.answer(stream, b"", ("location", "/ok"), ("set-cookie", "a=1"), status=302),
    "/long": lambda one, stream: one.answer(stream, b"x" * LONG),
    "/half": _reset,
    "/stalled": _begun,
    "/nothing": _gone,
    "/head": lambda one, stream: one.answer(
        stream, b"ok", *((f"x-{n}", "a" * 1_000) for n in range(HEAD_TOO_LONG // 1_000))
    ),
    "/noise": _noise,
}


class OwnHttp2(Client):
    """The client of calls to sources that ask for HTTP/2."""

    def __init__(self, timeouts: Timeouts) -> None:
        super().__init__(timeouts)
        answers = {f"{path}{query}": answer for path, answer in _TWO.items() for query in ("", "?a=1&b=%20")}
        self._upstream = http2_upstream.Upstream(answers)

    @property
    def received(self) -> list[Received]:
        found = []
        for connection in self._upstream.connections:
            for stream, fields in connection.fields.items():
                pairs = [(name.decode(), value.decode("latin-1")) for name, value in fields]
                pseudo = {name: value for name, value in pairs if name.startswith(":")}
                found.append(
                    Received(
                        method=pseudo[":method"],
                        target=pseudo[":path"],
                        host=pseudo[":authority"],
                        headers=[pair for pair in pairs if not pair[0].startswith(":")],
                        body=bytes(connection.bodies[stream]),
                    )
                )
        return found

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async with self._upstream.serving(timeouts=self.timeouts) as caller:
            self.port, self._caller = self._upstream.port, caller
            self._places = asyncio.Semaphore(PLACES)
            yield

    async def send(self, request: HttpRequest, limit: int = 1 << 20) -> Answered:
        return await _whole(self._caller.client, request, limit, self._places)


async def _whole(client: Any, request: HttpRequest, limit: int, places: asyncio.Semaphore) -> Answered:
    try:
        found = await client.send(request, limit, places)
    except TimedOutError as error:
        raise NoAnswerError(late=True) from error
    except UnsentError as error:
        raise NoAnswerError(late=error.late) from error
    except BrokenError as error:
        raise NoAnswerError from error
    return Answered(status=found.status, body=found.body, truncated=found.truncated)


CLIENTS: dict[str, type[Client]] = {"HTTP/1.1": OwnHttp1, "HTTP/2": OwnHttp2, "streaming": Streaming}
