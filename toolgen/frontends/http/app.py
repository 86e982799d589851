"""HTTP application: routes a request to its front end, identifies its sender, and adds the common headers. Two adapters pass requests to
it: the connections of the gateway's own server (`connection.py`), and ASGI for any other server or test client.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote, urlsplit

from toolgen.config.gateway import Networks, contains, mount_of
from toolgen.config.settings import ClientCertificates
from toolgen.core.errors import AuditError, StateError, place_of
from toolgen.frontends.http.authentication import Authentication
from toolgen.frontends.http.client_address import client_of
from toolgen.frontends.http.connections import InFlight
from toolgen.frontends.http.cross_origin import CrossOrigin
from toolgen.frontends.http.mount_path import below_mount, mount_path, mounted_at
from toolgen.frontends.http.protected_resource import MCP, WELL_KNOWN
from toolgen.frontends.http.request import (
    LOOPBACK_HOSTS,
    Answer,
    CredentialInUrl,
    FileResponse,
    Rejected,
    Request,
    Response,
    Send,
    check_host,
    host_name,
    json_response,
    read_path,
    refusal,
)
from toolgen.frontends.mcp.server import Mcp
from toolgen.frontends.mcp.streamable_http import McpEndpoint
from toolgen.frontends.rest.accounts import RestAccounts
from toolgen.frontends.rest.approvals import RestApprovals
from toolgen.frontends.rest.audit import RestAudit
from toolgen.frontends.rest.call_events import CallEvents
from toolgen.frontends.rest.calls import RestCalls
from toolgen.frontends.rest.context import RestContext
from toolgen.frontends.rest.devices import RestDevices
from toolgen.frontends.rest.files import RestFiles
from toolgen.frontends.rest.grants import RestGrants
from toolgen.frontends.rest.openapi_document import openapi_json
from toolgen.frontends.rest.tools import Rest
from toolgen.gateway.catalog.tool_lists import Listings
from toolgen.gateway.metrics.prometheus import DETAILS, MEDIA_TYPE
from toolgen.gateway.metrics.tracing import Spans
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal

__all__ = ["App", "AsgiReceive", "AsgiSend", "OwnEndpoints", "Pages", "Scope"]

Scope: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger("toolgen.gateway")

_CALL = re.compile(r"/v1/tools/([^/]+)/call\Z")
_TOOL = re.compile(r"/v1/tools/([^/]{1,128})\Z")
_ANSWER = re.compile(r"/v1/answers/([^/]{1,128})/([A-Za-z0-9_-]{64})\Z")
_ENDPOINT = re.compile(rf"{MCP}/([a-z][a-z0-9-]{{0,39}})/?\Z")
_CONSOLE = re.compile(r"/console(?:/|\Z)")
_ACCOUNTS = re.compile(r"/accounts/(?:link/[A-Za-z0-9_-]{20,64}|callback/[a-z][a-z0-9_]{0,19})\Z")
# HSTS (RFC 6797): browsers use only https from now on. They ignore it in answers that did not come over TLS.
_HSTS = ((b"strict-transport-security", b"max-age=31536000"),)
_MAX_KNOWN_HOSTS = 64
_PLAIN = "/!$&'()*+,;=:@\\%"
_STATUS = frozenset({"/healthz", "/readyz", "/metrics"})
_METADATA = frozenset({WELL_KNOWN, WELL_KNOWN + MCP, WELL_KNOWN + MCP + "/"})
_MCP_PATHS = frozenset({MCP, MCP + "/"})  # some clients add or remove a slash at the end of the address


class Pages(Protocol):
    """Web pages below /console and /accounts: a front end that identifies users by a cookie, not by a credential.

    A protocol, because the console implements it, which imports this module.
    """

    async def handle(self, request: Request) -> Answer: ...

    def end_streams(self) -> None:
        """End the streams of browsers."""

    def failed(self) -> Response:
        """Return the answer for a fault of the gateway itself."""

    async def close(self) -> None: ...


class OwnEndpoints(Protocol):
    """Endpoints of the gateway's authorization server, which need no credential.

    A protocol, because a front end implements it, which imports this module.
    """

    def serves(self, path: str) -> bool: ...

    async def handle(self, request: Request) -> Response: ...


class _Routes(Protocol):
    async def answer(self, request: Request, principal: Principal) -> Response | None: ...


class App:
    """App: MCP at /mcp and REST below /v1, over one gateway.

    `hosts` are the permitted names in the Host header; `ANY_HOST` for a gateway whose names are not known. `certificates` names the proxies
    that are trusted to state a client's certificate, `proxies` those that are trusted to state a client's address. `url` is the public
    address of the gateway; requests have its path, or a proxy removed it. `cross_origin` names the web pages of other origins that may use
    it. `open_metrics`: anyone may read the metrics without names, not only those who may read the audit log.
    """

    def __init__(
        self,
        gateway: Facade,
        *,
        hosts: frozenset[str] = LOOPBACK_HOSTS,
        certificates: ClientCertificates | None = None,
        proxies: Networks = (),
        url: str = "",
        cross_origin: CrossOrigin = CrossOrigin(),  # noqa: B008 - frozen
        open_metrics: bool = True,
    ) -> None:
        self._gateway = gateway
        self._cross_origin = cross_origin
        self._open_metrics = open_metrics
        self._proxies = proxies
        self._in_flight = InFlight()
        self._hosts = hosts | ({urlsplit(url).hostname or ""} if url else set())
        self._known_hosts: set[bytes] = set()  # in the spelling of clients
        self._authentication = Authentication(gateway, certificates=certificates, url=url)
        listings = Listings(gateway)
        self._mcp = McpEndpoint(Mcp(gateway, listings), gateway.tool_calls.approvals.departed)
        self._rest = Rest(gateway, listings)
        self._spans = gateway.operations.spans
        self._approvals = RestApprovals(gateway.tool_calls.approvals)
        self._grants = RestGrants(gateway.tool_calls.approvals, gateway.role_grants)
        self._accounts = RestAccounts(gateway.accounts)
        self._calls = RestCalls(gateway.tool_calls.approvals)
        self._events = CallEvents(gateway)
        self._devices = RestDevices(gateway)
        self._context = RestContext(gateway.context)
        self._files = RestFiles(gateway.tool_calls.files)
        self._audit = RestAudit(gateway)
        self._console: Pages | None = None
        self._apps_host = ""
        self._sign_in: OwnEndpoints | None = None
        self._https = url.startswith("https://")
        self._mount = mount_of(url)

    def open_console(self, pages: Callable[[Authentication], Pages], url: str = "", *, apps_host: str = "") -> None:
        """Serve the console at this origin too. It shares the authentication and its limit of failed attempts. `apps_host` is the host name
        that serves pages of apps only."""
        self._console = pages(self._authentication)
        self._apps_host = apps_host
        self._https = self._https or url.startswith("https://")

    def open_sign_in(self, endpoints: Callable[[Authentication], OwnEndpoints]) -> None:
        """Serve the authorization server too."""
        self._sign_in = endpoints(self._authentication)

    async def close(self) -> None:
        """Close the resources of the console."""
        if self._console is not None:
            await self._console.close()

    def end_streams(self) -> None:
        """End streams that have no end of their own. Calls in flight continue."""
        self._mcp.close()
        self._events.close()
        self._devices.close()
        if self._console is not None:
            self._console.end_streams()

    def count(self, status: int) -> None:
        """Count an answer that was given without this application."""
        self._gateway.operations.metrics.answered(status)

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Serve ASGI 3. Only HTTP is answered; a WebSocket is closed, and the server handles the lifespan."""
        if scope["type"] == "http":
            await _AsgiExchange(scope, receive, send).run(self)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def serve(self, request: Request, send: Send) -> None:
        """Answer one request of either adapter. Raises only the errors of `send`."""
        if self._mount and not mount_path():
            request.path = below_mount(request.path, self._mount)
            with mounted_at(self._mount):
                await self.serve(request, send)
            return
        if not self._proxies or not contains(self._proxies, request.peer):
            await send(await self._answered(request))
            return
        request.client = client_of(request.peer, request.lines, self._proxies)
        crowded = self._in_flight.enter(request.client)
        request.crowded = request.crowded or crowded
        try:
            await send(await self._answered(request))
        finally:
            self._in_flight.leave(request.client)

    async def _answered(self, request: Request) -> Answer:
        answer: Answer
        try:
            answer = await self._answer(request)
        except Rejected as rejected:
            answer = refusal(rejected)
        except (StateError, AuditError) as error:
            log.error("a request to %s was refused: %s", _route(request.path), error)  # noqa: TRY400 - it says all there is
            answer = refusal(Rejected.by_fault(error))
        except Exception as error:  # noqa: BLE001  (the outermost boundary; the text stays inside, it may hold anything)
            log.error(  # noqa: TRY400  (a traceback carries the text of the error)
                "a request to %s ended in %s", _route(request.path), place_of(error)
            )
            answer = refusal(Rejected(500, "internal", "the gateway failed; the operator's log says where"))
            if self._console is not None and _CONSOLE.match(request.path):
                answer = self._console.failed()
        self._gateway.operations.metrics.answered(answer.status)
        if request.shared:
            answer = self._cross_origin.shared(request, answer)
        if request.unread or self._https:
            return request.finish(answer, _HSTS if self._https else ())
        return answer

    async def _answer(self, request: Request) -> Answer:
        host = request.headers.get(b"host", b"")
        if host not in self._known_hosts or b"origin" in request.headers:
            if self._apps_host and host_name(request) == self._apps_host:
                return await self._app_page(request)
            self._check_host(request, host)
        request.path = read_path(request.path)
        if request.query or request.repeated:
            await self._check(request)
        if request.shared and request.method == "OPTIONS":
            return self._cross_origin.preflight(request)
        if request.path in _STATUS:
            return await self._status(request)
        if self._console is not None and (_CONSOLE.match(request.path) or _ACCOUNTS.match(request.path)):
            return await self._console.handle(request)
        if request.path == "/" and self._console is not None and b"text/html" in request.headers.get(b"accept", b""):
            request.take("GET")
            return Response(status=302, headers=((b"location", f"{mount_path()}/console".encode("ascii")),))
        if self._sign_in is not None and self._sign_in.serves(request.path):
            return await self._sign_in.handle(request)
        if request.path in _METADATA:
            return self._authentication.resource.metadata(request)
        principal = await self._authentication.enter(request)
        if b"traceparent" in request.headers:
            request.caller_connection.trace = request.trace()
        if request.path in _MCP_PATHS:
            return await self._mcp.handle(request, principal)
        if found := _CALL.match(request.path):
            request.take("POST")
            if self._spans is not None:
                return await self._traced(request, principal, found[1], self._spans)
            return await self._rest.call(request, principal, found[1])
        return await self._rare(request, principal)

    async def _status(self, request: Request) -> Answer:
        """Answer a question about the gateway itself: is it alive, is it ready, its metrics."""
        request.take("GET")
        if request.path == "/healthz":
            return json_response({"status": "ok"})
        return await (self._ready(request) if request.path == "/readyz" else self._measured(request))

    def _check_host(self, request: Request, host: bytes) -> None:
        """Check the names of host and origin, and remember a host that may be asked. Raises `Rejected`."""
        request.shared = self._cross_origin.allows(request)
        check_host(request, self._hosts, shared=request.shared)
        if len(self._known_hosts) < _MAX_KNOWN_HOSTS:
            self._known_hosts.add(host)

    async def _app_page(self, request: Request) -> Answer:
        """Answer a request to the host of apps: with the page of an app, and with nothing else that the gateway has."""
        request.path = read_path(request.path)
        await self._check(request)
        if self._console is None or not request.path.startswith("/apps/"):
            raise Rejected(
                404, "not_found", "this host serves only pages of apps", suggestion="use the gateway's own address"
            )
        return await self._console.handle(request)

    async def _traced(self, request: Request, principal: Principal, name: str, spans: Spans) -> Answer:
        """Answer a call in a span of its own, which its execution is below."""
        span, error = spans.of_rest_call(request.caller_connection.trace), "internal"
        request.caller_connection.trace = span.trace
        try:
            answer = await self._rest.call(request, principal, name)
            error = str(answer.status) if answer.status >= 500 else ""
        except Rejected as rejected:
            error = str(rejected.status) if rejected.status >= 500 else ""
            raise
        finally:
            span.end(error)
        return answer

    async def _check(self, request: Request) -> None:
        try:
            request.check()
        except CredentialInUrl:
            await self._authentication.credential_in_url(request)
            raise

    async def _rare(self, request: Request, principal: Principal) -> Answer:
        match request.path:
            case "/v1/tools":
                request.take("GET")
                return await self._rest.tools(request, principal)
            case "/v1/tool_calls":
                request.take("POST")
                return await self._rest.tool_calls(request, principal)
            case "/v1/files":
                return await self._files.take(request, principal)
            case "/openapi.json":
                request.take("GET")
                return Response(body=openapi_json())
        if (found := _ENDPOINT.match(request.path)) and (narrowed := self._entered(principal, found[1])) is not None:
            return await self._mcp.handle(request, narrowed)
        if found := _TOOL.match(request.path):
            request.take("GET")
            return await self._rest.tool(request, principal, found[1])
        if found := _ANSWER.match(request.path):
            request.take("GET")
            return await self._rest.kept_answer(request, principal, found[1], found[2])
        routes: tuple[_Routes, ...] = (self._calls, self._approvals, self._grants, self._accounts)
        for one in routes:
            if response := await one.answer(request, principal):
                return response
        if events := await self._events.answer(request, principal):
            return events
        if answer := await self._devices.answer(request, principal):
            return answer
        if response := await self._context.answer(request, principal):
            return response
        if response := await self._audit.answer(request, principal):
            return response
        raise Rejected(404, "not_found", "there is nothing at this path", suggestion="/openapi.json lists the routes")

    def _entered(self, principal: Principal, endpoint: str) -> Principal | None:
        """Return the principal at an endpoint of MCP; None if there is no such endpoint, or it has nothing for this principal."""
        narrowed = self._gateway.context.servers.narrowed(principal, endpoint)
        if narrowed is None:
            return None
        context = self._gateway.context
        seen = self._gateway.tool_calls.catalog(narrowed) or context.prompts(narrowed) or context.resources(narrowed)
        return narrowed if seen or context.templates(narrowed) else None

    async def _measured(self, request: Request) -> Response:
        """Return metrics: sums for every client; the names of `?detail=sources,tools` only for principals that may read the audit log."""
        asked = request.parameters("detail").get("detail") if request.query else None
        if asked is None and self._open_metrics:
            return Response(body=await self._gateway.operations.measured(), media_type=MEDIA_TYPE)
        principal = await self._authentication.enter(request)
        if not self._gateway.callers.may_review(principal):
            raise Rejected(
                403,
                "forbidden",
                "this principal may not see these metrics: it may not read the audit",
                suggestion="leave the query away, or ask the author of the policy",
            )
        if asked is None:
            return Response(body=await self._gateway.operations.measured(), media_type=MEDIA_TYPE)
        words = frozenset(asked.split(","))
        if not words <= {*DETAILS, "all"}:
            raise Rejected(
                400,
                "validation",
                "the query parameter detail has an unknown word",
                suggestion=f"use {', '.join(DETAILS)} (several with commas between them), or all",
            )
        body = await self._gateway.operations.measured(DETAILS if "all" in words else words)
        return Response(body=body, media_type=MEDIA_TYPE)

    async def _ready(self, request: Request) -> Response:
        """Answer the readiness check. Anybody may read whether calls are accepted; reasons and warnings need a credential."""
        reasons, warnings = self._gateway.operations.ready(), self._gateway.operations.warnings()
        answer: dict[str, object] = {"status": "not ready" if reasons else "ready"}
        if (reasons or warnings) and request.headers.get(b"authorization") is not None:
            await self._authentication.enter(request)
            answer |= {"reasons": list(reasons)} if reasons else {}
            answer |= {"warnings": list(warnings)} if warnings else {}
        return json_response(answer, status=503 if reasons else 200)


