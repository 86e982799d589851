"""MCP's own Python SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async with client_of(endpoint) as client:
        tools = await tools_of(client)

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            result = await client.call_tool(name, arguments)
            return [part(block) for block in result.content], result.is_error

        yield Toolbox(schemas={tool.name: tool.input_schema for tool in tools}, call=call)


@asynccontextmanager
async def client_of(endpoint: Endpoint) -> AsyncIterator[Client]:
    """A client for frameworks that take one."""

    async def person(_context: Any, params: Any) -> ElicitResult:
        endpoint.questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": endpoint.agrees})

    async with httpx2.AsyncClient(headers=endpoint.headers, timeout=PATIENCE_S) as http:
        transport = streamable_http_client(endpoint.url, http_client=http)
        async with Client(transport, elicitation_callback=person if endpoint.asks else None) as client:
            yield client


async def tools_of(client: Client) -> list[Any]:
    """The tools on every page."""
    page = await client.list_tools()
    tools = [*page.tools]
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def part(block: Any) -> dict[str, str]:
    if block.type == "text":
        return text(block.text)
    return image(block.data, block.mime_type) if block.type == "image" else text(block.model_dump(mode="json"))


if __name__ == "__main__":
    run(connect, "mcp")
