"""An HTTP API that answers 200 and says in its payload that it did nothing, as Slack does: what callers and the record are told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.governed import Upstream, project, upstream
from toolgen.audit.reader import entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

KEY = {"authorization": "Bearer key-of-bot", "accept": "application/json, text/event-stream"}
NO = {"ok": False, "error": "channel_not_found"}
SAYS_TRUE = {"type": "object", "properties": {"ok": {"enum": [True], "type": "boolean"}, "ts": {"type": "string"}}}
SAYS_EITHER = {
    "type": "object",
    "properties": {"success": {"type": "boolean"}, "errors": {"type": "array", "items": {"type": "object"}}},
}


def operation(name: str, schema: dict[str, Any] | None) -> dict[str, Any]:
    answer = {} if schema is None else {"content": {"application/json": {"schema": schema}}}
    return {"operationId": name, "summary": name, "responses": {"200": {"description": "ok", **answer}}}


API = {
    "openapi": "3.1.0",
    "info": {"title": "Chat", "version": "1"},
    "paths": {
        "/channel": {"get": operation("getChannel", SAYS_TRUE)},
        "/message": {"post": operation("postMessage", SAYS_TRUE)},
        "/zone": {"post": operation("createZone", SAYS_EITHER)},
        "/other": {"post": operation("postOther", None)},
    },
}
POLICY = {
    "rules": [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "effects": ["read", "write"], "verdict": "allow"}],
    "redact": [{"tools": ["orders__create_zone"], "fields": ["$..email"]}],
}


@pytest.fixture(name="service")
def _service() -> Iterator[tuple[Upstream, str]]:
    with upstream() as (seen, url):
        seen.body = json.dumps(NO).encode()
        yield seen, url


def written(root: Path, url: str) -> Path:
    path = project(root, url, POLICY, tools={"orders__get_channel": {"cache": "60s"}}, audit={"dir": "audit"})
    (root / "specs" / "orders.json").write_text(json.dumps(API), encoding="utf-8")
    return path


async def calls(path: Path, *names: str) -> list[Envelope]:
    async with Gateway.load(path) as gateway:
        return [await gateway.call(f"orders__{name}", {}, principal="bot") for name in names]


async def test_callers_and_the_record_are_told_what_the_payload_says(
    tmp_path: Path, service: tuple[Upstream, str]
) -> None:
    seen, url = service
    path = written(tmp_path, url)
    made = await calls(path, "get_channel", "get_channel", "post_message", "post_other")
    assert [one.status for one in made] == ["error", "error", "error", "ok"]
    for one in made[:3]:
        assert one.error is not None
        assert one.error.code == "rejected"
        assert one.error.message.endswith(": channel_not_found")
        assert one.error.suggestion is not None
    assert [one.data for one in made] == [NO] * 4
    # Sent once each, and never kept for `cache:`.
    assert [one[:2] for one in seen.requests] == [
        *[("GET", "/channel")] * 2,
        ("POST", "/message"),
        ("POST", "/other"),
    ]
    ended = [(one["status"], one.get("code")) for one in entries(tmp_path / "audit") if one["event"] == "outcome"]
    assert ended == [*[("error", "rejected")] * 3, ("ok", None)]


async def test_a_message_is_left_out_where_the_policy_redacts_the_answer(
    tmp_path: Path, service: tuple[Upstream, str]
) -> None:
    seen, url = service
    seen.body = json.dumps(
        {"success": False, "errors": [{"message": "ann@a.test is taken", "email": "ann@a.test"}]}
    ).encode()
    [answer] = await calls(written(tmp_path, url), "create_zone")
    assert answer.error is not None
    assert (answer.error.code, ":" in answer.error.message) == ("rejected", False)
    assert "ann@a.test" not in json.dumps(answer.to_dict())


async def test_rest_and_mcp_tell_it_as_an_error(tmp_path: Path, service: tuple[Upstream, str]) -> None:
    path = written(tmp_path, service[1])
    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            rest = await client.post("/v1/tools/orders__post_message/call", json={"arguments": {}}, headers=KEY)
            assert (rest.status_code, rest.json()["error"]["code"]) == (422, "rejected")
            params = {"name": "orders__post_message", "arguments": {}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            result = (await client.post("/mcp", json=message, headers=KEY)).json()["result"]
            assert result["isError"] is True
            assert "channel_not_found" in result["content"][0]["text"]
