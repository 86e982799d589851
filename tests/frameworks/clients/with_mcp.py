"""MCP's own Python SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from tests.frameworks.clients.client import PATIENCE_S, ContextReader, Endpoint, Given, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async with client_of(endpoint) as client:
        tools = await tools_of(client)

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            result = await client.call_tool(name, arguments)
            return [part(block) for block in result.content], result.is_error

        yield Toolbox(schemas={tool.name: tool.input_schema for tool in tools}, call=call, read=reader_of(client))


def reader_of(client: Client) -> ContextReader:
    """The SDK's own ways to prompts and resources."""

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        return joined(message.content for message in (await client.get_prompt(name, arguments)).messages)

    async def resources() -> list[str]:
        return [str(one.uri) for one in (await client.list_resources()).resources]

    async def resource(uri: str) -> str:
        return joined((await client.read_resource(uri)).contents)

    return ContextReader(prompt=prompt, resources=resources, resource=resource)


def joined(blocks: Iterable[Any]) -> str:
    """The text of blocks, or of contents."""
    return "".join(one.text for one in blocks)


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
