"""Batches of messages in the revision 2025-03-26, over HTTP and standard input: answered in one piece, refused in other revisions."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.gateway.clients import JSON, client
from tests.gateway.gateways import BOT, FakeGateway
from toolgen.frontends.mcp.stdio import serve_streams

OLD = "2025-03-26"
LIST: Any = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ECHO: Any = {
    "jsonrpc": "2.0",
    "id": "two",
    "method": "tools/call",
    "params": {"name": "test__echo", "arguments": {"text": "x"}},
}
NOTE: Any = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HELLO: Any = {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": OLD}}


async def posted(body: object, gateway: FakeGateway | None = None, **headers: str) -> tuple[int, Any]:
    async with client(gateway or FakeGateway()) as http:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await http.post("/mcp", content=json.dumps(body), headers={**JSON, **named})
        return answer.status_code, json.loads(answer.content) if answer.content else None


@pytest.mark.parametrize("headers", [{}, {"mcp_protocol_version": OLD}])
async def test_each_request_of_a_batch_is_answered(headers: dict[str, str]) -> None:
    gateway = FakeGateway()
    status, answers = await posted(
        [LIST, NOTE, ECHO, {"jsonrpc": "2.0", "id": 3, "method": "nothing"}, 7], gateway, **headers
    )
    assert status == 200
    assert [answer["id"] for answer in answers] == [1, "two", 3, None]
    assert answers[0]["result"]["tools"]
    assert answers[1]["result"]["isError"] is False
    assert [answer["error"]["code"] for answer in answers[2:]] == [-32601, -32600]
    assert len(gateway.calls) == 1
    assert (await posted([LIST]))[1][0] == (await posted(LIST))[1]


async def test_a_batch_of_notifications_has_no_answer() -> None:
    assert await posted([NOTE, NOTE]) == (202, None)


@pytest.mark.parametrize("body", [[], [LIST] * 33])
async def test_a_batch_has_a_size(body: list[Any]) -> None:
    status, answer = await posted(body)
    assert (status, answer["error"]["code"]) == (400, -32600)


async def test_a_session_is_opened_alone() -> None:
    status, (answer,) = await posted([HELLO])
    assert (status, answer["error"]["code"], answer["id"]) == (200, -32600, 9)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_no_other_revision_has_batches(version: str) -> None:
    status, answer = await posted([LIST], mcp_protocol_version=version)
    assert (status, answer["error"]["code"]) == (400, -32600)
    assert OLD in answer["error"]["message"]


@pytest.mark.parametrize("header", ["mcp_method", "mcp_name"])
async def test_a_batch_is_no_way_around_the_routing_headers(header: str) -> None:
    gateway = FakeGateway()
    status, answer = await posted([ECHO], gateway, **{header: "tools/list"})
    assert (status, answer["error"]["code"], gateway.calls) == (400, -32020, [])


@pytest.mark.parametrize(("version", "taken"), [(OLD, True), ("2025-06-18", False)])
async def test_a_batch_is_one_line_over_standard_input(version: str, taken: bool) -> None:
    hello = {**HELLO, "params": {"protocolVersion": version}}
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in (hello, [LIST, NOTE, ECHO, 7]))
    sink, gateway = io.BytesIO(), FakeGateway()
    await serve_streams(gateway, BOT, io.BytesIO(lines), sink)
    greeted, batch = map(
        json.loads, sorted(sink.getvalue().splitlines(), key=lambda line: b'"protocolVersion"' not in line)
    )
    assert greeted["id"] == 9
    if taken:
        assert [answer["id"] for answer in batch] == [1, "two", None]
        assert len(gateway.calls) == 1
    else:
        assert batch["error"]["code"] == -32600
        assert gateway.calls == []
