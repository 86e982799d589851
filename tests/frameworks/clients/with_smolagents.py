"""smolagents: MCPClient, whose tools an agent calls in its thread."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from smolagents import MCPClient
from smolagents.models import get_tool_json_schema

from tests.frameworks.clients.client import PATIENCE_S, Endpoint, Given, Toolbox, error_text, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    server = {"url": endpoint.url, "transport": "streamable-http", "headers": endpoint.headers}
    options = {"connect_timeout": PATIENCE_S, "client_session_timeout_seconds": PATIENCE_S}
    client = await asyncio.to_thread(MCPClient, server, options, structured_output=False)
    try:
        tools = {tool.name: tool for tool in client.get_tools()}

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            answer = await asyncio.to_thread(tools[name], **arguments)
            if hasattr(answer, "to_raw"):
                answer = answer.to_raw()
            if not isinstance(answer, str) and hasattr(answer, "save"):
                saved = io.BytesIO()
                answer.save(saved, "PNG")
                return [image(saved.getvalue(), "image/png")], None
            return [text(str(answer))], None

        schemas, refused = {}, {}
        for name, tool in tools.items():
            try:
                schemas[name] = json.loads(json.dumps(get_tool_json_schema(tool)["function"]["parameters"]))
            except Exception as error:
                refused[name] = error_text(error)
        yield Toolbox(schemas=schemas, call=call, refused=refused, cancellable=False)
    finally:
        await asyncio.to_thread(client.disconnect)


if __name__ == "__main__":
    run(connect, "smolagents")
