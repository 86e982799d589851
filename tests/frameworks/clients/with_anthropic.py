"""Anthropic's SDK: tools of MCP for its tool runner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anthropic.lib.tools import ToolError
from anthropic.lib.tools.mcp import async_mcp_tool

from tests.frameworks.clients.client import Endpoint, Given, Toolbox, image, run, text
from tests.frameworks.clients.with_mcp import client_of, tools_of


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async with client_of(endpoint) as client:
        tools = {tool.name: async_mcp_tool(tool, client) for tool in await tools_of(client)}

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            try:
                return parts(await tools[name].call(arguments)), False
            except ToolError as error:  # the tool runner makes a tool_result with is_error of it
                return parts(error.content), True

        yield Toolbox(schemas={name: tool.to_dict()["input_schema"] for name, tool in tools.items()}, call=call)


def parts(content: Any) -> list[dict[str, str]]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [
        text(block["text"])
        if block["type"] == "text"
        else image(block["source"]["data"], block["source"]["media_type"])
        if block["type"] == "image"
        else text(dict(block))
        for block in blocks
    ]


if __name__ == "__main__":
    run(connect, "anthropic")
