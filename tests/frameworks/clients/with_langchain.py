"""LangChain, whose agents LangGraph runs: MultiServerMCPClient of langchain-mcp-adapters, with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.block_translators.openai import convert_to_openai_data_block
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_google_genai._function_utils import convert_to_genai_function_declarations
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.types import ElicitResult
from pydantic import PrivateAttr

from tests.frameworks.clients.client import (
    PATIENCE_S,
    ContextReader,
    Endpoint,
    Given,
    Toolbox,
    error_text,
    image,
    run,
    text,
)


class Scripted(BaseChatModel):
    """Model that calls what is on its list."""

    _turn: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_more: Any, **_options: Any) -> ChatResult:
        made: list[Any] = [self._turn.pop()] if self._turn else []
        message = AIMessage(content="" if made else "done", tool_calls=made)
        return ChatResult(generations=[ChatGeneration(message=message)])


@asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Toolbox]:
    async def person(_mcp_context: Any, params: Any, _context: Any) -> ElicitResult:
        endpoint.questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": endpoint.agrees})

    server: Any = {"transport": "http", "url": endpoint.url, "headers": endpoint.headers, "timeout": PATIENCE_S}
    callbacks = Callbacks(on_elicitation=person) if endpoint.asks else None
    client = MultiServerMCPClient({"gateway": server}, callbacks=callbacks)
    tools = await client.get_tools()
    schemas, refused = {}, {}
    for tool in tools:
        try:
            convert_to_genai_function_declarations([tool])
            schemas[tool.name] = convert_to_openai_tool(tool)["function"]["parameters"]
        except Exception as error:
            refused[tool.name] = error_text(error)
    model = Scripted()
    agent = create_agent(model, tools)

    async def call(name: str, arguments: dict[str, Any]) -> Given:
        model._turn.append({"name": name, "args": arguments, "id": "c1", "type": "tool_call"})
        state = await agent.ainvoke({"messages": [("user", "go")]})
        (message,) = [one for one in state["messages"] if isinstance(one, ToolMessage)]
        blocks = [message.content] if isinstance(message.content, str) else message.content
        return [part(block) for block in blocks], message.status == "error"

    yield Toolbox(schemas=schemas, call=call, refused=refused, read=reader_of(client))


def reader_of(client: MultiServerMCPClient) -> ContextReader:
    """The adapter's ways to prompts and resources."""

    async def prompt(name: str, arguments: dict[str, str]) -> str:
        return "".join(
            str(message.content) for message in await client.get_prompt("gateway", name, arguments=arguments)
        )

    async def resources() -> list[str]:
        return [str(blob.metadata["uri"]) for blob in await client.get_resources("gateway")]

    async def resource(uri: str) -> str:
        return "".join(blob.as_string() for blob in await client.get_resources("gateway", uris=uri))

    return ContextReader(prompt=prompt, resources=resources, resource=resource)


def part(block: Any) -> dict[str, str]:
    if isinstance(block, str):
        return text(block)
    if block["type"] == "image":
        convert_to_openai_data_block(block)
        return image(block["base64"], block["mime_type"])
    return text(block["text"] if block["type"] == "text" else block)


if __name__ == "__main__":
    run(connect, "langchain-mcp-adapters")
