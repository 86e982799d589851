"""Microsoft Agent Framework: MCPStreamableHTTPTool, whose functions an agent's model calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import MCPStreamableHTTPTool
from agent_framework.exceptions import ToolExecutionException

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    tool = MCPStreamableHTTPTool("gateway", endpoint.url, static_headers=endpoint.headers, request_timeout=PATIENCE_S)
    async with tool:
        functions = {function.name: function for function in tool.functions}

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            try:
                content = await functions[name].invoke(arguments=arguments)
            except (ToolExecutionException, TypeError) as error:  # with include_detailed_errors the model is told this
                return [text(str(error))], True
            return [part(one) for one in content], False

        schemas = {name: one.to_json_schema_spec()["function"]["parameters"] for name, one in functions.items()}
        yield Toolbox(schemas=schemas, call=call)


def part(content: Any) -> dict[str, str]:
    if content.type == "data" and (content.media_type or "").startswith("image/"):
        return image(content.uri.partition("base64,")[2], content.media_type)
    return text(content.text if content.type == "text" else content.to_dict())


if __name__ == "__main__":
    run(connect, "agent-framework-core")
