"""The official SDK's client, which signs in from the address of `/mcp` alone; Chromium; and two gateways behind one address."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from playwright.async_api import async_playwright
from pydantic import AnyUrl

from tests.frontends.console.axe import AXE
from tests.frontends.console.people import CHROMIUM, FLAGS, form_token, needs_chromium
from tests.gateway.sign_in.places import Place, mounts, opened, place, policy_of, write_project
from tests.redis_server import RedisServer
from tests.services.identity_provider import CLIENT, SECRET, IdentityProvider

ROOT = Path(__file__).parent.parent.parent.parent
INSTALLED = ROOT / ".venv-oidc"
SERVER = ROOT / "tests" / "gateway" / "accounts" / "oidc" / "server.mjs"
LOCAL = "http://127.0.0.1:33418/callback"
_FORM = re.compile(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)
_INPUT = re.compile(r"<input[^>]*>")
_NAME, _VALUE = re.compile(r'name="([^"]+)"'), re.compile(r'value="([^"]*)"')


class Storage:
    """What the client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def agree(url: str, gateway: str, person: str = "ann") -> str:
    """Go through an authorization as a browser does: every form is filled in and sent. Returns where the client is sent."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(url)
        for _ in range(16):
            if answer.is_redirect:
                location = urljoin(str(answer.url), answer.headers["location"])
                if location.startswith(LOCAL):
                    return location
                answer = await http.get(location)
                continue
            form = _FORM.search(answer.text)
            assert form, answer.text[:1500]
            fields = {}
            for tag in _INPUT.findall(form[2]):
                if (name := _NAME.search(tag)) and 'type="checkbox"' not in tag:
                    value = _VALUE.search(tag)
                    fields[name[1]] = value[1] if value else person
            if str(answer.url).startswith(gateway):
                fields["answer"] = "allow"
            answer = await http.post(urljoin(str(answer.url), html.unescape(form[1])), data=fields)
    raise AssertionError("the sign-in never came to an end")


def signing_in(url: str, storage: Storage, endpoint: str = "/mcp") -> OAuthClientProvider:
    """The client's OAuth, and a person who agrees to everything."""
    sent: list[str] = []

    async def redirect(location: str) -> None:
        sent.append(await agree(location, url))

    async def callback() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(sent[-1]).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    metadata = OAuthClientMetadata(client_name="sdk", redirect_uris=[AnyUrl(LOCAL)])
    return OAuthClientProvider(f"{url}{endpoint}", metadata, storage, redirect, callback)


