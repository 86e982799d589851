"""Requests to an ASGI application in this process: no socket, and no other destination."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from toolgen.connectors.executor import AsgiApp, LocalApp
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.client import OriginClient, request_bytes
from toolgen.connectors.http.connector import EgressRefusal, Route, Target
from toolgen.connectors.http.message import UndecodableError
from toolgen.connectors.http.reply import BodyListener, BrokenError, RawResponse, Sink, TimedOutError, UnsentError
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.http.tls import ClientCertificate
from toolgen.core.errors import place_of
from toolgen.model.verdict import Deny

__all__ = ["AppDialer"]

_logger = logging.getLogger(__name__)

_Message: TypeAlias = MutableMapping[str, Any]


class AppDialer:
    """Dialer whose only destination is one application. A redirect elsewhere is refused."""

    def __init__(self, local: LocalApp, timeouts: Timeouts) -> None:
        self._origin = Target.of(local.origin)
        self._client = _AppClient(local.app, self._origin, timeouts)

    async def addresses(self, target: Target) -> tuple[Route, ...]:
        """Return the one address of the application. Raises `EgressRefusal` for any other target."""
        if target != self._origin:
            reason = "the application led to another place, and its gateway reaches no other"
            raise EgressRefusal(Deny(rule="in_process", reason=reason, code="egress_refused"))
        return ("",)

    def client(
        self, target: Target, address: Route, among: int = 1, certificate: ClientCertificate | None = None
    ) -> OriginClient:
        """Return the client of the application."""
        return self._client

    async def close(self) -> None:
        """Wait for background work of the application after its answers, as long as a call may take, and cancel the rest."""
        await self._client.finish()
        self._client.close()


class _AppClient:
    """Client of an application. Long answers are read up to `limit`: they are not stored as files while they arrive."""

    def __init__(self, app: AsgiApp, origin: Target, timeouts: Timeouts) -> None:
        self._app = app
        self._origin = origin
        self._timeouts = timeouts
        self._running: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        return not self._running

    async def send(
        self,
        request: HttpRequest,
        limit: int,
        places: asyncio.Semaphore,
        until: float = math.inf,
        listener: BodyListener | None = None,
        sink: Sink | None = None,
    ) -> RawResponse:
        loop = asyncio.get_running_loop()
        if until <= loop.time():
            raise UnsentError("", late=True)
        scope, body = _scope(request, self._origin)
        if request.stream is not None:
            body += b"".join([part async for part in request.stream.parts()])
        exchange = _AppExchange(body, limit, listener)
        task = loop.create_task(self._run(scope, exchange))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            async with asyncio.timeout_at(min(until, loop.time() + self._timeouts.total_s)):
                return await exchange.reply
        except TimeoutError:
            raise TimedOutError from None
        finally:
            if not exchange.whole:  # the application may have background tasks after a complete answer
                task.cancel()

    async def finish(self) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=self._timeouts.total_s)

    def close(self) -> None:
        for task in self._running:
            task.cancel()

    async def _run(self, scope: _Message, exchange: _AppExchange) -> None:
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - frameworks answer 500 before they raise it again
            _logger.error("the application failed: %s", place_of(error))  # noqa: TRY400 - its text may hold anything
        finally:
            exchange.broken()


class _AppExchange:
    """Exchange of one request and its response with an ASGI application."""

    def __init__(self, body: bytes, limit: int, listener: BodyListener | None) -> None:
        self.reply: asyncio.Future[RawResponse] = asyncio.get_running_loop().create_future()
        self._body: bytes | None = body
        self._limit = limit
        self._listener = listener
        self._status = 0
        self._headers: dict[str, str] = {}
        self._answer = bytearray()
        self.whole = False

    async def receive(self) -> _Message:
        """Return the request's body, and then nothing before the answer is complete."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.wait((self.reply,))
        return {"type": "http.disconnect"}

    async def send(self, message: _Message) -> None:
        """Receive the next part of the answer."""
        if self.reply.done():
            return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            for name, value in message.get("headers", ()):
                self._headers.setdefault(bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
            if self._listener is not None and not self._listener.wants(self._headers):
                self._listener = None
        elif message["type"] == "http.response.body":
            data = bytes(message.get("body", b""))
            self._answer += data
            self.whole = not message.get("more_body", False)
            enough = self._listener is not None and self._listener.enough(data)
            if len(self._answer) > self._limit:
                del self._answer[self._limit :]
                self._end(truncated=True)
            elif enough or self.whole:
                self._end(truncated=False)

    def broken(self) -> None:
        """Handle the end of the application; without a complete answer that is an error."""
        if not self.reply.done():
            self.reply.set_exception(BrokenError())
            self.reply.exception()  # its caller may have disconnected

    def _end(self, *, truncated: bool) -> None:
        if self._headers.get("content-encoding", "identity") != "identity":
            self.reply.set_exception(
                UndecodableError("the application compressed an answer, although the request did not accept that")
            )
        else:
            body = bytes(self._answer)
            self.reply.set_result(
                RawResponse(status=self._status, headers=self._headers, body=body, truncated=truncated)
            )


def _scope(request: HttpRequest, origin: Target) -> tuple[_Message, bytes]:
    """Return the scope of a request, and its body except for a streamed one. Raises `ValueError` for a request that HTTP cannot send.

    It is built from the bytes that would be sent, so all checks of these apply here too.
    """
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    head, _, body = request_bytes(request, f"{host}:{origin.port}").partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.split(b" ")
    path, _, query = target.partition(b"?")
    fields = (line.partition(b":") for line in lines)
    headers = [(name.lower(), value.strip()) for name, _, value in fields]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method.decode("ascii"),
        "scheme": origin.scheme,
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        # Answers are not compressed, because they are not sent over a network.
        "headers": [(name, value) for name, value in headers if name != b"accept-encoding"],
        "client": ("127.0.0.1", 0),
        "server": (origin.host, origin.port),
        "state": {},
    }
    return scope, body
