"""Google's Agent Development Kit over MCP, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from google.genai import types
from mcp.types import ElicitResult
from pydantic import PrivateAttr

from tests.frameworks.part import PATIENCE_S, Part, Played, play


class Scripted(BaseLlm):
    """A model that plays a part."""

    _part: Part = PrivateAttr()
    _played: Played = PrivateAttr()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._played.shown = sorted(llm_request.tools_dict)
        spoken = sum(content.role == "model" for content in llm_request.contents)
        parts = [
            types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=arguments))
            for call_id, name, arguments in self._part.turn(spoken)
        ]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text="done")]))


async def agent(part: Part) -> Played:
    played = Played()
    model = Scripted(model="scripted")
    model._part, model._played = part, played

    async def person(_context: Any, params: Any) -> ElicitResult:
        played.asked.append(params.message)
        return ElicitResult(action="accept", content={"approve": part.person})

    connection = StreamableHTTPConnectionParams(url=part.url, headers=part.headers, timeout=PATIENCE_S)
    toolset = McpToolset(connection_params=connection, elicitation_callback=person)
    runner = InMemoryRunner(agent=LlmAgent(name="clerk", model=model, tools=[toolset]), app_name="clerk")
    session = await runner.session_service.create_session(app_name="clerk", user_id="ann")
    wanted = types.Content(role="user", parts=[types.Part(text="go")])
    async for event in runner.run_async(user_id="ann", session_id=session.id, new_message=wanted):
        for piece in event.content.parts or [] if event.content else []:
            if piece.function_response is not None:
                told: dict[str, Any] = piece.function_response.response or {}
                played.told.append((_text(told), told.get("isError")))
            played.said = piece.text or played.said
    await runner.close()
    return played


def _text(told: dict[str, Any]) -> str:
    """The model reads the whole result; its texts are what a person would."""
    pieces = [piece["text"] for piece in told.get("content", ()) if piece.get("type") == "text"]
    return "\n".join(pieces) or json.dumps(told)


if __name__ == "__main__":
    play(agent)
