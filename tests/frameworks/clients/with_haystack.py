"""Haystack: MCPToolset, whose tools are invoked as an agent invokes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from haystack.tools.errors import ToolInvocationError
from haystack_integrations.tools.mcp import MCPToolset, StreamableHttpServerInfo

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    server = StreamableHttpServerInfo(url=endpoint.url, headers=endpoint.headers, timeout=PATIENCE_S)
    toolset = MCPToolset(server, invocation_timeout=PATIENCE_S)
    try:
        await asyncio.to_thread(toolset.warm_up)
        tools = {tool.name: tool for tool in toolset}

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            try:
                return [text(await asyncio.to_thread(tools[name].invoke, **arguments))], False
            except ToolInvocationError as error:  # the invoker makes a result with error=True of it
                return [text(str(error))], True

        yield Toolbox(
            schemas={name: tool.tool_spec["parameters"] for name, tool in tools.items()}, call=call, cancellable=False
        )
    finally:
        await asyncio.to_thread(toolset.close)


if __name__ == "__main__":
    run(connect, "mcp-haystack")
