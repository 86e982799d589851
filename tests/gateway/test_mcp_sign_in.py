"""How an MCP client finds where its user signs in: metadata of RFC 9728, challenges, audiences and scopes, tried with the SDK's client."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.gateway.clients import JSON, bearer, listening
from tests.gateway.issuer import token
from tests.gateway.sign_in_server import AuthorizationServer, authorization_server
from tests.projects import KEY, POLICY, make_project
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

URL = "http://127.0.0.1:8089"
RESOURCE = f"{URL}/mcp"
METADATA = "/.well-known/oauth-protected-resource/mcp"
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with authorization_server() as found:
        yield found


def project(
    root: Path, server: AuthorizationServer, *, audience: str = RESOURCE, scopes: list[str] | None = None
) -> Path:
    """Users of this server may read."""
    jwt = {"issuer": server.url, "audience": audience, "jwks": f"{server.url}/jwks", "scopes": scopes or []}
    reads = {"id": "staff", "to": ["staff"], "tools": ["shop__*"], "effects": ["read"], "verdict": "allow"}
    policy = {**POLICY, "issuers": {"staff": {"jwt": jwt, "roles": ["staff"]}}, "rules": [*POLICY["rules"], reads]}
    return make_project(root / "project", policy=policy)


@contextlib.asynccontextmanager
async def served(path: Path, url: str = URL) -> AsyncIterator[httpx.AsyncClient]:
    """The gateway of a project without a socket."""
    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway, url=url))
        async with httpx.AsyncClient(transport=transport, base_url=url or URL) as http:
            yield http


async def post(http: httpx.AsyncClient, credential: str | None = None, path: str = "/mcp") -> httpx.Response:
    return await http.post(path, headers=JSON | (bearer(credential) if credential else {}), content=BODY)


# What is told to whoever has no token


async def test_the_metadata_names_the_resource_and_its_identity_providers(
    tmp_path: Path, server: AuthorizationServer
) -> None:
    async with served(project(tmp_path, server, scopes=["tools:call", "tools:list"])) as http:
        for path in (METADATA, METADATA.removesuffix("/mcp")):
            answer = await http.get(path)
            assert answer.status_code == 200
            assert answer.json() == {
                "resource": RESOURCE,
                "resource_name": "toolgen",
                "authorization_servers": [server.url],
                "scopes_supported": ["tools:call", "tools:list"],
                "bearer_methods_supported": ["header"],
            }
        assert (await http.post(METADATA)).status_code == 405


@pytest.mark.parametrize("host", ["127.0.0.1:8089", "127.0.0.1", "localhost"])
async def test_the_metadata_says_what_the_operator_said_and_not_what_the_request_did(
    tmp_path: Path, server: AuthorizationServer, host: str
) -> None:
    async with served(project(tmp_path, server)) as http:
        answer = await http.get(METADATA, headers={"host": host, "x-forwarded-host": "evil.example"})
        assert answer.json()["resource"] == RESOURCE
        assert (await http.get(METADATA, headers={"host": "evil.example"})).status_code == 421


@pytest.mark.parametrize(
    ("scopes", "credential", "challenge"),
    [
        ([], None, f'Bearer resource_metadata="{URL}{METADATA}"'),
        ([], "nobody's", f'Bearer error="invalid_token", resource_metadata="{URL}{METADATA}"'),
        (["b", "a"], None, f'Bearer scope="a b", resource_metadata="{URL}{METADATA}"'),
    ],
)
async def test_a_401_of_mcp_says_where_the_metadata_is(
    tmp_path: Path, server: AuthorizationServer, scopes: list[str], credential: str | None, challenge: str
) -> None:
    async with served(project(tmp_path, server, scopes=scopes)) as http:
        answer = await post(http, credential)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, challenge)
        rest = await http.get("/v1/tools", headers=bearer(credential) if credential else {})
        assert rest.status_code == 401
        assert "resource_metadata" not in rest.headers["www-authenticate"]


async def test_nothing_is_told_without_a_public_address_or_without_users(
    tmp_path: Path, server: AuthorizationServer
) -> None:
    for path, url in ((project(tmp_path, server), ""), (make_project(tmp_path / "keys"), URL)):
        async with served(path, url) as http:
            assert (await http.get(METADATA)).status_code == 404
            assert (await post(http)).headers["www-authenticate"] == "Bearer"


# Which tokens get in


@pytest.mark.parametrize(
    ("audience", "status"),
    [
        (RESOURCE, 200),
        ([RESOURCE, "https://other.example/mcp"], 200),
        ("https://other.example/mcp", 401),
        (URL, 401),
        (f"{RESOURCE}/", 401),
        (f"{RESOURCE}?", 401),
        ([], 401),
        (None, 401),
    ],
)
async def test_a_token_for_another_resource_is_not_taken(
    tmp_path: Path, server: AuthorizationServer, audience: Any, status: int
) -> None:
    async with served(project(tmp_path, server)) as http:
        answer = await post(http, token(iss=server.url, aud=audience))
        assert answer.status_code == status
        if status == 401:
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"scope": "tools:call tools:list more"}, 200),
        ({"scp": ["tools:list", "tools:call"]}, 200),
        ({"scp": "tools:list tools:call"}, 200),
        ({"scope": "tools:call", "scp": ["tools:list"]}, 200),
        ({"scope": "tools:call"}, 403),
        ({"scope": ""}, 403),
        ({}, 403),
        ({"scope": "tools:callXtools:list"}, 403),
        ({"scope": ["tools:call", "tools:list"]}, 200),
        ({"scope": ["tools:call", 5]}, 401),
        ({"scp": {"tools:call": True, "tools:list": True}}, 401),
        ({"scp": 5}, 401),
    ],
)
async def test_a_token_has_every_scope_that_the_policy_asks_for(
    tmp_path: Path, server: AuthorizationServer, claims: dict[str, Any], status: int
) -> None:
    async with served(project(tmp_path, server, scopes=["tools:call", "tools:list"])) as http:
        for _ in range(2):  # nothing of a refused token is remembered
            answer = await post(http, token(iss=server.url, aud=RESOURCE, **claims))
            assert answer.status_code == status
        if status == 403:
            assert answer.headers["www-authenticate"] == (
                f'Bearer error="insufficient_scope", scope="tools:call tools:list", resource_metadata="{URL}{METADATA}"'
            )


async def test_a_key_needs_no_scope(tmp_path: Path, server: AuthorizationServer) -> None:
    async with served(project(tmp_path, server, scopes=["tools:call"])) as http:
        assert (await post(http, KEY)).status_code == 200


# The official client, which is told the address of /mcp and nothing else


class Storage:
    """What a client keeps between two starts."""

    tokens: OAuthToken | None = None
    information: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.information

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.information = client_info


class Browser:
    """The user, who agrees to everything."""

    def __init__(self) -> None:
        self.back: dict[str, str] = {}

    async def open(self, url: str) -> None:
        async with httpx.AsyncClient() as http:
            location = (await http.get(url)).headers["location"]
        self.back = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}

    async def returned(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=self.back["code"], state=self.back["state"])


def signing_in(url: str) -> OAuthClientProvider:
    browser = Browser()
    return OAuthClientProvider(
        server_url=f"{url}/mcp",
        client_metadata=OAuthClientMetadata(client_name="agent", redirect_uris=[AnyUrl("http://127.0.0.1:9/back")]),
        storage=Storage(),
        redirect_handler=browser.open,
        callback_handler=browser.returned,
    )


@contextlib.asynccontextmanager
async def reached(root: Path, server: AuthorizationServer, scopes: list[str]) -> AsyncIterator[str]:
    """A gateway on a real port, which is its public address and the audience it takes."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    path = project(root, server, audience=f"{url}/mcp", scopes=scopes)
    async with Gateway.load(path) as gateway, listening(App(gateway, url=url), listener=listener):
        yield url


@contextlib.asynccontextmanager
async def signed_in(url: str, mode: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(auth=signing_in(url)) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_client_finds_its_way_from_the_address_alone(
    tmp_path: Path, server: AuthorizationServer, mode: str
) -> None:
    async with reached(tmp_path, server, ["tools:call"]) as url, signed_in(url, mode) as client:
        answer = await client.call_tool("shop__query", {"sql": "SELECT name FROM customers"})
        assert answer.is_error is False
        assert answer.content
    asked = [(path, query) for path, query in server.asked if path in {"/authorize", "/token"}]
    assert [path for path, _ in asked] == ["/authorize", "/token"]
    assert {query["resource"] for _, query in asked} == {f"{url}/mcp"}
    assert asked[0][1]["scope"] == "tools:call"


async def test_the_sdk_client_asks_again_for_a_scope_that_its_token_lacks(
    tmp_path: Path, server: AuthorizationServer
) -> None:
    server.gives = "openid"
    async with reached(tmp_path, server, ["tools:call"]) as url, signed_in(url, "auto") as client:
        assert [tool.name for tool in (await client.list_tools()).tools]
    authorized = [query for path, query in server.asked if path == "/authorize"]
    assert ["tools:call" in query["scope"].split() for query in authorized] == [True, True]
