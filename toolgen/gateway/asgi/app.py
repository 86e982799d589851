"""The one ASGI application: where a request goes, who it comes from, and what every answer has in common."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, MutableMapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from toolgen.config.gateway import Networks, contains
from toolgen.config.settings import ClientCertificates
from toolgen.errors import place_of
from toolgen.gateway.asgi.authentication import MCP, WELL_KNOWN, Door
from toolgen.gateway.asgi.connections import InFlight, client_of
from toolgen.gateway.asgi.request import (
    LOOPBACK_HOSTS,
    CredentialInUrl,
    Receive,
    Rejected,
    Request,
    Response,
    Scope,
    Send,
    Stream,
    check_host,
    json_response,
    refusal,
)
from toolgen.gateway.mcp.server import Mcp
from toolgen.gateway.mcp.streamable_http import McpEndpoint
from toolgen.gateway.metrics import MEDIA_TYPE
from toolgen.gateway.protocol import Facade
from toolgen.gateway.rest.audit import RestAudit
from toolgen.gateway.rest.calls import CallEvents, RestCalls
from toolgen.gateway.rest.openapi_document import openapi_json
from toolgen.gateway.rest.tools import Rest
from toolgen.gateway.tool_lists import Listings
from toolgen.model.call import Principal

__all__ = ["App", "Pages"]

log = logging.getLogger("toolgen.gateway")

_CALL = re.compile(r"/v1/tools/([^/]+)/call\Z")
_ANSWER = re.compile(r"/v1/answers/([^/]{1,128})/([A-Za-z0-9_-]{64})\Z")
_CONSOLE = re.compile(r"/console(?:/|\Z)")
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_METADATA = frozenset({WELL_KNOWN, WELL_KNOWN + MCP})


class Pages(Protocol):
    """What people see in a browser, below /console: a front end that knows by a cookie, and not by a credential, who asks."""

    async def handle(self, request: Request) -> Response | Stream: ...

    def end_streams(self) -> None:
        """Ends what browsers listen to."""

    def failed(self) -> Response:
        """The answer where something is wrong with the gateway itself."""

    async def close(self) -> None: ...


class App:
    """MCP at /mcp and REST below /v1, over one gateway.

    `hosts` are the names this gateway answers to in the Host header; `ANY_HOST` for a gateway whose names are not known.
    `certificates` names the proxies whose word on a client's certificate is believed, `proxies` those whose word on a client's address is.
    `url` is the origin that agents know it by.
    """

    def __init__(
        self,
        gateway: Facade,
        *,
        hosts: frozenset[str] = LOOPBACK_HOSTS,
        certificates: ClientCertificates | None = None,
        proxies: Networks = (),
        url: str = "",
    ) -> None:
        self._gateway = gateway
        self._proxies = proxies
        self._in_flight = InFlight()
        self._hosts = hosts | ({urlsplit(url).hostname or ""} if url else set())
        self._door = Door(gateway, certificates=certificates, url=url)
        listings = Listings(gateway)
        self._mcp = McpEndpoint(Mcp(gateway, listings))
        self._rest = Rest(gateway, listings)
        self._calls = RestCalls(gateway.tool_calls.approvals)
        self._events = CallEvents(gateway)
        self._audit = RestAudit(gateway)
        self._console: Pages | None = None
        self._https = url.startswith("https://")

    def open_console(self, pages: Callable[[Door], Pages], url: str = "") -> None:
        """Serves the console besides, at this origin. It shares the door, and with it how often an address may be wrong."""
        self._console = pages(self._door)
        self._https = self._https or url.startswith("https://")

    async def close(self) -> None:
        """Lets go of what the console holds."""
        if self._console is not None:
            await self._console.close()

    def end_streams(self) -> None:
        """Ends what would otherwise never end: streams that clients listen to. Calls in flight go on."""
        self._mcp.close()
        self._events.close()
        if self._console is not None:
            self._console.end_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3. Only HTTP is answered; a WebSocket is closed, and the lifespan is the server's business."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000})
            return
        request = Request(scope, receive)
        if not self._proxies or not contains(self._proxies, request.peer):
            await self._serve(request, send)
            return
        request.client = client_of(request.peer, scope["headers"], self._proxies)
        crowded = self._in_flight.enter(request.client)
        request.crowded = request.crowded or crowded
        try:
            await self._serve(request, send)
        finally:
            self._in_flight.leave(request.client)

    async def _serve(self, request: Request, send: Send) -> None:
        try:
            response: Response | Stream = await self._answer(request)
        except Rejected as rejected:
            response = refusal(rejected)
        except Exception as error:  # noqa: BLE001  (the outermost boundary; the text stays inside, it may hold anything)
            log.error(  # noqa: TRY400  (a traceback carries the text of the error)
                "a request to %s ended in %s", _route(request.path), place_of(error)
            )
            response = refusal(Rejected(500, "internal", "the gateway failed; the operator's log says where"))
            if self._console is not None and _CONSOLE.match(request.path):
                response = self._console.failed()
        self._gateway.operations.metrics.answered(response.status)
        await request.finish(response).send(_over_tls_alone(send) if self._https else send)

    async def _answer(self, request: Request) -> Response | Stream:
        check_host(request, self._hosts)
        try:
            request.check()
        except CredentialInUrl:
            await self._door.credential_in_url(request)
            raise
        if request.path == "/healthz":
            request.take("GET")
            return json_response({"status": "ok"})
        if request.path == "/readyz":
            request.take("GET")
            return await self._ready(request)
        if self._console is not None and _CONSOLE.match(request.path):
            return await self._console.handle(request)
        if request.path == "/metrics":
            request.take("GET")
            return Response(body=self._gateway.operations.measured(), media_type=MEDIA_TYPE)
        if request.path in _METADATA:
            return self._door.resource.metadata(request)
        principal = await self._door.enter(request)
        if b"traceparent" in request.headers:
            request.presence.trace = request.trace()
        if request.path == MCP:
            return await self._mcp.handle(request, principal)
        if found := _CALL.match(request.path):
            request.take("POST")
            return await self._rest.call(request, principal, found[1])
        return await self._rare(request, principal)

    async def _rare(self, request: Request, principal: Principal) -> Response | Stream:
        match request.path:
            case "/v1/tools":
                request.take("GET")
                return await self._rest.tools(request, principal)
            case "/v1/tool_calls":
                request.take("POST")
                return await self._rest.tool_calls(request, principal)
            case "/openapi.json":
                request.take("GET")
                return Response(body=openapi_json())
        if found := _ANSWER.match(request.path):
            request.take("GET")
            return await self._rest.kept_answer(request, principal, found[1], found[2])
        if response := await self._calls.answer(request, principal):
            return response
        if events := await self._events.answer(request, principal):
            return events
        if response := await self._audit.answer(request, principal):
            return response
        raise Rejected(404, "not_found", "there is nothing at this path", suggestion="/openapi.json lists the routes")

    async def _ready(self, request: Request) -> Response:
        """Whether calls are taken is for anybody; why not, and what else is wrong, is for those who could call."""
        reasons, warnings = self._gateway.operations.ready(), self._gateway.operations.warnings()
        answer: dict[str, object] = {"status": "not ready" if reasons else "ready"}
        if (reasons or warnings) and request.headers.get(b"authorization") is not None:
            await self._door.enter(request)
            answer |= {"reasons": list(reasons)} if reasons else {}
            answer |= {"warnings": list(warnings)} if warnings else {}
        return json_response(answer, status=503 if reasons else 200)


def _over_tls_alone(send: Send) -> Send:
    """Tells browsers to come over https and in no other way (RFC 6797), which they believe where they did: the proxy's TLS."""

    async def told(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], _HSTS]
        await send(message)

    return told


def _route(path: str) -> str:
    """The route for the log: a fixed word, because a path is text from outside."""
    if path == "/mcp":
        return "/mcp"
    if _CONSOLE.match(path):
        return "/console"
    return "/v1" if path.startswith("/v1/") else "another path"
