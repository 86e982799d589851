"""LangChain's agent, which LangGraph runs, over MCP with langchain-mcp-adapters and a scripted model."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult
from pydantic import PrivateAttr

from tests.frameworks.part import PATIENCE_S, Part, Played, play


class Scripted(BaseChatModel):
    """A model that plays a part."""

    _part: Part = PrivateAttr()
    _played: Played = PrivateAttr()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        self._played.shown = [tool.name for tool in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *_more: Any, **_options: Any) -> ChatResult:
        calls = self._part.turn(sum(isinstance(message, AIMessage) for message in messages))
        made: list[Any] = [
            {"name": name, "args": arguments, "id": id_, "type": "tool_call"} for id_, name, arguments in calls
        ]
        message = AIMessage(content="" if made else "done", tool_calls=made)
        return ChatResult(generations=[ChatGeneration(message=message)])


async def agent(part: Part) -> Played:
    played = Played()
    model = Scripted()
    model._part, model._played = part, played

    async def person(_mcp_context: Any, params: Any, _context: Any) -> ElicitResult:
        played.asked.append(params.message)
        return ElicitResult(action="accept", content={"approve": part.person})

    server: Any = {"transport": "http", "url": part.url, "headers": part.headers, "timeout": PATIENCE_S}
    client = MultiServerMCPClient({"gateway": server}, callbacks=Callbacks(on_elicitation=person))
    clerk = create_agent(model, await client.get_tools())
    state = await clerk.ainvoke({"messages": [("user", "go")]})
    for message in state["messages"]:
        if isinstance(message, ToolMessage):
            played.told.append((_text(message), message.status == "error"))
    played.said = str(state["messages"][-1].content)
    return played


def _text(message: ToolMessage) -> str:
    """The model reads texts, alone or in a list of parts."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(piece if isinstance(piece, str) else piece.get("text", "") for piece in message.content)


if __name__ == "__main__":
    play(agent)
