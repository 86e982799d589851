"""CrewAI: an MCP server of an agent, `mcps=[MCPServerHTTP(…)]`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from crewai.mcp import MCPServerHTTP
from crewai.mcp.tool_resolver import MCPToolResolver
from crewai.tools.tool_failure import ToolFailure
from crewai.utilities.logger import Logger

from tests.frameworks.clients.client import Endpoint, Given, Toolbox, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    resolver = MCPToolResolver(agent=None, logger=Logger(verbose=False))
    server = MCPServerHTTP(url=endpoint.url, headers=endpoint.headers, streamable=True)
    tools = {tool.original_tool_name: tool for tool in await asyncio.to_thread(resolver.resolve, [server])}

    async def call(name: str, arguments: dict[str, Any]) -> Given:
        answer = tools[name].run(**arguments)  # in this thread: where no loop runs, it fails on Python 3.11
        if isinstance(answer, ToolFailure):
            return [text(answer.message)], True
        return [text(answer)], False

    schemas = {name: tool.args_schema.model_json_schema() for name, tool in tools.items()}
    yield Toolbox(schemas=schemas, call=call, cancellable=False)


if __name__ == "__main__":
    run(connect, "crewai")
