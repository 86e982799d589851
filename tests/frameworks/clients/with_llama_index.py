"""LlamaIndex: McpToolSpec, whose tools an agent's model calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

from tests.frameworks.clients.client import PATIENCE_S, ContextReader, Endpoint, Given, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    client = BasicMCPClient(endpoint.url, headers=endpoint.headers, timeout=PATIENCE_S)
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}

    async def call(name: str, arguments: dict[str, Any]) -> Given:
        output = await tools[name].acall(**arguments)
        parts = [
            text(block.text)
            if block.block_type == "text"
            else image(block.resolve_image().read(), str(block.image_mimetype))
            for block in output.blocks
        ]
        return parts, output.is_error

    schemas = {name: tool.metadata.to_openai_tool()["function"]["parameters"] for name, tool in tools.items()}
    yield Toolbox(schemas=schemas, call=call, read=reader_of(client))


def reader_of(client: BasicMCPClient) -> ContextReader:
    """The client's ways to prompts and resources."""

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        return "".join(message.content or "" for message in await client.get_prompt(name, arguments))

    async def resources() -> list[str]:
        found: Any = await client.list_resources()
        return [str(one.uri) for one in found.resources]

    async def resource(uri: str) -> str:
        found: Any = await client.read_resource(uri)  # type: ignore[arg-type]
        return "".join(one.text for one in found.contents)

    return ContextReader(prompt=prompt, resources=resources, resource=resource)


if __name__ == "__main__":
    run(connect, "llama-index-tools-mcp")
