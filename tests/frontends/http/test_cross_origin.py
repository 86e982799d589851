"""Web pages of other origins: which may call the gateway, what a browser is told before and after, and what stays closed to them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.gateway.clients import BASE, bearer
from tests.gateway.gateways import FakeGateway
from toolgen.frontends.http.app import App
from toolgen.frontends.http.cross_origin import CrossOrigin

PAGE = "https://chat.example.com"
OTHERS = [
    "https://evil.example.com",
    "http://chat.example.com",
    "https://chat.example.com:8443",
    "https://chat.example.com.evil.example",
    "https://chat.example.com/",
    "HTTPS://chat.example.com",
    "null",
    "",
]
OPEN = [
    ("POST", "/mcp"),
    ("POST", "/mcp/"),
    ("GET", "/v1/tools"),
    ("GET", "/openapi.json"),
    ("GET", "/.well-known/oauth-protected-resource"),
    ("GET", "/.well-known/oauth-protected-resource/mcp"),
]
CLOSED = [("GET", "/metrics"), ("GET", "/console"), ("GET", "/console/v1/x"), ("GET", "/healthz"), ("GET", "/v1x")]
LIST: Any = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


async def asked(
    method: str, path: str, *, origins: frozenset[bytes] = frozenset({PAGE.encode()}), **headers: str
) -> Any:
    app = App(FakeGateway(), cross_origin=CrossOrigin(origins=origins))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as client:
        body = LIST if method == "POST" else None
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.request(method, path, json=body, headers=named)


@pytest.mark.parametrize(("method", "path"), OPEN)
async def test_a_page_of_a_listed_origin_may_read_answers_and_refusals(method: str, path: str) -> None:
    for credential in (bearer(), {}):
        answer = await asked(method, path, origin=PAGE, **credential)
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["vary"] == "Origin"
        assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.status_code in ({200, 404} if credential or "well-known" in path else {401})


@pytest.mark.parametrize(("method", "path"), [*OPEN, *CLOSED])
@pytest.mark.parametrize("origin", OTHERS)
async def test_a_page_of_another_origin_gets_nothing(method: str, path: str, origin: str) -> None:
    for wanted in (method, "OPTIONS"):
        answer = await asked(wanted, path, origin=origin, access_control_request_method=method, **bearer())
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(("method", "path"), CLOSED)
async def test_a_listed_origin_reaches_only_what_agents_use(method: str, path: str) -> None:
    for wanted in (method, "OPTIONS"):
        answer = await asked(wanted, path, origin=PAGE, access_control_request_method=method, **bearer())
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(("method", "path"), OPEN)
async def test_a_preflight_needs_no_credential(method: str, path: str) -> None:
    wanted = "Authorization, content-type, mcp-protocol-version, mcp-param-region, x-evil, accept-evil, cookie"
    answer = await asked(
        "OPTIONS",
        path,
        origin=PAGE,
        access_control_request_method=method,
        access_control_request_headers=wanted,
    )
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == PAGE
    allowed = answer.headers["access-control-allow-headers"]
    assert allowed == "authorization, content-type, mcp-param-region, mcp-protocol-version"
    assert method in answer.headers["access-control-allow-methods"]


async def test_options_alone_is_no_preflight() -> None:
    assert (await asked("OPTIONS", "/mcp", origin=PAGE)).status_code == 405


@pytest.mark.parametrize(("method", "path"), OPEN)
async def test_no_origin_is_allowed_by_default(method: str, path: str) -> None:
    answer = await asked(method, path, origins=frozenset(), origin=PAGE, **bearer())
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


async def test_the_address_of_mcp_may_end_with_a_slash() -> None:
    plain, slash = [await asked("POST", path, **bearer()) for path in ("/mcp", "/mcp/")]
    assert plain.status_code == slash.status_code == 200
    assert plain.json() == slash.json()
    refused = await asked("POST", "/mcp/")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == (await asked("POST", "/mcp")).headers["www-authenticate"]
