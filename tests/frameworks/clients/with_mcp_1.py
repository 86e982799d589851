"""MCP's own Python SDK, version 1, which most frameworks still build on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import ElicitResult

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async with session_of(endpoint) as session:
        tools, cursor = [], None
        while cursor != "":
            page = await session.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.nextCursor or ""

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            result = await session.call_tool(name, arguments)
            return [part(block) for block in result.content], result.isError

        yield Toolbox(schemas={tool.name: tool.inputSchema for tool in tools}, call=call)


@asynccontextmanager
async def session_of(endpoint: Endpoint) -> AsyncIterator[ClientSession]:
    """A session for frameworks that take one."""

    async def person(_context: Any, params: Any) -> ElicitResult:
        endpoint.questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": endpoint.agrees})

    asks = {"elicitation_callback": person} if endpoint.asks else {}
    patience = timedelta(seconds=PATIENCE_S)
    async with (
        streamablehttp_client(endpoint.url, headers=endpoint.headers, timeout=patience) as (reading, writing, _),
        ClientSession(reading, writing, **asks) as session,
    ):
        await session.initialize()
        yield session


def part(block: Any) -> dict[str, str]:
    if block.type == "text":
        return text(block.text)
    return image(block.data, block.mimeType) if block.type == "image" else text(block.model_dump(mode="json"))


if __name__ == "__main__":
    run(connect, "mcp")
