"""Google's Agent Development Kit: McpToolset, with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.mcp_instruction_provider import McpInstructionProvider
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from google.genai import types
from mcp.types import ElicitResult
from pydantic import PrivateAttr

from tests.frameworks.clients.client import PATIENCE_S, ContextReader, Endpoint, Given, Toolbox, run, text


class Scripted(BaseLlm):
    """Model that calls what is on its list, and keeps the declarations that it was given."""

    _turn: list[types.Part] = PrivateAttr(default_factory=list)
    _shown: dict[str, Any] = PrivateAttr(default_factory=dict)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        for tool in llm_request.config.tools or []:
            for one in tool.function_declarations:
                self._shown[one.name] = one.model_dump(mode="json", exclude_none=True)
        part = self._turn.pop() if self._turn else types.Part(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async def person(_context: Any, params: Any) -> ElicitResult:
        endpoint.questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": endpoint.agrees})

    model = Scripted(model="scripted")
    connection = StreamableHTTPConnectionParams(url=endpoint.url, headers=endpoint.headers, timeout=PATIENCE_S)
    asks = {"elicitation_callback": person} if endpoint.asks else {}
    toolset = McpToolset(connection_params=connection, **asks)
    runner = InMemoryRunner(agent=LlmAgent(name="clerk", model=model, tools=[toolset]), app_name="clerk")

    async def turn() -> list[dict[str, Any]]:
        session = await runner.session_service.create_session(app_name="clerk", user_id="ann")
        message = types.Content(role="user", parts=[types.Part(text="go")])
        answers = []
        async for event in runner.run_async(user_id="ann", session_id=session.id, new_message=message):
            for piece in event.content.parts or [] if event.content else []:
                if piece.function_response is not None:
                    answers.append(piece.function_response.response or {})
        return answers

    async def call(name: str, arguments: dict[str, Any]) -> Given:
        model._turn.append(types.Part(function_call=types.FunctionCall(id="c1", name=name, args=arguments)))
        (answer,) = await turn()
        return [text(answer)], answer.get("isError") or "error" in answer

    try:
        await turn()
        yield Toolbox(schemas=model._shown, call=call, read=reader_of(toolset, connection))
    finally:
        await runner.close()


def reader_of(toolset: McpToolset, connection: StreamableHTTPConnectionParams) -> ContextReader:
    """The kit's ways: a prompt is the instruction of an agent, with arguments of the session's state; resources are read by their names."""

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        provider: Any = McpInstructionProvider(connection, name)
        return str(await provider(SimpleNamespace(state=arguments)))

    async def resources() -> list[str]:
        return [str((await toolset.get_resource_info(name))["uri"]) for name in await toolset.list_resources()]

    async def resource(uri: str) -> str:
        for name in await toolset.list_resources():
            if str((await toolset.get_resource_info(name))["uri"]) == uri:
                return "".join(one.text for one in await toolset.read_resource(name))
        return "no resource of this URI is listed"

    return ContextReader(prompt=prompt, resources=resources, resource=resource)


if __name__ == "__main__":
    run(connect, "google-adk")
