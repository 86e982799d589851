"""pydantic-ai: MCPToolset, with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.frameworks.clients.client import PATIENCE_S, ContextReader, Endpoint, Given, Toolbox, image, run, text


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    shown: dict[str, Any] = {}
    turn: list[ToolCallPart] = []

    async def model(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown.update({tool.name: tool.parameters_json_schema for tool in info.function_tools})
        return ModelResponse(parts=[turn.pop() if turn else TextPart("done")])

    async def person(message: str, *_: Any) -> dict[str, bool]:
        endpoint.questions.append(message)
        return {"approve": endpoint.agrees}

    toolset = MCPToolset(
        endpoint.url,
        headers=endpoint.headers,
        tool_error_behavior="failed",
        init_timeout=PATIENCE_S,
        elicitation_handler=person if endpoint.asks else None,
    )
    async with Agent(FunctionModel(model), toolsets=[toolset]) as agent:
        await agent.run("Which tools are there?")

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            turn.append(ToolCallPart(name, arguments))
            result = await agent.run("go")
            parts, error = [], False
            for message in result.all_messages()[2:-1]:
                for one in message.parts if isinstance(message, ModelRequest) else ():
                    parts += told(one)
                    error = error or isinstance(one, RetryPromptPart) or getattr(one, "outcome", "success") != "success"
            return parts, error

        yield Toolbox(schemas=shown, call=call, read=reader_of(toolset))


def reader_of(toolset: MCPToolset) -> ContextReader:
    """The toolset's ways to prompts and resources."""

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        found = await toolset.get_prompt(name, arguments)
        return "".join(str(message.content) for message in found.messages)

    async def resources() -> list[str]:
        return [one.uri for one in await toolset.list_resources()]

    async def resource(uri: str) -> str:
        return str(await toolset.read_resource(uri))

    return ContextReader(prompt=prompt, resources=resources, resource=resource)


def told(part: Any) -> list[dict[str, str]]:
    match part:
        case ToolReturnPart():
            files = [image(file.data, file.media_type) for file in part.files if isinstance(file, BinaryContent)]
            return [text(part.model_response_str(wrap_if_error=False)), *files]
        case RetryPromptPart():
            return [text(part.model_response())]
        case UserPromptPart(content=str()):
            return [text(part.content)]
        case UserPromptPart():
            return [text(one) if isinstance(one, str) else image(one.data, one.media_type) for one in part.content]
    return []


if __name__ == "__main__":
    run(connect, "pydantic-ai-slim")
