from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec
import pytest

from tests.gateway.clients import JSON, bearer, client
from tests.gateway.gateways import OTHER_KEY, TOOLS, FakeGateway, tool

pytestmark = pytest.mark.usefixtures("adapter")

STATELESS = "2026-07-28"
STATEFUL = ["2025-11-25", "2025-06-18", "2025-03-26"]
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "9"},
}


def message(method: str, params: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params}), **more}


def modern(method: str, params: Mapping[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return message(method, {**(params or {}), "_meta": META | meta})


def modern_headers(method: str, name: str | None = None, version: str = STATELESS) -> dict[str, str]:
    headers = {"mcp-protocol-version": version, "mcp-method": method}
    return headers | ({"mcp-name": name} if name is not None else {})


async def post(http: httpx.AsyncClient, body: object, headers: Mapping[str, str] | None = None) -> httpx.Response:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return await http.post("/mcp", headers=JSON | dict(headers or {}), content=content)


# Bytes that are no message


@pytest.mark.parametrize(
    ("body", "code", "echoed"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'{"a":' * 500 + b"1" + b"}" * 500, -32700, None),
        (b'"ping"', -32600, None),
        (b"null", -32600, None),
        (b"{}", -32600, None),
        (b'{"id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":"a","method":"tools/list","params":[]}', -32602, "a"),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"mcp-protocol-version": STATEFUL[0]}, modern_headers("ping")])
async def test_bytes_that_are_no_message_get_the_matching_error_and_400(
    body: bytes, code: int, echoed: object, headers: dict[str, str]
) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await post(http, body, headers)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert (answer.json()["error"]["code"], answer.json()["id"]) == (code, echoed)
    assert gateway.calls == []


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("application/json", 200),
        ("*/*", 200),
        ("application/*;q=0.5", 200),
        ("text/event-stream", 406),
        ("text/html", 406),
    ],
)
async def test_a_client_must_take_json(accept: str, status: int) -> None:
    async with client(FakeGateway()) as http:
        assert (await post(http, message("ping"), {"accept": accept})).status_code == status


# The handshake era


@pytest.mark.parametrize(
    ("asked", "given"),
    [*((version, version) for version in STATEFUL), ("2024-11-05", STATEFUL[0]), ("2099-01-01", STATEFUL[0])],
)
async def test_initialize_agrees_on_a_version_both_know(asked: str, given: str) -> None:
    async with client(FakeGateway()) as http:
        params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = await post(http, message("initialize", params))
    assert answer.status_code == 200
    result = answer.json()["result"]
    assert result["protocolVersion"] == given
    tasks = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}} if given == "2025-11-25" else {}
    assert result["capabilities"] == {"tools": {"listChanged": True}, "resources": {}, "logging": {}, **tasks}
    assert result["serverInfo"]["name"] == "toolgen"
    assert "resultType" not in result


async def test_the_session_id_carries_the_client_and_names_the_session_of_later_calls() -> None:
    gateway = FakeGateway()
    params = {"protocolVersion": STATEFUL[0], "capabilities": {}, "clientInfo": {"name": "Ünï", "version": "1"}}
    async with client(gateway) as http:
        session = (await post(http, message("initialize", params))).headers["mcp-session-id"]
        again = (await post(http, message("initialize", params))).headers["mcp-session-id"]
        call = message("tools/call", {"name": "test__echo"})
        await post(http, call, {"mcp-session-id": session})
        await post(http, call, {"mcp-session-id": session, "x-conversation-id": "talk-1"})
        await post(http, call)
    assert session != again
    own = session.partition(".")[0]
    assert [(call["client"], call["session"], call["connection"]) for call in gateway.calls] == [
        ("Ünï/1", "", own),
        ("Ünï/1", "talk-1", own),
        ("", "", ""),
    ]


@pytest.mark.parametrize(
    "session", ["x", "0" * 31, "0" * 32 + ".", "0" * 32 + ".!!", "0" * 32 + "." + "A" * 700, "0" * 32 + ".A"]
)
async def test_a_session_id_of_another_shape_is_404_so_that_the_client_starts_again(session: str) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await post(http, message("tools/call", {"name": "test__echo"}), {"mcp-session-id": session})
    assert answer.status_code == 404
    assert gateway.calls == []


