"""The mock: an ASGI application, one request in, one described answer out, in a process that listens on loopback and ends on a signal.

A request is refused where it lacks what the description requires, or holds something of another type.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, unquote

import jsonschema_rs
import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolgen.connectors.openapi.mock.description import Endpoint, MockDescription
from toolgen.connectors.openapi.mock.responses import MockResponse, preference, problem, reply
from toolgen.connectors.openapi.operation import Parameter
from toolgen.connectors.openapi.v3 import JSON
from toolgen.core.errors import ConfigError
from toolgen.core.json_codec import decode_json
from toolgen.model.schema import Json

__all__ = ["MockApp", "mocked", "serve_mock"]

# Which values of a style are the text that was sent; of a form there may be several under one name.
_PLAIN = {"simple": ("integer", "number", "boolean", "string"), "form": ("integer", "number", "boolean")}
_INTEGER = re.compile(r"-?[0-9]+\Z")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")


class MockRequest(Struct, frozen=True, kw_only=True):
    """A request, taken apart. Header names are in lower case; `path` holds what the template's braces stand for, still encoded."""

    path: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    body: bytes


class RequestFault(Struct, frozen=True, kw_only=True):
    """Fault of a request and its place: `in` is path, query, header, cookie or body."""

    in_: str
    name: str
    detail: str

    def to_dict(self) -> dict[str, str]:
        return {"in": self.in_, "name": self.name, "detail": self.detail}


def unsupported(endpoint: Endpoint, request: MockRequest) -> bool:
    """Return True if the operation does not accept the media type of the body (RFC 9110, section 15.5.16)."""
    sent = _plain(request.headers.get("content-type", ""))
    if not request.body or not sent or not endpoint.accepts:
        return False
    ranges = [_plain(accepted) for accepted in endpoint.accepts]
    return not any(one in {sent, "*/*"} or (one.endswith("/*") and sent.startswith(one[:-1])) for one in ranges)


def faults(description: MockDescription, endpoint: Endpoint, request: MockRequest) -> list[RequestFault]:
    """Whatever keeps the request from being what the operation asks for; nothing beyond that is looked at."""
    found = [
        fault
        for parameter in endpoint.operation.parameters
        if (fault := _parameter_fault(description, parameter, request)) is not None
    ]
    return [*found, *_body_faults(description, endpoint, request)]


def _parameter_fault(description: MockDescription, parameter: Parameter, request: MockRequest) -> RequestFault | None:
    values = _values(parameter, request)
    schema = description.expected(parameter.schema) or {}
    kind = _kind(schema)
    if not values:
        spread = parameter.in_ == "querystring" or (kind in ("object", "") and parameter.in_ in ("query", "cookie"))
        if not parameter.required or spread or parameter.in_ == "path":
            return None  # a path that matched has its parameters; an exploded object has no name of its own on the wire
        return RequestFault(in_=parameter.in_, name=parameter.name, detail="is required and missing")
    if parameter.content_type or kind not in _PLAIN.get(parameter.style, ()):
        return None
    value = _typed(values[0], kind)
    try:
        wrong = next(iter(jsonschema_rs.validator_for(dict(schema)).iter_errors(value)), None)
    except (ValueError, jsonschema_rs.ReferencingError):
        return None
    return RequestFault(in_=parameter.in_, name=parameter.name, detail=wrong.message[:300]) if wrong else None


def _values(parameter: Parameter, request: MockRequest) -> list[str]:
    match parameter.in_:
        case "path":
            found = request.path.get(parameter.name)
            return [] if found is None else [unquote(found)]
        case "query":
            start = f"{parameter.name}["
            return [value for name, value in request.query if name == parameter.name or name.startswith(start)]
        case "header":
            given = request.headers.get(parameter.name.lower())
            return [] if given is None else [given]
        case _:
            cookie = request.cookies.get(parameter.name)
            return [] if cookie is None else [cookie]


def _kind(schema: Mapping[str, Any]) -> str:
    """The one type of a plain value, or "" where it is not that simple."""
    kind = schema.get("type")
    return kind if isinstance(kind, str) else ""


def _typed(text: str, kind: str) -> Json:
    match kind:
        case "integer" if _INTEGER.match(text):
            return int(text[:100])
        case "integer" | "number" if _NUMBER.match(text):
            return float(text)
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case _:
            return text


def _body_faults(description: MockDescription, endpoint: Endpoint, request: MockRequest) -> Iterator[RequestFault]:
    body = endpoint.operation.body
    if body is None:
        return
    if not request.body:
        if body.required:
            yield RequestFault(in_="body", name="", detail=f"a body of {body.media_type} is required and missing")
        return
    if not JSON.match(body.media_type) or not JSON.match(request.headers.get("content-type", "application/json")):
        return
    try:
        value = decode_json(request.body)
    except (ValueError, RecursionError) as error:
        yield RequestFault(in_="body", name="", detail=f"is not JSON: {error}")
        return
    schema = description.expected(body.schema)
    if schema is None:
        return
    try:
        errors = jsonschema_rs.Draft202012Validator(dict(schema), offline=True).iter_errors(value)
    except (ValueError, jsonschema_rs.ReferencingError):
        return
    for wrong in islice(errors, 10):
        where = "".join(f"/{token}" for token in wrong.instance_path)
        yield RequestFault(in_="body", name=where, detail=wrong.message[:300])


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


_MAX_BODY_SIZE = 10 * 1024 * 1024
_EXIT_S = 5.0


class MockApp:
    """Serves one description. Nothing is kept between requests: the same request always gets the same answer."""

    def __init__(self, description: MockDescription) -> None:
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

    def _answer(self, http: HttpRequest, body: bytes) -> MockResponse:
        query = parse_qsl(http.url.query, keep_blank_values=True)
        path = http.scope.get("raw_path") or http.url.path.encode()
        found = self._description.find(path.decode("ascii", "replace").partition("?")[0], query)
        if not found:
            return problem(404, "Not found", "no path of the description matches")
        meant = next((one for one in found if one[0].operation.method.upper() == http.method), None)
        if meant is None:
            return _not_allowed({endpoint.operation.method.upper() for endpoint, _ in found})
        endpoint, captured = meant
        request = MockRequest(path=captured, query=query, headers=_headers(http), cookies=http.cookies, body=body)
        wanted = preference(", ".join(http.headers.getlist("prefer")))
        if not wanted.code:
            if unsupported(endpoint, request):
                return problem(415, "Unsupported media type", f"this takes {', '.join(endpoint.accepts)}")
            if wrong := faults(self._description, endpoint, request):
                detail = "the request is not what the description asks for"
                return problem(400, "Bad request", detail, [fault.to_dict() for fault in wrong])
        return reply(self._description, endpoint, wanted, ", ".join(http.headers.getlist("accept")))


def _not_allowed(methods: set[str]) -> MockResponse:
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


def _response(answer: MockResponse) -> Response:
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


@contextlib.contextmanager
def mocked(app: ASGIApp) -> Iterator[str]:
    """Serves on a free port of loopback, in a thread, until the block ends. Gives its URL, which takes connections at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False)
        server = _InThread(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="toolgen-mock", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_EXIT_S)


class _InThread(uvicorn.Server):
    """uvicorn beside what the main thread does: signals are that one's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
