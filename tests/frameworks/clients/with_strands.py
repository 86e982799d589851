"""Strands Agents: MCPClient, whose tools an agent's model calls."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from mcp.types import ElicitResult
from strands.tools.mcp import MCPClient

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async def person(_context: Any, params: Any) -> ElicitResult:
        endpoint.questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": endpoint.agrees})

    asks = {"elicitation_callback": person} if endpoint.asks else {}
    client = MCPClient(url=endpoint.url, headers=endpoint.headers, **asks)
    try:
        tools = {tool.tool_name: tool for tool in await client.load_tools()}
        for tool in tools.values():
            tool.timeout = timedelta(seconds=PATIENCE_S)

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            use: Any = {"toolUseId": "c1", "name": name, "input": arguments}
            async for event in tools[name].stream(use, {}):
                result = event.tool_result
            return [part(block) for block in result["content"]], result["status"] == "error"

        yield Toolbox(schemas={name: tool.tool_spec["inputSchema"]["json"] for name, tool in tools.items()}, call=call)
    finally:
        await asyncio.to_thread(client.stop, None, None, None)


def part(block: Any) -> dict[str, str]:
    if "image" in block:
        picture = block["image"]
        return image(base64.b64encode(picture["source"]["bytes"]).decode(), f"image/{picture['format']}")
    return text(block.get("text", block))


if __name__ == "__main__":
    run(connect, "strands-agents")