@pytest.mark.parametrize("version", ["", *STATEFUL])
async def test_the_handshake_era_has_its_methods_and_no_others(version: str) -> None:
    headers = {"mcp-protocol-version": version} if version else {}
    async with client(FakeGateway()) as http:
        assert (await post(http, message("ping"), headers)).json()["result"] == {}
        listed = (await post(http, message("tools/list"), headers)).json()["result"]
        assert [item["name"] for item in listed["tools"]] == [item.name for item in TOOLS]
        assert set(listed) == {"tools"}
        for unknown in ("server/discover", "prompts/list", "tools/Call", "rpc.discover"):
            answer = await post(http, message(unknown), headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32601)


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "test__echo"}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
    ],
)
async def test_notifications_and_responses_are_accepted_and_call_nothing(body: dict[str, Any]) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await post(http, body)
    assert (answer.status_code, answer.content) == (202, b"")
    assert gateway.calls == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 5},
        {"name": ""},
        {"name": "x" * 129},
        {"name": "test__echo", "arguments": []},
        {"name": "test__echo", "arguments": "text"},
        {"name": "test__echo", "_meta": {"conversationId": 5}},
        {"name": "test__echo", "_meta": {"conversationId": "a b"}},
        {"name": "test__echo", "_meta": {"conversationId": "x" * 200}},
    ],
)
async def test_a_call_with_malformed_parameters_is_refused_before_the_gateway(params: dict[str, Any]) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await post(http, message("tools/call", params))
    assert answer.json()["error"]["code"] == -32602
    assert gateway.calls == []


async def test_the_conversation_in_meta_is_the_session() -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        params = {"name": "test__echo", "arguments": {"text": "hi"}, "_meta": {"conversationId": "talk-7"}}
        await post(http, message("tools/call", params), {"x-conversation-id": "talk-1"})
    assert gateway.calls[0]["session"] == "talk-7"
    assert gateway.calls[0]["arguments"] == {"text": "hi"}


# The modern era


async def test_discover_tells_the_versions_and_what_the_server_has() -> None:
    async with client(FakeGateway()) as http:
        answer = await post(http, modern("server/discover"), modern_headers("server/discover"))
    result = answer.json()["result"]
    assert result["supportedVersions"] == [STATELESS, *STATEFUL]
    tasks = {"io.modelcontextprotocol/tasks": {}}
    assert result["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {},
        "logging": {},
        "extensions": tasks,
    }
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "toolgen"
    assert "mcp-session-id" not in answer.headers


