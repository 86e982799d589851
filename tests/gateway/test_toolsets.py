"""Toolsets: what an audience sees at most, what a caller narrows itself to, and that neither ever adds a tool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.gateway.governed import project, upstream
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

RULES = [
    {"id": "reads", "to": ["bot", "user"], "tools": ["orders__*"], "effects": ["read"], "verdict": "allow"},
    {"id": "mails", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow"},
]
TOOLSETS = {
    "guest": {"tools": ["orders__get_*"], "to": ["user"]},
    "writing": {"tools": ["orders__*"], "effects": ["write"]},
    "everything": {"tools": ["*"]},
}
GUEST = {"orders__get_health"}
BOT = {"orders__check_fraud", "orders__get_health", "orders__list_orders", "orders__send_mail"}


@asynccontextmanager
async def scenario(root: Path) -> AsyncIterator[httpx.AsyncClient]:
    with upstream() as (_, server):
        path = project(root / "p", server, {"rules": RULES, "toolsets": TOOLSETS})
        async with Gateway.load(path) as gateway:
            transport = httpx.ASGITransport(App(gateway))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
                yield client


def headers(who: str, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-of-{who}", "accept": "application/json, text/event-stream", **more}


async def listed(client: httpx.AsyncClient, who: str, query: str = "", **more: str) -> set[str]:
    answer = await client.get(f"/v1/tools{query}", headers=headers(who, **more))
    assert answer.status_code == 200, answer.text
    return {tool["name"] for tool in answer.json()["tools"]}


async def over_mcp(client: httpx.AsyncClient, who: str, method: str, meta: dict[str, Any], **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return (await client.post("/mcp", json=message, headers=headers(who))).json()


async def test_an_audience_sees_no_more_than_its_toolset(tmp_path: Path) -> None:
    async with scenario(tmp_path) as client:
        assert await listed(client, "ann") == GUEST
        assert await listed(client, "bot") == BOT
        assert await listed(client, "bot", **{"x-on-behalf-of": "ann"}) == GUEST
        assert await listed(client, "ann", "?q=check+fraud") <= GUEST
        hidden = await client.post("/v1/tools/orders__check_fraud/call", json={}, headers=headers("ann"))
        absent = await client.post("/v1/tools/orders__check_frau/call", json={}, headers=headers("ann"))
        assert hidden.json()["error"] == absent.json()["error"]
        assert hidden.status_code == 404


async def test_a_caller_narrows_itself_and_never_widens(tmp_path: Path) -> None:
    async with scenario(tmp_path) as client:
        assert await listed(client, "bot", **{"x-toolset": "writing"}) == {"orders__send_mail"}
        assert await listed(client, "bot", "?toolset=guest") == GUEST
        assert await listed(client, "bot", "?toolset=guest", **{"x-toolset": "writing"}) == set()
        assert await listed(client, "bot", "?toolset=everything") == BOT
        assert await listed(client, "ann", "?toolset=everything") == GUEST
        assert await listed(client, "ann", "?toolset=writing") == set()
        call = "/v1/tools/orders__check_fraud/call"
        assert (await client.post(call, json={}, headers=headers("bot"))).status_code == 200
        narrow = headers("bot", **{"x-toolset": "guest"})
        assert (await client.post(call, json={}, headers=narrow)).status_code == 404
        messages = [{"type": "tool_call", "id": "1", "name": "orders__check_fraud", "args": {}}]
        answers = (await client.post("/v1/tool_calls", json=messages, headers=narrow)).json()
        assert answers[0]["status"] == "error"


async def test_the_same_over_mcp(tmp_path: Path) -> None:
    async with scenario(tmp_path) as client:
        shown = await over_mcp(client, "bot", "tools/list", {"toolset": "guest"})
        assert {tool["name"] for tool in shown["result"]["tools"]} == GUEST
        called = await over_mcp(client, "bot", "tools/call", {"toolset": "guest"}, name="orders__check_fraud")
        assert "unknown_tool" in str(called)
        called = await over_mcp(client, "bot", "tools/call", {}, name="orders__check_fraud")
        assert "unknown_tool" not in str(called)


async def test_a_toolset_that_does_not_exist_is_an_error_and_not_ignored(tmp_path: Path) -> None:
    async with scenario(tmp_path) as client:
        for name in ("gest", "", "*"):
            assert (await client.get("/v1/tools", headers=headers("bot", **{"x-toolset": name}))).status_code == 404
            assert (await client.get(f"/v1/tools?toolset={name}", headers=headers("bot"))).status_code == 404
            for wrong in (name, 5, ["guest"], {}):
                assert "error" in await over_mcp(client, "bot", "tools/list", {"toolset": wrong})
