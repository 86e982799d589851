"""Calls inside other calls count as themselves: in a batch, and behind the tools that search the catalog."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import orjson

from tests.gateway.clients import BASE, JSON, bearer
from tests.projects import KEY, POLICY, make_project
from toolgen.gateway.asgi.app import App
from toolgen.gateway.service import Gateway

LIMITS = [{"id": "lists", "per": ["tool"], "rate": "2/h"}]


def test_each_call_of_a_batch_counts(tmp_path: Path) -> None:
    path = make_project(tmp_path, policy={**POLICY, "limits": LIMITS})
    calls = [{"type": "tool_call", "id": str(number), "name": "shop__list_tables", "args": {}} for number in range(4)]

    async def main() -> None:
        async with Gateway.load(path) as gateway:
            transport = httpx.ASGITransport(App(gateway))
            async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer(KEY)) as http:
                answer = await http.post("/v1/tool_calls", headers=JSON, content=orjson.dumps(calls))
            statuses = [message["status"] for message in answer.json()]
            assert sorted(statuses) == ["error", "error", "success", "success"]
            assert sum("rate_limited" in message["content"] for message in answer.json()) == 2

    asyncio.run(main())


def test_a_call_behind_call_tool_counts_as_the_tool_that_is_called(tmp_path: Path) -> None:
    path = make_project(tmp_path, policy={**POLICY, "limits": LIMITS})
    said = {**json.loads(path.read_text(encoding="utf-8")), "gateway": {"search_above": 0}}
    path.write_text(json.dumps(said), encoding="utf-8")

    async def main() -> None:
        async with Gateway.load(path) as gateway:
            inner = {"name": "shop__list_tables", "arguments": {}}
            answers = [
                await gateway.call("call_tool", inner, principal="bot"),
                await gateway.call("shop__list_tables", {}, principal="bot"),
                await gateway.call("call_tool", inner, principal="bot"),
            ]
            assert [answer.status for answer in answers] == ["ok", "ok", "refused"]
            assert answers[2].error is not None
            assert answers[2].error.rule == "lists"

    asyncio.run(main())
