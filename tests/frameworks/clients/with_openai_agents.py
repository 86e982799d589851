"""OpenAI Agents SDK: MCPServerStreamableHttp, with the SDK's own scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, RunConfig, RunContextWrapper, Runner
from agents.mcp import MCPServerStreamableHttp
from agents.testing import ScriptedModel, assistant_message, function_call

from tests.frameworks.clients.client import PATIENCE_S, ContextReader, Endpoint, Given, Part, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    params: Any = {"url": endpoint.url, "headers": endpoint.headers, "timeout": PATIENCE_S}
    server = MCPServerStreamableHttp(params=params, client_session_timeout_seconds=PATIENCE_S, cache_tools_list=True)
    async with server:
        tools = await Agent(name="clerk", mcp_servers=[server]).get_mcp_tools(RunContextWrapper(None))

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            model = ScriptedModel(
                [[function_call(name, json.dumps(arguments), call_id="c1")], [assistant_message("done")]]
            )
            agent = Agent(name="clerk", model=model, mcp_servers=[server])
            result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
            items: list[Any] = result.to_input_list()
            (output,) = [item["output"] for item in items if item.get("type") == "function_call_output"]
            return [text(output)] if isinstance(output, str) else [part(one) for one in output], None

        schemas = {tool.name: tool.params_json_schema for tool in tools}
        yield Toolbox(schemas=schemas, call=call, read=reader_of(server))


def reader_of(server: MCPServerStreamableHttp) -> ContextReader:
    """The server's ways to prompts and resources."""

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        found: Any = await server.get_prompt(name, arguments)
        return "".join(message.content.text for message in found.messages)

    async def resources() -> list[str]:
        return [str(one.uri) for one in (await server.list_resources()).resources]

    async def resource(uri: str) -> str:
        found: Any = await server.read_resource(uri)
        return "".join(one.text for one in found.contents)

    return ContextReader(prompt=prompt, resources=resources, resource=resource)


def part(block: Any) -> Part:
    if block["type"] == "input_image":
        media_type, _, data = block["image_url"].removeprefix("data:").partition(";base64,")
        return image(data, media_type)
    return text(block["text"] if block["type"] == "input_text" else block)


if __name__ == "__main__":
    run(connect, "openai-agents")
