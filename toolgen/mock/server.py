"""The mock's process: listens on loopback, says so once, and ends on a signal.

The mock as an ASGI application: one request in, one described answer out.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qsl

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from toolgen.errors import ConfigError
from toolgen.mock.description import Description
from toolgen.mock.requests import Request, faults, unsupported
from toolgen.mock.responses import Reply, preference, problem, reply

__all__ = ["MockApp", "serve_mock"]

_MAX_BODY_SIZE = 10 * 1024 * 1024


class MockApp:
    """Serves one description. Nothing is kept between requests: the same request always gets the same answer."""

    def __init__(self, description: Description) -> None:
        self._description = description

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = HttpRequest(scope, receive)
        try:
            body = await _body(request)
        except ClientDisconnect:
            return
        if body is None:
            answer = problem(413, "Too large", f"a mock takes at most {_MAX_BODY_SIZE >> 20} MiB")
        else:
            answer = self._answer(request, body)
        await _response(answer)(scope, receive, send)

    def _answer(self, http: HttpRequest, body: bytes) -> Reply:
        query = parse_qsl(http.url.query, keep_blank_values=True)
        path = http.scope.get("raw_path") or http.url.path.encode()
        found = self._description.find(path.decode("ascii", "replace").partition("?")[0], query)
        if not found:
            return problem(404, "Not found", "no path of the description matches")
        meant = next((one for one in found if one[0].operation.method.upper() == http.method), None)
        if meant is None:
            return _not_allowed({endpoint.operation.method.upper() for endpoint, _ in found})
        endpoint, captured = meant
        request = Request(path=captured, query=query, headers=_headers(http), cookies=http.cookies, body=body)
        wanted = preference(", ".join(http.headers.getlist("prefer")))
        if not wanted.code:
            if unsupported(endpoint, request):
                return problem(415, "Unsupported media type", f"this takes {', '.join(endpoint.accepts)}")
            if wrong := faults(self._description, endpoint, request):
                detail = "the request is not what the description asks for"
                return problem(400, "Bad request", detail, [fault.to_dict() for fault in wrong])
        return reply(self._description, endpoint, wanted, ", ".join(http.headers.getlist("accept")))


def _not_allowed(methods: set[str]) -> Reply:
    allowed = ", ".join(sorted(methods))
    return replace(problem(405, "Method not allowed", f"this path takes {allowed}"), headers={"Allow": allowed})


async def _body(request: HttpRequest) -> bytes | None:
    """The whole body, or None when it is too large."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > _MAX_BODY_SIZE:
            return None
        parts.append(part)
    return b"".join(parts)


def _headers(request: HttpRequest) -> dict[str, str]:
    return dict(request.headers.items())


def _response(answer: Reply) -> Response:
    headers = {**answer.headers, "Content-Type": answer.media_type} if answer.media_type else dict(answer.headers)
    return Response(answer.body, status_code=answer.status, headers=headers)


def serve_mock(app: MockApp, *, host: str, port: int, title: str) -> None:
    """Serves until SIGINT or SIGTERM. `port` 0 takes a free one; the ready line names it. Raises `ConfigError` for an address in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {host[:200]!r}: it is no address", suggestion="see --host") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            message = f"cannot listen on {host} port {port}: {error.strerror}"
            raise ConfigError(message, suggestion="choose another with --port, 0 for a free one") from error
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False)
        asyncio.run(_Server(config, title).serve(sockets=[listener]))


class _Server(uvicorn.Server):
    """uvicorn, which says when it accepts connections and ends quietly on a signal."""

    def __init__(self, config: uvicorn.Config, title: str) -> None:
        super().__init__(config)
        self._title = title

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for one in sockets or ():
            host, port = one.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            print(f"toolgen mocks {self._title} on http://{shown}:{port}", file=sys.stderr, flush=True)  # noqa: T201

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn raises the signal again once it has stopped, which would look like a crash."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
