"""Server of an application in this process that answers complete requests: a mock, or the services of the demo."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from toolgen.connectors.mock_service import MockResponse
from toolgen.frontends.http.connection import HttpConnection
from toolgen.frontends.http.connections import Connections, HttpServer
from toolgen.frontends.http.request import Headers, Rejected, Request, Response, Send, refusal
from toolgen.frontends.server.signals import Stop
from toolgen.frontends.server.sockets import BACKLOG, bind, url_of

__all__ = ["Application", "serve_application", "served_in_thread"]

MAX_BODY_SIZE = 10 * 1024 * 1024
_DRAIN_S = 2.0
_EXIT_S = 5.0
_BODILESS = frozenset({204, 304})


class Application(Protocol):
    """Application that answers each request separately."""

    def answer(
        self, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> MockResponse:
        """Answer a request. `path` is encoded, header names are in lower case, and `body` is None if it is too large."""


class _WholeResponse(Response, frozen=True, kw_only=True):
    """Response with only the headers of the application."""

    def fields(self) -> Headers:
        """Return the headers, with the length if there is one (RFC 9110, section 8.6)."""
        kind: Headers = ((b"content-type", self.media_type),) if self.media_type else ()
        length: Headers = ((b"content-length", b"%d" % len(self.body)),) if self.status not in _BODILESS else ()
        return (*kind, *self.headers, *length)


class _ApplicationHandlers:
    """Request handlers of one application."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def serve(self, request: Request, send: Send) -> None:
        """Answer one request."""
        try:
            body = await _body(request)
        except Rejected as rejected:
            await send(request.finish(refusal(rejected)))
            return
        lines = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.lines]
        answer = self._application.answer(request.method, request.path, request.query.decode("latin-1"), lines, body)
        headers = tuple(
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()
        )
        whole = _WholeResponse(
            status=answer.status,
            body=b"" if answer.status in _BODILESS else answer.body,
            headers=headers,
            media_type=answer.media_type.encode("latin-1"),
        )
        await send(request.finish(whole))


async def _body(request: Request) -> bytes | None:
    """Read the whole body; None if it is too large. Raises `Rejected` if it does not arrive."""
    try:
        parts = [piece async for piece in request.pieces(MAX_BODY_SIZE)]
    except Rejected as rejected:
        if rejected.status == 413:
            return None
        raise
    return b"".join(parts)


def serve_application(application: Application, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. `port` 0 uses a free one; `ready` gets the URL. Raises `ConfigError` for an address in use."""
    listener = bind(host, port)

    async def main() -> None:
        stop = Stop()
        try:
            stop.listen()
            async with _accepting(application, listener):
                ready(url_of(listener))
                await stop.first
        finally:
            stop.close()

    try:
        asyncio.run(main())
    finally:
        listener.close()


@contextlib.contextmanager
def served_in_thread(application: Application) -> Iterator[str]:
    """Serve on a free port of loopback, in a thread, until the block ends. Yields the URL, which accepts connections at once."""
    listener = bind("127.0.0.1", 0)
    loop, ended = asyncio.new_event_loop(), asyncio.Event()

    async def main() -> None:
        async with _accepting(application, listener):
            await ended.wait()

    def run() -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(main())

    thread = threading.Thread(target=run, name="toolgen-application", daemon=True)
    thread.start()
    try:
        yield url_of(listener)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(_EXIT_S)
        listener.close()


@contextlib.asynccontextmanager
async def _accepting(application: Application, listener: socket.socket) -> AsyncIterator[None]:
    server = HttpServer(_ApplicationHandlers(application), Connections())
    protocol = partial(HttpConnection, server)
    accepting = await asyncio.get_running_loop().create_server(protocol, sock=listener, backlog=BACKLOG)
    try:
        yield
    finally:
        accepting.close()
        await server.drain(_DRAIN_S)
