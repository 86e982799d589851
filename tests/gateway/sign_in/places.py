"""A served gateway that people sign in through, and hosted clients with the browsers of people."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from tests.frontends.console.people import form_token
from tests.gateway.clients import JSON, bearer, listening
from tests.projects import POLICY, audit_entries, make_project
from tests.services.identity_provider import CLIENT, IdentityProvider
from toolgen.core.clock import Clock
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.http.request import Rejected, Request, Send, refusal
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.sign_in.opening import open_sign_in

REDIRECT = "https://client.example.com/callback"
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
HERE, THERE = "/toolgen", "/toolgen-b"
VERIFIER = "verifier-of-the-client-0123456789-0123456789-01"


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636 section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def policy_of(provider: IdentityProvider, **changes: Any) -> dict[str, Any]:
    """The policy: every person of the provider may read, and those of the group `ops` have another role; `client` is an attribute."""
    jwt = {"issuer": provider.issuer, "audience": CLIENT, "jwks": f"{provider.issuer}/jwks"}
    staff = {
        "jwt": jwt,
        "roles": ["staff"],
        "grants": {"groups": {"ops": ["ops"]}},
        "attributes": {"client": "client_id"},
    }
    reads = {"id": "staff", "to": ["staff"], "tools": ["shop__*"], "effects": ["read"], "verdict": "allow"}
    return {
        **POLICY,
        "issuers": {"staff": staff},
        "toolsets": {"shop": {"tools": ["shop__query"]}},
        "rules": [*POLICY["rules"], reads],
        **changes,
    }


@dataclass
class Place:
    """The gateway at `url`, and its identity provider."""

    gateway: Gateway
    url: str
    provider: IdentityProvider
    browser: httpx.AsyncClient
    registered: dict[str, Any] = field(default_factory=dict)

    async def register(self, **metadata: Any) -> httpx.Response:
        """Register a client."""
        said = {"client_name": "Client", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none", **metadata}
        said = {name: value for name, value in said.items() if value is not None}
        async with httpx.AsyncClient() as http:
            return await http.post(f"{self.url}/oauth/register", json=said)

    async def client(self, **metadata: Any) -> dict[str, Any]:
        """Register a client that may refresh; returns what it was told."""
        answer = await self.register(**{"grant_types": ["authorization_code", "refresh_token"], **metadata})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def asked(self, client: dict[str, Any], **changes: str | None) -> str:
        """The authorization request of a client."""
        query = {
            "response_type": "code",
            "client_id": client["client_id"],
            "redirect_uri": client["redirect_uris"][0],
            "state": "state-of-the-client",
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            "resource": f"{self.url}/mcp",
            **changes,
        }
        kept = {name: value for name, value in query.items() if value is not None}
        return f"{self.url}/oauth/authorize?{urlencode(kept)}"

    async def page(self, url: str, browser: httpx.AsyncClient | None = None) -> httpx.Response:
        """Open an authorization request, sign in at the provider, and come back."""
        http = browser or self.browser
        sent = await http.get(url)
        if sent.status_code != 303:
            return sent
        return await http.get(self.provider.authorize(sent.headers["location"]))

    async def answer(
        self, page: httpx.Response, browser: httpx.AsyncClient | None = None, **fields: str
    ) -> httpx.Response:
        """Answer the question of a page."""
        http = browser or self.browser
        form = {"form_token": form_token(page.text), "answer": "allow", **fields}
        return await http.post(f"{self.url}/oauth/consent", data=form)

    async def agreed(self, client: dict[str, Any], **changes: str | None) -> dict[str, str]:
        """Sign in and agree; returns the answer that the client gets."""
        page = await self.page(self.asked(client, **changes))
        assert page.status_code == 200, page.text
        sent = await self.answer(page)
        assert sent.status_code == 303, sent.text
        assert sent.headers["location"].startswith((changes.get("redirect_uri") or client["redirect_uris"][0]) + "?")
        return dict(parse_qsl(urlsplit(sent.headers["location"]).query))

    async def redeem(self, client: dict[str, Any], code: str, **changes: str | None) -> httpx.Response:
        """Send a code to the token endpoint."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": client["redirect_uris"][0],
            "code_verifier": VERIFIER,
            **changes,
        }
        return await self.post("/oauth/token", client, **form)

    async def refresh(self, client: dict[str, Any], token: str, **changes: str | None) -> httpx.Response:
        """Send a refresh token to the token endpoint."""
        return await self.post("/oauth/token", client, grant_type="refresh_token", refresh_token=token, **changes)

    async def post(self, path: str, client: dict[str, Any], **form: str | None) -> httpx.Response:
        """Send a form as a client, which proves itself as it registered."""
        fields = {name: value for name, value in form.items() if value is not None}
        headers = {}
        if client.get("token_endpoint_auth_method") == "client_secret_basic":
            headers = basic(client["client_id"], client["client_secret"])
        else:
            fields.setdefault("client_id", client["client_id"])
            if "client_secret" in client:
                fields["client_secret"] = client["client_secret"]
        async with httpx.AsyncClient() as http:
            return await http.post(f"{self.url}{path}", data=fields, headers=headers)

    async def tokens(self, client: dict[str, Any], **changes: str | None) -> dict[str, Any]:
        """Sign in, agree and redeem the code; returns the tokens."""
        answer = await self.agreed(client, **changes)
        reply = await self.redeem(
            client, answer["code"], redirect_uri=changes.get("redirect_uri") or client["redirect_uris"][0]
        )
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    async def tools(self, token: str, path: str = "/mcp") -> httpx.Response:
        """List the tools of a token."""
        async with httpx.AsyncClient() as http:
            return await http.post(f"{self.url}{path}", headers=JSON | bearer(token), content=LIST)

    def recorded(self, code: str = "") -> list[dict[str, Any]]:
        """Entries about sign-ins on record, the newest first."""
        found = [one for one in audit_entries(self.gateway, limit=1000) if one.get("event") == "sign_in"]
        return [one for one in found if not code or one["code"] == code]


