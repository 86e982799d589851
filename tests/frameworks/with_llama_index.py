"""LlamaIndex over MCP, with a scripted model. Its client asks nobody, and its tools have no mark for an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

from tests.frameworks.part import PATIENCE_S, Part, Played, play


async def agent(part: Part) -> Played:
    played = Played()

    def model(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        number = sum(message.role is MessageRole.ASSISTANT for message in messages)
        blocks = [
            ToolCallBlock(tool_call_id=call_id, tool_name=name, tool_kwargs=arguments)
            for call_id, name, arguments in part.turn(number)
        ]
        return (
            ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)
            if blocks
            else ChatMessage("done", role=MessageRole.ASSISTANT)
        )

    tools = await McpToolSpec(BasicMCPClient(part.url, headers=part.headers, timeout=PATIENCE_S)).to_tool_list_async()
    played.shown = [str(tool.metadata.name) for tool in tools]
    clerk = FunctionAgent(llm=MockFunctionCallingLLM(response_generator=model), tools=tools)
    running = clerk.run("go")
    async for event in running.stream_events():
        if isinstance(event, ToolCallResult):
            played.told.append((str(event.tool_output.content), event.tool_output.is_error))
    played.said = str(await running)
    return played


if __name__ == "__main__":
    play(agent)
