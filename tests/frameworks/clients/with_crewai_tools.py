"""crewai-tools: MCPServerAdapter, whose tools a CrewAI agent's model calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from crewai_tools import MCPServerAdapter

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    server = {"url": endpoint.url, "transport": "streamable-http", "headers": endpoint.headers}
    adapter = await asyncio.to_thread(MCPServerAdapter, server, connect_timeout=PATIENCE_S)
    try:
        tools = {tool.name: tool for tool in adapter.tools}  # CrewAI writes orders_list_orders for orders__list_orders

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            return [text(str(await asyncio.to_thread(tools[name.replace("__", "_")].run, **arguments)))], None

        schemas = {name: tool.args_schema.model_json_schema() for name, tool in tools.items()}
        yield Toolbox(schemas=schemas, call=call, cancellable=False)
    finally:
        await asyncio.to_thread(adapter.stop)


if __name__ == "__main__":
    run(connect, "crewai-tools")
