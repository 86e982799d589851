"""Agno: MCPTools, whose functions an agent's model calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agno.tools.function import FunctionCall
from agno.tools.mcp import MCPTools, StreamableHTTPClientParams

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    params = StreamableHTTPClientParams(url=endpoint.url, headers=endpoint.headers)
    async with MCPTools(transport="streamable-http", server_params=params, timeout_seconds=PATIENCE_S) as tools:
        functions = {**tools.functions, **tools.async_functions}

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            made = await FunctionCall(function=functions[name], arguments=arguments).aexecute()
            if made.status != "success":
                return [text(made.error)], True
            pictures = [image(one.content, one.mime_type) for one in made.result.images or ()]
            return [text(made.result.content), *pictures], None

        yield Toolbox(
            schemas={name: function.to_dict()["parameters"] for name, function in functions.items()}, call=call
        )


if __name__ == "__main__":
    run(connect, "agno")
