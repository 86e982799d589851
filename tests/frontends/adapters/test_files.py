"""Pictures and files of every kind of source as real clients give them to a model: over MCP and in the same process."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from agents import Agent as OpenAiAgent
from agents import Runner
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import AudioContent, ImageContent, TextContent
from pydantic_ai.messages import BinaryContent, ToolReturnPart

from tests.frontends.adapters.test_langgraph import Scripted
from tests.frontends.adapters.test_langgraph import answers as langgraph_answers
from tests.frontends.adapters.test_openai_agents import QUIET
from tests.frontends.adapters.test_openai_agents import scripted as openai_scripted
from tests.frontends.adapters.test_pydantic_ai import agent_of as pydantic_agent
from tests.frontends.adapters.test_pydantic_ai import scripted as pydantic_scripted
from tests.gateway.calls.test_answer_files import CALLS, HELD, NOTE, PNG, SEEN, long_texts, tried
from tests.gateway.clients import listening
from toolgen.frontends.adapters.langgraph import tools as langgraph_tools
from toolgen.frontends.adapters.openai_agents import tools as openai_tools
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.answer_text import written

Given = tuple[str, list[tuple[str, bytes]]]
"""What a model is given of one call: all text, and pictures and recordings with their media types."""
Call = Callable[[str, dict[str, Any]], Awaitable[Given]]
Connect = Callable[[Gateway], AbstractAsyncContextManager[Call]]


@asynccontextmanager
async def mcp_sdk(gateway: Gateway, *, mode: Any) -> AsyncIterator[Call]:
    """MCP's own SDK, over HTTP."""
    async with (
        listening(App(gateway)) as url,
        httpx2.AsyncClient(headers={"authorization": "Bearer key-of-bot"}) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):

        async def call(name: str, arguments: dict[str, Any]) -> Given:
            blocks = (await client.call_tool(name, arguments)).content
            texts = [block.text for block in blocks if isinstance(block, TextContent)]
            files = [block for block in blocks if isinstance(block, ImageContent | AudioContent)]
            assert len(texts) + len(files) == len(blocks)
            return "\n".join(texts), [(one.mime_type, base64.b64decode(one.data)) for one in files]

        yield call


@asynccontextmanager
async def pydantic_ai(gateway: Gateway) -> AsyncIterator[Call]:
    """pydantic-ai, whose toolset has the gateway in the same process."""

    async def call(name: str, arguments: dict[str, Any]) -> Given:
        model, _ = pydantic_scripted([(name, arguments)])
        messages = (await pydantic_agent(model, gateway).run("go")).all_messages()
        (part,) = (one for message in messages for one in message.parts if isinstance(one, ToolReturnPart))
        files = [one for one in part.files if isinstance(one, BinaryContent)]
        text = part.model_response_str(wrap_if_error=False)
        return text, [(one.media_type, one.data) for one in files]

    yield call


@asynccontextmanager
async def langchain(gateway: Gateway) -> AsyncIterator[Call]:
    """LangChain's agent, with the gateway in the same process. Its tools give no recordings."""
    from langchain.agents import create_agent  # noqa: PLC0415 - it takes a second

    async def call(name: str, arguments: dict[str, Any]) -> Given:
        agent = create_agent(Scripted(turns=[[(name, arguments)]]), langgraph_tools(gateway, "bot"))
        (message,) = langgraph_answers(await agent.ainvoke({"messages": "go"}))
        blocks = cast("list[dict[str, Any]]", message.content_blocks)
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        files = [block for block in blocks if block["type"] != "text"]
        return "\n".join(texts), [(one["mime_type"], base64.b64decode(one["base64"])) for one in files]

    yield call


@asynccontextmanager
async def openai_agents(gateway: Gateway) -> AsyncIterator[Call]:
    """OpenAI's Agents SDK, with the gateway in the same process. It has no form for recordings."""

    async def call(name: str, arguments: dict[str, Any]) -> Given:
        agent = OpenAiAgent(name="clerk", model=openai_scripted((name, arguments)), tools=openai_tools(gateway, "bot"))
        items: list[Any] = (await Runner.run(agent, "go", run_config=QUIET)).to_input_list()
        (output,) = (item["output"] for item in items if item.get("type") == "function_call_output")
        parts = [{"type": "input_text", "text": written(output)}] if isinstance(output, str) else output
        texts = [part["text"] for part in parts if part["type"] == "input_text"]
        urls = [part["image_url"] for part in parts if part["type"] == "input_image"]
        found = [re.fullmatch(r"data:([a-z/]+);base64,(.*)", url) for url in urls]
        return "\n".join(texts), [(one[1], base64.b64decode(one[2])) for one in found if one is not None]

    yield call


CLIENTS: dict[str, Connect] = {
    "MCP's SDK, stateless": partial(mcp_sdk, mode="auto"),
    "MCP's SDK, stateful": partial(mcp_sdk, mode="legacy"),
    "pydantic-ai": pydantic_ai,
    "LangChain": langchain,
    "OpenAI Agents": openai_agents,
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_model_sees_pictures_and_reads_files(tmp_path: Path, client: str) -> None:
    async with tried(tmp_path) as (gateway, _), CLIENTS[client](gateway) as call:
        for name, (tool, arguments) in CALLS.items():
            text, files = await call(tool, arguments)
            seen = SEEN.get(name, [])
            if client in {"OpenAI Agents", "LangChain"}:
                seen = [one for one in seen if one[0].startswith("image/")]
            assert files == seen, name
            assert not long_texts(text), name
            uris = list(dict.fromkeys(re.findall(r"toolgen://[A-Za-z0-9_/-]+", text)))
            assert len(uris) == len(HELD[name]), (name, text)
            for uri, body in zip(uris, HELD[name], strict=True):
                if body not in {PNG, NOTE}:
                    continue
                text, files = await call("read_file", {"uri": uri})
                assert files == ([("image/png", PNG)] if body == PNG else []), name
                assert (NOTE.decode().strip() in text.replace("\\n", "\n")) is (body == NOTE), name
                assert not long_texts(text), name
