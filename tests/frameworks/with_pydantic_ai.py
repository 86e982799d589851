"""pydantic-ai over MCP, with a scripted model."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.frameworks.part import PATIENCE_S, Part, Played, play


async def agent(part: Part) -> Played:
    played = Played()

    async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        played.shown = [tool.name for tool in info.function_tools]
        calls = part.turn(sum(isinstance(message, ModelResponse) for message in messages))
        made: list[Any] = [ToolCallPart(name, arguments, call_id) for call_id, name, arguments in calls]
        return ModelResponse(parts=made or [TextPart("done")])

    async def person(message: str, *_: Any) -> dict[str, bool]:
        played.asked.append(message)
        return {"approve": part.person}

    toolset = MCPToolset(
        part.url,
        headers=part.headers,
        elicitation_handler=person,
        tool_error_behavior="failed",
        init_timeout=PATIENCE_S,
    )
    async with Agent(FunctionModel(model), toolsets=[toolset]) as clerk:
        result = await clerk.run("go")
    for message in result.all_messages():
        for told in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(told, ToolReturnPart):
                played.told.append((told.model_response_str(wrap_if_error=False), told.outcome != "success"))
    played.said = result.output
    return played


if __name__ == "__main__":
    play(agent)
