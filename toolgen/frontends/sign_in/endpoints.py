"""HTTP endpoints of the authorization server: metadata, keys, registration, tokens, and the pages of a sign-in."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from toolgen.config.console import SignIn
from toolgen.frontends.console.identity_provider import Provider
from toolgen.frontends.http.authentication import Authentication
from toolgen.frontends.http.protected_resource import MCP, WELL_KNOWN, OwnIssuer
from toolgen.frontends.http.request import (
    Headers,
    Rejected,
    Request,
    Response,
    json_response,
    read_json_body,
    too_crowded,
)
from toolgen.frontends.sign_in.pages import ConsentPages
from toolgen.gateway.identity.identity_providers import make_asker
from toolgen.gateway.protocol import Administration
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.records import SCOPE
from toolgen.gateway.sign_in.server import SignInServer, server_metadata

__all__ = ["SignInEndpoints", "sign_in_of"]

_SERVER = r"/\.well-known/(?:oauth-authorization-server|openid-configuration)"
# At the root, with the path of the resource after it (RFC 8414 section 3.1), and below the resource, for proxies that pass that alone.
_METADATA = re.compile(rf"(?:{_SERVER}(?:{MCP}(?:/[a-z][a-z0-9-]{{0,39}})?)?|{MCP}{_SERVER})/?\Z")
_RESOURCE = re.compile(
    rf"(?:{re.escape(WELL_KNOWN)}(?P<at>{MCP}(?:/[a-z][a-z0-9-]{{0,39}})?)?|{MCP}{re.escape(WELL_KNOWN)})/?\Z"
)
_OWN = re.compile(r"/oauth/[a-z]{1,20}\Z")
_FORM = b"application/x-www-form-urlencoded"
_MAX_FORM_SIZE = 65_536
_MAX_FIELDS = 50
_NO_STORE: Headers = ((b"pragma", b"no-cache"),)
_KEPT: Headers = ((b"cache-control", b"public, max-age=300"),)

Handler = Callable[[Request], Awaitable[Response]]


class SignInEndpoints:
    """Endpoints of the gateway's authorization server."""

    def __init__(
        self, server: SignInServer, gateway: Administration, authentication: Authentication, provider: Provider
    ) -> None:
        self._server = server
        self._gateway = gateway
        self._authentication = authentication
        self._pages = ConsentPages(server, gateway, provider)
        self._routes: Mapping[str, tuple[str, Handler]] = {
            "/oauth/authorize": ("GET", self._pages.authorize),
            "/oauth/callback": ("GET", self._pages.callback),
            "/oauth/consent": ("POST", self._pages.consent),
            "/oauth/token": ("POST", self._token),
            "/oauth/register": ("POST", self._register),
            "/oauth/revoke": ("POST", self._revoke),
            "/oauth/introspect": ("POST", self._introspect),
            "/oauth/jwks": ("GET", self._jwks),
        }

    def serves(self, path: str) -> bool:
        """Return True for the path of an endpoint."""
        return bool(_OWN.match(path) or _METADATA.match(path) or _RESOURCE.match(path))

    async def handle(self, request: Request) -> Response:
        """Answer a request that passed the checks for every request to the gateway."""
        if request.crowded is not None:
            raise too_crowded(request.crowded)
        if found := _RESOURCE.match(request.path):
            return self._authentication.resource.metadata(request, found["at"] or MCP)
        if _METADATA.match(request.path):
            request.take("GET")
            return json_response(server_metadata(self._server.issuer, self._server.settings))
        known = self._routes.get(request.path)
        if known is None:
            raise Rejected(404, "not_found", "there is nothing at this path")
        method, handler = known
        request.take(method)
        return await handler(request)

    async def _jwks(self, request: Request) -> Response:
        answer = json_response(dict(await self._server.keys.published()))
        return Response(body=answer.body, headers=_KEPT)

    async def _token(self, request: Request) -> Response:
        try:
            form, resources = await _form(request)
            status, body = await self._server.endpoint.token(
                form, resources, request.text(b"authorization"), request.client
            )
        except OAuthError as error:
            status, body = error.status, _told(error)
        return _answer(status, body)

    async def _revoke(self, request: Request) -> Response:
        try:
            form, _ = await _form(request)
            status, body = await self._server.endpoint.revoke(form, request.text(b"authorization"), request.client)
        except OAuthError as error:
            status, body = error.status, _told(error)
        return _answer(status, body)

    async def _introspect(self, request: Request) -> Response:
        principal = await self._authentication.enter(request)
        if self._server.settings.introspection.isdisjoint(principal.roles) or principal.on_behalf_of is not None:
            raise Rejected(
                403,
                "forbidden",
                "this principal may not ask about tokens",
                suggestion="an operator can name one of its roles under gateway.sign_in.introspection",
            )
        try:
            form, _ = await _form(request)
        except OAuthError as error:
            return _answer(error.status, _told(error))
        return _answer(200, await self._server.endpoint.introspect(form.get("token", "")))

    async def _register(self, request: Request) -> Response:
        if not self._server.settings.clients.registration:
            raise Rejected(
                404,
                "not_found",
                "clients do not register themselves here",
                suggestion="use the https address of a client ID metadata document as client_id",
            )
        try:
            said = _object(await read_json_body(request))
            client, answer = await self._server.clients.register(said, request.client)
        except OAuthError as error:
            await self._server.log.refused(
                "registration_refused", address=request.client, error=error.code, why=error.text
            )
            return _answer(error.status, _told(error))
        await self._server.log.note(
            "client_registered", client=client.id, address=request.client, client_name=client.name
        )
        return _answer(201, answer)


async def _form(request: Request) -> tuple[dict[str, str], list[str]]:
    """Return the fields of a form, and the values of `resource`, which may occur several times. Raises `OAuthError`."""
    if request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _FORM:
        raise OAuthError("invalid_request", "expected Content-Type: application/x-www-form-urlencoded")
    body = await request.body()
    if len(body) > _MAX_FORM_SIZE:
        raise OAuthError("invalid_request", "the form is too large")
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise OAuthError("invalid_request", "the form cannot be read") from None
    single = [pair for pair in pairs if pair[0] != "resource"]
    form = dict(single)
    if len(form) != len(single):
        raise OAuthError("invalid_request", "a parameter was sent more than once")
    return form, [value for name, value in pairs if name == "resource"]


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise OAuthError("invalid_client_metadata", "expected a JSON object")
    return said


def _told(error: OAuthError) -> Mapping[str, Any]:
    return {"error": error.code, "error_description": error.text}


def _answer(status: int, body: Mapping[str, Any]) -> Response:
    challenge: Headers = ((b"www-authenticate", b'Basic realm="toolgen"'),) if status == 401 else ()
    return Response(status=status, body=json.dumps(dict(body)).encode(), headers=(*_NO_STORE, *challenge))


def sign_in_of(server: SignInServer, gateway: Administration, authentication: Authentication) -> SignInEndpoints:
    """Return the endpoints, with the company's identity provider behind them."""
    endpoints = frozenset(name for name, one in gateway.settings.mcp_servers.items() if name and one.toolsets)
    authentication.announce(OwnIssuer(issuer=server.issuer, scope=SCOPE, endpoints=endpoints))
    asker = make_asker(gateway.current.permit, server.settings.client_secret)
    own = server.settings
    client = SignIn(issuer=own.issuer, client_id=own.client_id, client_secret=own.client_secret, scopes=own.scopes)
    provider = Provider(client, asker.ask, asker.secret)
    return SignInEndpoints(server, gateway, authentication, provider)
