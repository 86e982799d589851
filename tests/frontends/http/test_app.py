from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest

from tests.gateway.clients import BASE, JSON, bearer, client
from tests.gateway.gateways import KEY, FakeGateway
from toolgen.frontends.http.app import App
from toolgen.frontends.http.request import ANY_HOST
from toolgen.gateway.calls.json_body import MAX_BODY_SIZE

pytestmark = pytest.mark.usefixtures("adapter")

CALL = "/v1/tools/test__echo/call"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
GUARDED = [
    ("POST", CALL),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("POST", "/v1/tool_calls"),
    ("GET", "/v1/tools"),
    ("GET", "/v1/audit"),
    ("GET", "/v1/audit/1"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing/here"),
]


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": KEY},
        {"authorization": f"Basic {KEY}"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong-key"},
        {"authorization": f"Bearer {KEY} {KEY}"},
        {"authorization": f"Bearer {KEY},Bearer x"},
        {"x-api-key": KEY},
        {"cookie": f"token={KEY}"},
    ],
)
async def test_without_an_accepted_credential_every_route_answers_401_and_calls_nothing(
    method: str, path: str, headers: dict[str, str]
) -> None:
    gateway = FakeGateway()
    async with client(gateway, key=None) as http:
        answer = await http.request(method, path, headers=headers | JSON, content=b"{}")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["error"]["code"] == "unauthenticated"
    assert KEY not in answer.text
    assert "wrong-key" not in answer.text
    assert gateway.calls == []


@pytest.mark.parametrize("second", ["Bearer other", f"Bearer {KEY}", ""])
async def test_two_authorization_headers_are_refused_even_when_one_is_good(second: str) -> None:
    gateway = FakeGateway()
    async with client(gateway, key=None) as http:
        headers = [("authorization", f"Bearer {KEY}"), ("authorization", second), *JSON.items()]
        answer = await http.post(CALL, headers=headers, content=b"{}")
    assert answer.status_code == 400
    assert gateway.calls == []


@pytest.mark.parametrize(
    "name", ["access_token", "token", "api_key", "Access_Token", "access%5Ftoken", "authorization"]
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", CALL), ("POST", "/mcp"), ("GET", "/v1/tools"), ("GET", "/healthz")]
)
async def test_a_credential_in_the_url_is_refused_and_not_repeated(name: str, method: str, path: str) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await http.request(method, f"{path}?{name}={KEY}", headers=JSON, content=b"{}")
    assert answer.status_code == 400
    assert KEY not in answer.text
    assert gateway.calls == []


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8080", None, 200),
        ("localhost:8080", None, 200),
        ("LOCALHOST", None, 200),
        ("[::1]:8080", None, 200),
        ("evil.example:8080", None, 421),
        ("127.0.0.1.evil.example", None, 421),
        ("evil.example@127.0.0.1", None, 421),
        ("127.0.0.1:8080/path", None, 421),
        ("127.0.0.1:port", None, 421),
        ("", None, 421),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", 200),
        ("127.0.0.1:8080", "http://localhost:8080", 200),
        ("127.0.0.1:8080", "http://localhost:3000", 403),
        ("127.0.0.1:8080", "http://evil.example", 403),
        ("127.0.0.1:8080", "http://evil.example:8080", 403),
        ("127.0.0.1:8080", "null", 403),
        ("127.0.0.1:8080", "", 403),
        ("127.0.0.1:8080", "file://127.0.0.1:8080", 403),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/path", 403),
        ("127.0.0.1:8080", "http://127.0.0.1:8080@evil.example", 403),
    ],
)
async def test_the_host_and_the_origin_must_be_the_gateways_own(host: str, origin: str | None, status: int) -> None:
    headers = {"host": host} | ({"origin": origin} if origin is not None else {})
    async with client(FakeGateway()) as http:
        assert (await http.post("/mcp", headers=headers | JSON, content=PING)).status_code == status
        assert (await http.get("/healthz", headers=headers)).status_code == status


async def test_a_gateway_of_unknown_names_answers_to_any_host_and_still_refuses_other_origins() -> None:
    transport = httpx.ASGITransport(App(FakeGateway(), hosts=ANY_HOST))
    async with httpx.AsyncClient(transport=transport, base_url="http://tools.example", headers=bearer()) as http:
        assert (await http.get("/v1/tools")).status_code == 200
        assert (await http.get("/v1/tools", headers={"origin": "http://tools.example"})).status_code == 200
        assert (await http.get("/v1/tools", headers={"origin": "http://evil.example"})).status_code == 403


