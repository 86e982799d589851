"""Frameworks with clients of their own for MCP, with scripted models, against the gateway on a real port."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner
from agents.mcp import MCPServerStreamableHttp
from agents.testing import ScriptedModel, assistant_message, function_call

from tests.frontends.adapters.agents import ASKED, DENIED, READ, recorded, world
from tests.gateway.clients import bearer, listening
from toolgen.frontends.http.app import App

PRINCIPALS: dict[str, Any] = {
    "bot": {"roles": ["bot"], "api_key": "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()},
    "lena": {"roles": ["lead"]},
}


async def test_the_openai_agents_sdk_calls_over_mcp(tmp_path: Path) -> None:
    async with world(tmp_path, principals=PRINCIPALS) as (gateway, seen), listening(App(gateway)) as url:
        steps = [
            function_call(name, dict(arguments), call_id=f"c{at}")
            for at, (name, arguments) in enumerate((READ, DENIED, ASKED))
        ]
        model = ScriptedModel([steps, [assistant_message("done")]])
        params: Any = {"url": f"{url}/mcp", "headers": bearer("key-of-bot")}
        async with MCPServerStreamableHttp(params=params, client_session_timeout_seconds=30) as server:
            agent = Agent(name="clerk", model=model, mcp_servers=[server])
            result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
        items: list[Any] = result.to_input_list()
        told = {item["call_id"]: str(item["output"]) for item in items if item.get("type") == "function_call_output"}
        assert result.final_output == "done"
        assert '"ok":true' in told["c0"].replace(" ", "").replace("\\", "")
        assert "forbidden: " in told["c1"]
        assert "approval_required: " in told["c2"]
        assert [request[1] for request in seen.requests] == ["/orders?tenant_id=acme"]
        assert sorted(status for _, status in recorded(gateway, "outcome")) == ["ok", "pending", "refused"]
