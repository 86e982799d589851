"""FastMCP's client, whose results have `.data`: what is structured, and the content blocks where nothing is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from pydantic_core import to_jsonable_python

from tests.frameworks.clients.client import PATIENCE_S, ContextReader, Endpoint, Given, Toolbox, run, text
from tests.frameworks.clients.with_mcp import joined, part


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async def person(message: str, *_: Any) -> dict[str, bool]:
        endpoint.questions.append(message)
        return {"approve": endpoint.agrees}

    transport = StreamableHttpTransport(endpoint.url, headers=endpoint.headers)
    asks = {"elicitation_handler": person} if endpoint.asks else {}
    async with Client(transport, timeout=PATIENCE_S, **asks) as client:
        tools = await client.list_tools()

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            try:
                result = await client.call_tool(name, arguments)
            except ToolError as error:
                return [text(str(error))], True
            if (
                result.data is not None
            ):  # a record with None for every member that the schema has and the answer has not
                return [text(to_jsonable_python(result.data, exclude_none=True))], False
            return [part(block) for block in result.content], False

        yield Toolbox(schemas={tool.name: tool.input_schema for tool in tools}, call=call, read=reader_of(client))


def reader_of(client: Client[Any]) -> ContextReader:
    """FastMCP's ways to prompts and resources."""

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        return joined(message.content for message in (await client.get_prompt(name, arguments)).messages)

    async def resources() -> list[str]:
        return [str(one.uri) for one in await client.list_resources()]

    async def resource(uri: str) -> str:
        return joined(await client.read_resource(uri))

    return ContextReader(prompt=prompt, resources=resources, resource=resource)


if __name__ == "__main__":
    run(connect, "fastmcp")