@pytest.mark.parametrize("path", [CALL, "/mcp", "/v1/tool_calls"])
async def test_a_body_over_the_cap_is_refused_while_it_is_read(path: str) -> None:
    gateway = FakeGateway()
    sent = 0

    async def receive() -> MutableMapping[str, Any]:
        nonlocal sent
        sent += 1
        return {"type": "http.request", "body": b" " * 65_536, "more_body": True}

    answers: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        answers.append(message)

    headers = [
        (b"host", b"localhost"),
        (b"authorization", f"Bearer {KEY}".encode()),
        (b"content-type", b"application/json"),
    ]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await App(gateway)(scope, receive, send)
    assert answers[0]["status"] == 413
    assert (b"connection", b"close") in answers[0]["headers"]
    assert sent == MAX_BODY_SIZE // 65_536 + 1
    assert gateway.calls == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({}, 415),
        (JSON | {"content-encoding": "gzip"}, 415),
        (JSON | {"content-length": "99999999999"}, 413),
        (JSON | {"content-length": str(MAX_BODY_SIZE + 1)}, 413),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
async def test_a_body_must_say_it_is_plain_json_of_a_fair_size(headers: dict[str, str], status: int) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await http.post(CALL, headers=headers, content=b"{}")
    assert answer.status_code == status
    assert len(gateway.calls) == (1 if status == 200 else 0)


@pytest.mark.parametrize("path", ["/mcp", "/v1/tools/test__slow/call", "/v1/tool_calls"])
async def test_a_call_whose_client_has_gone_runs_to_its_end(path: str) -> None:
    bodies = {
        "/mcp": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test__slow"}}',
        "/v1/tools/test__slow/call": b"{}",
        "/v1/tool_calls": b'[{"id":"a","name":"test__slow","args":{}}]',
    }
    gateway = FakeGateway()
    app = App(gateway)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, headers=bearer()) as http:
        request = asyncio.create_task(http.post(path, headers=JSON, content=bodies[path]))
        await gateway.entered.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert gateway.ended == []
    gateway.gate.set()
    await asyncio.wait(gateway.running)
    assert gateway.ended == ["test__slow"]


async def test_health_needs_no_credential_and_the_reasons_for_not_being_ready_do() -> None:
    gateway = FakeGateway(reasons=("disk full",))
    async with client(gateway, key=None) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/readyz")).json() == {"status": "not ready"}
        assert (await http.get("/readyz")).status_code == 503
        told = await http.get("/readyz", headers=bearer())
        assert told.json()["reasons"] == ["disk full"]
        assert (await http.get("/readyz", headers=bearer("wrong"))).status_code == 401
        gateway.reasons = ()
        assert (await http.get("/readyz")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CALL, "POST"),
        ("DELETE", "/v1/tools", "GET"),
        ("POST", "/healthz", "GET"),
        ("GET", "/mcp", "POST"),
        ("DELETE", "/mcp", "POST"),
        ("PUT", "/v1/tool_calls", "POST"),
        ("POST", "/openapi.json", "GET"),
    ],
)
async def test_another_method_is_answered_405_with_the_one_allowed(method: str, path: str, allow: str) -> None:
    async with client(FakeGateway()) as http:
        answer = await http.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/tools/", "/v1/tools/a/b/call", "/mcp/x", "/MCP"])
async def test_an_unknown_path_is_404(path: str) -> None:
    async with client(FakeGateway()) as http:
        assert (await http.post(path, headers=JSON, content=b"{}")).status_code == 404


async def test_a_failure_of_the_gateway_is_a_500_whose_text_stays_out_of_the_answer_and_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        gateway = FakeGateway()

        def broken(*_: object) -> object:
            raise RuntimeError("secret-canary")

        gateway.answer = broken  # type: ignore[assignment]
        async with client(gateway) as http:
            answer = await http.post(CALL, headers=JSON, content=b"{}")
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "internal"
        assert "secret-canary" not in answer.text
    assert "RuntimeError" in caplog.text
    assert "secret-canary" not in caplog.text


async def test_answers_are_not_cached_or_sniffed() -> None:
    async with client(FakeGateway()) as http:
        answer = await http.get("/v1/tools")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
