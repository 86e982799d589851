"""AutoGen: McpWorkbench, and the tools that `mcp_server_tools` makes of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import McpWorkbench, StreamableHttpServerParams, mcp_server_tools

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    params = StreamableHttpServerParams(
        url=endpoint.url, headers=endpoint.headers, timeout=PATIENCE_S, sse_read_timeout=PATIENCE_S
    )
    adapters = {tool.name: tool.schema["parameters"] for tool in await mcp_server_tools(params)}
    async with McpWorkbench(params) as workbench:
        await workbench.list_tools()

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            made = await workbench.call_tool(name, arguments, CancellationToken())
            parts = [text(made.to_text())]  # as an AssistantAgent gives it to its model
            return parts, made.is_error

        yield Toolbox(schemas=adapters, call=call)


if __name__ == "__main__":
    run(connect, "autogen-ext")