@contextlib.asynccontextmanager
async def connected(url: str, mode: str, storage: Storage, endpoint: str = "/mcp") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(auth=signing_in(url, storage, endpoint)) as http,
        Client(streamable_http_client(f"{url}{endpoint}", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("endpoint", ["/mcp", "/mcp/", "/mcp/shop"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_client_signs_in_from_the_address_alone(
    tmp_path: Path, provider: IdentityProvider, mode: str, endpoint: str
) -> None:
    async with place(tmp_path, provider) as here:
        storage = Storage()
        async with connected(here.url, mode, storage, endpoint) as client:
            answer = await client.call_tool("shop__query", {"sql": "SELECT name FROM customers"})
            assert answer.is_error is False
        assert storage.tokens is not None
        assert storage.tokens.refresh_token
        assert [one["code"] for one in here.recorded()][:2] == ["token_issued", "consented"]


@pytest.mark.parametrize("well_known", [True, False])
async def test_the_sdk_client_signs_in_below_a_mount_path(
    tmp_path: Path, provider: IdentityProvider, well_known: bool
) -> None:
    """Also if the proxy of the host sends nothing outside of the path to the gateway."""
    async with (
        mounts(tmp_path, provider, removes=not well_known, well_known=well_known) as (here, _),
        connected(here.url, "auto", Storage()) as client,
    ):
        answer = await client.call_tool("shop__query", {"sql": "SELECT name FROM customers"})
        assert answer.is_error is False


# A real OpenID provider


def write_provider(redirect: str) -> subprocess.Popen[str]:
    server = INSTALLED / "server.mjs"
    server.write_bytes(SERVER.read_bytes())
    command = ["node", str(server), redirect, CLIENT, SECRET]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class RealProvider:
    """The provider, as far as a project asks for one."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer


@pytest.mark.skipif(
    not (INSTALLED / ".installed").is_file() or shutil.which("node") is None,
    reason="oidc-provider is not installed; `make oidc-provider` installs it",
)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_client_signs_in_at_a_real_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("SIGN_IN_SECRET", SECRET)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with write_provider(f"{url}/oauth/callback") as process:
        assert process.stdout is not None
        issuer = await asyncio.to_thread(
            lambda: next(line.strip() for line in process.stdout if line.startswith("http"))
        )
        real: Any = RealProvider(issuer)
        path = write_project(tmp_path / "project", real, url, policy=policy_of(real))
        try:
            async with opened(path, listener) as gateway:
                async with connected(url, mode, Storage()) as client:
                    answer = await client.call_tool("shop__query", {"sql": "SELECT name FROM customers"})
                    assert answer.is_error is False
                here: Any = Place(gateway, url, real, httpx.AsyncClient())
                assert here.recorded("token_issued")[0]["principal"] == "staff:ann"
                await here.browser.aclose()
        finally:
            process.terminate()


# Two gateways behind one address


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own."""
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("shared", ["redis", "folder"])
async def test_two_gateways_behind_one_address_share_a_sign_in(
    tmp_path: Path, provider: IdentityProvider, redis: RedisServer, shared: str
) -> None:
    """Each step reaches the other gateway than the one before. A code is used once among both,
    and a refresh token has one successor."""
    state = f"redis://127.0.0.1:{redis.port}/0" if shared == "redis" else "memory"
    async with place(tmp_path, provider, state=state) as here:
        path = here.gateway.settings.path
        listener = socket.create_server(("127.0.0.1", 0))
        second = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with opened(path, listener) as other:
            client = await here.client()
            away = Place(other, second, provider, here.browser)
            sent = await here.browser.get(here.asked(client).replace(here.url, second))
            page = await here.browser.get(provider.authorize(sent.headers["location"]))
            assert page.status_code == 200
            form = {"form_token": form_token(page.text), "answer": "allow"}
            answer = await here.browser.post(f"{second}/oauth/consent", data=form)
            code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
            replies = await asyncio.gather(here.redeem(client, code), away.redeem(client, code))
            assert sum(reply.status_code == 200 for reply in replies) <= 1
            tokens = await here.tokens(client)
            assert (await away.tools(tokens["access_token"])).status_code == 200
            both = await asyncio.gather(
                here.refresh(client, tokens["refresh_token"]), away.refresh(client, tokens["refresh_token"])
            )
            assert [reply.status_code for reply in both] == [200, 200]
            assert len({reply.json()["refresh_token"] for reply in both}) == 1
            fresh = await here.tokens(client)
            assert (await away.post("/oauth/revoke", client, token=fresh["refresh_token"])).status_code == 200
            assert (await here.refresh(client, fresh["refresh_token"])).status_code == 400
            sets = [await gateway.sign_in.keys.published() for gateway in (here.gateway, other)]
            assert sets[0] == sets[1]


async def test_a_redis_that_is_away_signs_nobody_in(
    tmp_path: Path, provider: IdentityProvider, redis: RedisServer
) -> None:
    async with place(tmp_path, provider, state=f"redis://127.0.0.1:{redis.port}/0") as here:
        client = await here.client()
        tokens = await here.tokens(client)
        redis.stop()
        assert (await here.browser.get(here.asked(client))).status_code == 503
        assert (await here.refresh(client, tokens["refresh_token"])).status_code == 503
        assert (await here.tools(tokens["access_token"])).status_code == 503


# Chromium


@needs_chromium
async def test_a_person_signs_in_and_agrees_in_chromium(tmp_path: Path, provider: IdentityProvider) -> None:
    """The provider is another site, so what cookies are shown and where the form may lead is the browser's own decision."""
    provider.service.origin = provider.service.origin.replace("127.0.0.1", "localhost")
    async with place(tmp_path, provider) as here, async_playwright() as playwright:
        listener = socket.create_server(("127.0.0.1", 0))
        redirect = f"http://127.0.0.1:{listener.getsockname()[1]}/callback"

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, sock=listener)
        client = await here.client(client_name="Chat", redirect_uris=[redirect])
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        try:
            page = await browser.new_page()
            page.set_default_timeout(30_000)
            faults: list[str] = []
            page.on("console", lambda said: faults.append(said.text) if said.type in {"error", "warning"} else None)
            await page.goto(here.asked(client))
            await page.wait_for_selector("h1:has-text('Chat')")
            await page.evaluate(AXE)
            found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            assert found["violations"] == []
            await page.click("button[value=allow]")
            await page.wait_for_url(f"{redirect}?*")
            query = parse_qs(urlsplit(page.url).query)
            assert (await here.redeem(client, query["code"][0])).status_code == 200
            assert [one for one in faults if "favicon" not in one] == []
        finally:
            await browser.close()
            server.close()


async def test_another_gateway_takes_tokens_of_this_one_by_its_key_set(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    """People sign in at the first gateway for the second, which knows it as an issuer, and reads groups from the token."""
    listener = socket.create_server(("127.0.0.1", 0))
    second = f"http://127.0.0.1:{listener.getsockname()[1]}"
    provider.claims = {"groups": ["ops"]}
    more = {"resources": [f"{second}/mcp"], "claims": ["groups"]}
    async with place(tmp_path, provider, sign_in=more) as here:
        jwks = {"issuer": here.url, "audience": f"{second}/mcp", "jwks": f"{here.url}/oauth/jwks"}
        policy = policy_of(provider)
        policy["issuers"] = {"hosted": {"jwt": jwks, "roles": [], "grants": {"groups": {"ops": ["staff"]}}}}
        path = write_project(tmp_path / "second", provider, second, policy=policy, gateway={"sign_in": None})
        async with opened(path, listener) as other:
            away = Place(other, second, provider, here.browser)
            client = await here.client()
            tokens = await here.tokens(client, resource=f"{second}/mcp")
            assert "shop__query" in (await away.tools(tokens["access_token"])).text
            assert (await here.tools(tokens["access_token"])).status_code == 401
            own = await here.tokens(client)
            assert (await away.tools(own["access_token"])).status_code == 401
