"""LlamaIndex: McpToolSpec, whose tools an agent's model calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, image, run, text


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
    yield Toolbox(schemas=schemas, call=call)


if __name__ == "__main__":
    run(connect, "llama-index-tools-mcp")
