"""DSPy: tools of an MCP session, as its ReAct module calls them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import dspy

from tests.frameworks.clients.client import Endpoint, Given, Toolbox, error_text, run, text
from tests.frameworks.clients.with_mcp import client_of, tools_of


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async with client_of(endpoint) as client:
        tools, refused = {}, {}
        for tool in await tools_of(client):
            try:
                tools[tool.name] = dspy.Tool.from_mcp_tool(client, tool)
            except Exception as error:
                refused[tool.name] = error_text(error)

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            try:
                return [text(await tools[name].acall(**arguments))], False
            except RuntimeError as error:  # ReAct writes it down as the observation
                return [text(f"Execution error in {name}: {error}")], True

        schemas = {
            name: tool.format_as_litellm_function_call()["function"]["parameters"] for name, tool in tools.items()
        }
        yield Toolbox(schemas=schemas, call=call, refused=refused)


if __name__ == "__main__":
    run(connect, "dspy")