async def test_a_modern_list_and_call_carry_what_the_revision_asks_for() -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        listed = (await post(http, modern("tools/list"), modern_headers("tools/list"))).json()["result"]
        assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
        assert isinstance(listed["ttlMs"], int)
        body = modern("tools/call", {"name": "test__pet"}, conversationId="talk-2")
        called = (await post(http, body, modern_headers("tools/call", "test__pet"))).json()["result"]
        assert called["resultType"] == "complete"
        assert called["structuredContent"] == {"id": 5, "name": "Rex"}
    assert (gateway.calls[0]["client"], gateway.calls[0]["session"]) == ("tester/9", "talk-2")


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (modern("ping"), modern_headers("ping"), 404, -32601),
        (modern("initialize"), modern_headers("initialize"), 404, -32601),
        (modern("prompts/list"), modern_headers("prompts/list"), 404, -32601),
        (modern("tools/list"), {"mcp-protocol-version": STATELESS}, 400, -32020),
        (modern("tools/list"), modern_headers("tools/call"), 400, -32020),
        (modern("tools/list"), {"mcp-method": "tools/list"}, 400, -32020),
        (modern("tools/list"), modern_headers("tools/list", version="2025-11-25"), 400, -32020),
        (modern("tools/list"), modern_headers("tools/list", version="2099-01-01"), 400, -32020),
        (modern("tools/call", {"name": "test__echo"}), modern_headers("tools/call"), 400, -32020),
        (modern("tools/call", {"name": "test__echo"}), modern_headers("tools/call", "test__pet"), 400, -32020),
        (modern("tools/call", {"name": "test__echo"}), modern_headers("tools/call", "=?base64?!?="), 400, -32020),
        (message("tools/list"), modern_headers("tools/list"), 400, -32602),
        (message("tools/list"), modern_headers("tools/list", version="2099-01-01"), 400, -32022),
        (
            modern("tools/list", **{"io.modelcontextprotocol/protocolVersion": "2099-01-01"}),
            modern_headers("tools/list", version="2099-01-01"),
            400,
            -32022,
        ),
        (
            modern("tools/list", **{"io.modelcontextprotocol/clientCapabilities": "all"}),
            modern_headers("tools/list"),
            400,
            -32602,
        ),
        (
            message("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": STATELESS}}),
            modern_headers("tools/list"),
            400,
            -32602,
        ),
        (modern("tools/list", {"cursor": 5}), modern_headers("tools/list"), 400, -32602),
        (modern("tools/list", {"cursor": "made up"}), modern_headers("tools/list"), 400, -32602),
        (modern("tools/call", {"name": 5}), modern_headers("tools/call", "5"), 400, -32020),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, modern_headers("ping"), 400, -32600),
    ],
)
async def test_a_modern_request_that_contradicts_itself_is_refused_with_its_code(
    body: dict[str, Any], headers: dict[str, str], status: int, code: int
) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await post(http, body, headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert gateway.calls == []


async def test_an_unknown_version_is_told_the_known_ones() -> None:
    async with client(FakeGateway()) as http:
        answer = await post(http, message("tools/list"), modern_headers("tools/list", version="2099-01-01"))
    assert answer.json()["error"]["data"] == {"supported": [STATELESS, *STATEFUL], "requested": "2099-01-01"}


async def test_a_routing_header_sent_twice_is_refused() -> None:
    gateway = FakeGateway()
    headers = [*JSON.items(), *modern_headers("tools/call", "test__echo").items(), ("mcp-name", "test__pet")]
    async with client(gateway) as http:
        body = msgspec.json.encode(modern("tools/call", {"name": "test__echo"}))
        answer = await http.post("/mcp", headers=[*bearer().items(), *headers], content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)
    assert gateway.calls == []


@pytest.mark.parametrize(
    "headers",
    [
        [("mcp-name", "test__pet")],
        [("mcp-method", "tools/list")],
        [("mcp-protocol-version", "2025-11-25"), ("mcp-protocol-version", STATELESS)],
    ],
)
async def test_the_handshake_era_is_no_way_around_the_routing_headers(headers: list[tuple[str, str]]) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        body = msgspec.json.encode(message("tools/call", {"name": "test__echo"}))
        answer = await http.post("/mcp", headers=[*bearer().items(), *JSON.items(), *headers], content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)
    assert gateway.calls == []


async def test_a_wrapped_name_header_is_unwrapped_before_it_is_compared() -> None:
    gateway = FakeGateway()
    name = "=?base64?" + base64.b64encode("größe".encode()).decode() + "?="
    async with client(gateway) as http:
        answer = await post(http, modern("tools/call", {"name": "größe"}), modern_headers("tools/call", name))
    assert answer.json()["result"]["isError"] is True
    assert gateway.calls[0]["name"] == "größe"


async def test_a_modern_notification_is_acknowledged_and_dropped() -> None:
    gateway = FakeGateway()
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with client(gateway) as http:
        assert (await post(http, body, {"mcp-protocol-version": STATELESS})).status_code == 202
        assert (await post(http, body, {"mcp-protocol-version": "2099-01-01"})).status_code == 400


# Both eras


async def test_a_long_catalog_comes_in_pages_that_add_up() -> None:
    gateway = FakeGateway(tools=tuple(tool(f"test__t{number:04}") for number in range(4_100)))
    seen: list[str] = []
    async with client(gateway) as http:
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor:
            result = (await post(http, message("tools/list", {"cursor": cursor} if cursor else {}))).json()["result"]
            seen += [item["name"] for item in result["tools"]]
            cursor = result.get("nextCursor")
            pages += 1
    assert seen == [item.name for item in gateway.tools]
    assert pages == 3


async def test_each_principal_is_listed_its_own_catalog() -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        assert len((await post(http, message("tools/list"))).json()["result"]["tools"]) == len(TOOLS)
        assert (await post(http, message("tools/list"), bearer(OTHER_KEY))).json()["result"]["tools"] == []


@pytest.mark.parametrize(
    ("name", "structured", "is_error", "says"),
    [
        ("test__pet", {"id": 5, "name": "Rex"}, False, '{"id":5,"name":"Rex"}'),
        ("test__echo", None, False, "{}"),
        ("test__list", None, False, "The rest starts at the cursor c2"),
        ("test__fail", None, True, "rate_limited: too many calls\nTry again in 2 s.\nWhat to do: wait a little"),
        ("test__fail_typed", None, True, "rate_limited: too many calls"),
        ("test__broken_promise", {"gateway_note": '{"id":"five"}'}, False, '{"id":"five"}'),
        ("test__missing", None, True, "unknown_tool"),
    ],
)
async def test_a_result_is_structured_as_its_tool_promises(
    name: str, structured: object, is_error: bool, says: str
) -> None:
    async with client(FakeGateway()) as http:
        result = (await post(http, message("tools/call", {"name": name}))).json()["result"]
    assert result["isError"] is is_error
    assert says in "".join(item["text"] for item in result["content"])
    assert result.get("structuredContent") == structured