class _AsgiExchange:
    """HTTP request and response over ASGI."""

    def __init__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        self._receive = receive
        self._send = send
        self._watching: asyncio.Task[None] | None = None
        lines = scope["headers"]
        headers: dict[bytes, bytes] = {}
        repeated = set[bytes]()
        for name, value in lines:
            if name in headers:
                repeated.add(name)
            else:
                headers[name] = value
        client = scope.get("client")
        raw = scope.get("raw_path")  # not every server provides it; without it the encoded form of `path` is unknown
        path = quote(scope["path"], safe=_PLAIN) if raw is None else raw.decode("latin-1")
        line = (scope["method"], path, scope["query_string"])
        peer = client[0] if client else ""
        self._request = Request(line, lines, headers, frozenset(repeated), self._read, peer)

    async def run(self, app: App) -> None:
        try:
            await app.serve(self._request, self._answer)
        finally:
            if self._watching is not None:
                self._watching.cancel()

    async def _read(self) -> tuple[bytes, bool] | None:
        message = await self._receive()
        if message["type"] != "http.request":
            self._request.caller_connection.leave()
            return None
        more = message.get("more_body", False)
        if not more:
            self._watch()
        return message.get("body", b""), more

    async def _answer(self, answer: Answer) -> None:
        start = {"type": "http.response.start", "status": answer.status, "headers": list(answer.fields())}
        if isinstance(answer, Response):
            await self._send(start)
            await self._send({"type": "http.response.body", "body": answer.body})
            return
        if isinstance(answer, FileResponse):
            await self._send(start)
            async for part in answer.parts:
                if self._request.caller_connection.disconnected():
                    return
                await self._send({"type": "http.response.body", "body": part, "more_body": True})
            await self._send({"type": "http.response.body", "body": b""})
            return
        if self._watching is None:
            await self._read()  # a request for a stream has no body; the next message is the disconnect
        await self._send(start)
        async for event in answer.events:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    def _watch(self) -> None:
        self._watching = asyncio.create_task(self._departure())

    async def _departure(self) -> None:
        if (await self._receive())["type"] == "http.disconnect":
            self._request.caller_connection.leave()


def _route(path: str) -> str:
    """Return the route for the log: a fixed word, because a path is text from outside."""
    if path == MCP or path.startswith(f"{MCP}/"):
        return MCP
    if _CONSOLE.match(path):
        return "/console"
    return "/v1" if path.startswith("/v1/") else "another path"