def basic(name: str, secret: str) -> dict[str, str]:
    """The header of Basic credentials, form-encoded first (RFC 6749 section 2.3.1)."""
    pair = urlencode({"": name})[1:] + ":" + urlencode({"": secret})[1:]
    return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def write_project(
    root: Path,
    provider: IdentityProvider,
    url: str,
    *,
    policy: dict[str, Any] | None = None,
    gateway: dict[str, Any] | None = None,
    sign_in: dict[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """Write the project; returns its toolgen.yaml."""
    path = make_project(root, policy=policy or policy_of(provider))
    data = json.loads(path.read_text())
    own = {
        "issuer": provider.issuer,
        "client_id": CLIENT,
        "client_secret": "${env:SIGN_IN_SECRET}",
        "clients": {"registration": True},
        **(sign_in or {}),
    }
    data["gateway"] = {"url": url, "sign_in": own, "endpoints": {"shop": {"toolsets": ["shop"]}}, **(gateway or {})}
    path.write_text(json.dumps({**data, **settings}))
    return path


@asynccontextmanager
async def application(path: Path, clock: Clock | None = None) -> AsyncIterator[Gateway]:
    """The gateway of a project."""
    loaded = Gateway.load(path)
    parts = {"settings": loaded.settings, "manifest": loaded.manifest, "policy": loaded.policy}
    async with loaded if clock is None else Gateway(**parts, clock=clock) as gateway:
        yield gateway


@asynccontextmanager
async def opened_application(gateway: Gateway) -> AsyncIterator[App]:
    """The HTTP application of a gateway, with its pages."""
    app = App(gateway, url=gateway.settings.url)
    app.open_console(lambda authentication: console_of(gateway, authentication))
    open_sign_in(app, gateway.sign_in, gateway)
    try:
        yield app
    finally:
        app.end_streams()
        await app.close()


@asynccontextmanager
async def opened(path: Path, listener: socket.socket, clock: Clock | None = None) -> AsyncIterator[Gateway]:
    """The gateway of a project on a socket, with its pages."""
    async with application(path, clock) as gateway, opened_application(gateway) as app, listening(app, listener):
        yield gateway


@asynccontextmanager
async def place(
    root: Path, provider: IdentityProvider, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Place]:
    """The gateway on a real port, which is its public address."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    path = write_project(root / f"project-{secrets.token_hex(4)}", provider, url, **settings)
    async with opened(path, listener, clock) as gateway, httpx.AsyncClient() as browser:
        yield Place(gateway, url, provider, browser)


class MountProxy:
    """Proxy of a host: sends a request to the application of its path. `removes`: it removes the path first; `well_known`: it sends the
    well-known addresses of the host too."""

    def __init__(self, apps: dict[str, App], *, removes: bool, well_known: bool) -> None:
        self._apps = apps
        self._removes = removes
        self._well_known = well_known

    async def serve(self, request: Request, send: Send) -> None:
        for path, app in self._apps.items():
            found = re.match(rf"(/\.well-known/[a-z-]+)?{path}(/.*)?\Z", request.path)
            if found is not None and (self._well_known or not found[1]):
                if self._removes:
                    request.path = f"{found[1] or ''}{found[2] or ''}" or "/"
                await app.serve(request, send)
                return
        await send(request.finish(refusal(Rejected(404, "not_found", "nothing is here"))))


@asynccontextmanager
async def mounts(
    root: Path, provider: IdentityProvider, *, removes: bool = False, well_known: bool = True
) -> AsyncIterator[tuple[Place, Place]]:
    """Two gateways below paths of one host."""
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with AsyncExitStack() as stack:
        apps, gateways = {}, {}
        for path in (HERE, THERE):
            project = write_project(root / path[1:], provider, f"{origin}{path}")
            gateways[path] = await stack.enter_async_context(application(project))
            apps[path] = await stack.enter_async_context(opened_application(gateways[path]))
        await stack.enter_async_context(listening(MountProxy(apps, removes=removes, well_known=well_known), listener))
        browser = await stack.enter_async_context(httpx.AsyncClient())
        one, other = (Place(gateways[path], f"{origin}{path}", provider, browser) for path in (HERE, THERE))
        yield one, other
