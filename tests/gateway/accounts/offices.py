"""A served gateway whose source is called with accounts of people, and browsers of people who sign in there."""

from __future__ import annotations

import hashlib
import html
import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from tests.frontends.console.people import form_token
from tests.gateway.clients import listening
from tests.projects import audit_entries
from tests.services.account_provider import API, CLIENT, AccountProvider
from toolgen.core.clock import Clock
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

KEYS = {name: f"key-of-{name}" for name in ("ann", "bob", "bot", "rita")}
TOOL = "repos__list_repos"
WRITE = "repos__create_repo"
_REFRESH = re.compile(r'http-equiv="refresh" content="0; url=([^"]+)"')


def _entry(name: str, *roles: str, **rest: Any) -> dict[str, Any]:
    return {"api_key": "sha256:" + hashlib.sha256(KEYS[name].encode()).hexdigest(), "roles": list(roles), **rest}


POLICY: dict[str, Any] = {
    "principals": {
        "ann": _entry("ann", "user"),
        "bob": _entry("bob", "user"),
        "bot": _entry("bot", "user", acts_for=["ann", "bob"]),
        "rita": _entry("rita", "reviewer"),
    },
    "rules": [{"id": "all", "to": ["user"], "tools": ["*"], "verdict": "allow", "effects": ["read", "write"]}],
    "egress": {"private_networks": "allow"},
}


@dataclass
class Office:
    """The gateway, where it is, and its provider."""

    gateway: Gateway
    url: str
    provider: AccountProvider
    root: Path
    browsers: dict[str, httpx.AsyncClient] = field(default_factory=dict)

    async def call(self, who: str = "ann", on_behalf_of: str | None = None, tool: str = TOOL, **more: Any) -> Envelope:
        """A call by an agent."""
        principal = self.gateway.principal(who, on_behalf_of)
        found = await self.gateway.call(tool, more.pop("arguments", {}), principal=principal, **more)
        assert isinstance(found, Envelope)
        return found

    async def ended(self, waiting: Envelope, who: str = "ann", within: float = 30.0) -> Envelope:
        """How a call that waited ended."""
        found = await self.gateway.approvals.calls.outcome(waiting.call_id, self.gateway.principal(who), within)
        assert found is not None
        return found

    async def change_policy(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Put a changed policy in force."""
        path = self.root / "policies" / "policy.yaml"
        policy = json.loads(path.read_text(encoding="utf-8"))
        change(policy)
        path.write_text(json.dumps(policy), encoding="utf-8")
        assert await self.gateway.operations.reload()

    async def browser(self, who: str) -> httpx.AsyncClient:
        """The browser of a person who is signed in at the gateway."""
        if who not in self.browsers:
            http = self.browsers[who] = httpx.AsyncClient(base_url=self.url)
            token = form_token((await http.get("/console/sign-in")).text)
            answer = await http.post("/console/sign-in", data={"credential": KEYS[who], "form_token": token})
            assert answer.status_code == 200, answer.text
        return self.browsers[who]

    async def open(self, who: str, link: str) -> httpx.Response:
        """Open a link as a person: the landing page, and the page of the console that it goes on to."""
        http = await self.browser(who)
        landing = await http.get(link)
        assert landing.status_code == 200, landing.text
        return await http.get(urljoin(str(landing.url), refresh_of(landing.text)))

    async def begin(self, who: str, link: str) -> str:
        """Open a link and agree to go to the provider; returns the authorization request."""
        page = await self.open(who, link)
        assert page.status_code == 200, page.text
        http = await self.browser(who)
        left = await http.post(str(page.url), data={"form_token": form_token(page.text)})
        assert left.status_code == 200, left.text
        return refresh_of(left.text)

    async def back(self, who: str, location: str) -> httpx.Response:
        """Come back from the provider."""
        http = await self.browser(who)
        landing = await http.get(location)
        if landing.status_code != 200:
            return landing
        return await http.get(urljoin(str(landing.url), refresh_of(landing.text)))

    async def link(self, who: str = "ann", link: str = "") -> httpx.Response:
        """Link an account from a call's link, all the way. A call that is made for that alone is withdrawn."""
        if not link:
            waiting = await self.call(who)
            link = link_of(waiting)
            await self.gateway.approvals.calls.cancel(waiting.call_id, self.gateway.principal(who))
        self.allow()
        return await self.back(who, self.provider.authorize(await self.begin(who, link)))

    def allow(self) -> None:
        """Register the redirect URI of the source at the provider."""
        self.provider.redirects.add(f"{self.url}/accounts/callback/repos")

    def recorded(self, code: str) -> list[dict[str, Any]]:
        """Entries about accounts on record."""
        return [one for one in audit_entries(self.gateway) if one.get("event") == "account" and one["code"] == code]


def refresh_of(text: str) -> str:
    """Where a page goes on to by itself."""
    found = _REFRESH.search(text)
    assert found, text[:500]
    return html.unescape(found[1])


def link_of(envelope: Envelope) -> str:
    """The link of a call that needs an account."""
    assert (envelope.status, envelope.error and envelope.error.code) == ("pending", "authorization_required"), envelope
    assert envelope.error is not None
    assert envelope.error.help_url in envelope.error.message
    assert "/accounts/link/" in urlsplit(envelope.error.help_url).path
    return envelope.error.help_url


def write_project(
    root: Path, provider: AccountProvider, url: str, *, auth: dict[str, Any] | None = None, **settings: Any
) -> Path:
    """Write the project; returns its toolgen.yaml."""
    for name in ("specs", "policies"):
        (root / name).mkdir(parents=True)
    (root / "specs" / "repos.json").write_text(json.dumps(API))
    (root / "policies" / "policy.yaml").write_text(json.dumps(POLICY))
    account = {
        "account": "user",
        "client_id": CLIENT,
        "client_secret": "${env:ACCOUNT_CLIENT_SECRET}",
        "issuer": provider.issuer,
        "scopes": ["repo"],
        **(auth or {}),
    }
    more = settings.pop("sources", {})
    sources = {"repos": {"openapi": "specs/repos.json", "server": provider.issuer, "auth": {"login": account}}, **more}
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources, "console": {"url": url}, **settings}))
    return path


@asynccontextmanager
async def office(
    root: Path,
    provider: AccountProvider,
    *,
    clock: Clock | None = None,
    auth: dict[str, Any] | None = None,
    listener: socket.socket | None = None,
    **settings: Any,
) -> AsyncIterator[Office]:
    """The gateway with its console on a real port."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    path = write_project(root, provider, url, auth=auth, **settings)
    try:
        gateway = Gateway.load(path)
    except BaseException:
        listener.close()
        raise
    app = App(gateway)
    app.open_console(lambda authentication: console_of(gateway, authentication))
    async with gateway, listening(app, listener):
        made = Office(gateway, url, provider, root)
        try:
            yield made
        finally:
            app.end_streams()
            for http in made.browsers.values():
                await http.aclose()
            await app.close()
