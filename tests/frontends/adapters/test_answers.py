"""Every kind of answer as models are given it by frameworks in the same process: the same words as over MCP, and pictures as pictures."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAiAgent
from agents import Runner
from pydantic_ai.messages import BinaryContent, RetryPromptPart, ToolReturnPart

from tests.frontends.adapters.test_langgraph import Scripted
from tests.frontends.adapters.test_langgraph import answers as langgraph_answers
from tests.frontends.adapters.test_openai_agents import QUIET
from tests.frontends.adapters.test_openai_agents import scripted as openai_scripted
from tests.frontends.adapters.test_pydantic_ai import agent_of as pydantic_agent
from tests.frontends.adapters.test_pydantic_ai import scripted as pydantic_scripted
from tests.gateway.answering import KINDS, Kind, upstream, write_project
from toolgen.frontends.adapters.langgraph import tools as langgraph_tools
from toolgen.frontends.adapters.openai_agents import tools as openai_tools
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.answer_text import written

# A call that waits ends or interrupts a run, and one that a model is to make again is no answer: those are tested with each framework.
TRIED = {name: kind for name, kind in KINDS.items() if name not in {"pending", "unknown", "invalid"}}
Given = list[tuple[str, list[bytes]]]
"""What a model was given of each call: all text, and the pictures."""


async def by_pydantic_ai(gateway: Gateway, kinds: list[Kind]) -> Given:
    model, _ = pydantic_scripted([(kind.tool, kind.arguments) for kind in kinds])
    messages = (await pydantic_agent(model, gateway).run("go")).all_messages()
    given = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolReturnPart | RetryPromptPart):
            mixed = isinstance(part.content, list) and any(isinstance(one, BinaryContent) for one in part.content)
            content: Any = part.content if mixed else [part.content]
            texts = [written(one) for one in content if not isinstance(one, BinaryContent)]
            given.append(("\n".join(texts), [one.data for one in content if isinstance(one, BinaryContent)]))
    return given


async def by_langgraph(gateway: Gateway, kinds: list[Kind]) -> Given:
    from langchain.agents import create_agent  # noqa: PLC0415 - it takes a second

    model = Scripted(turns=[[(kind.tool, kind.arguments)] for kind in kinds])
    agent = create_agent(model, langgraph_tools(gateway, "bot"))
    given = []
    for message in langgraph_answers(await agent.ainvoke({"messages": "go"}, {"recursion_limit": 200})):
        blocks: list[Any] = message.content_blocks
        assert {block["type"] for block in blocks} <= {"text", "image"}
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        given.append(("\n".join(texts), [base64.b64decode(one["base64"]) for one in blocks if one["type"] == "image"]))
    return given


async def by_openai_agents(gateway: Gateway, kinds: list[Kind]) -> Given:
    given = []
    for kind in kinds:
        model = openai_scripted((kind.tool, kind.arguments))
        agent = OpenAiAgent(name="clerk", model=model, tools=openai_tools(gateway, "bot"))
        items: list[Any] = (await Runner.run(agent, "go", run_config=QUIET)).to_input_list()
        (output,) = (item["output"] for item in items if item.get("type") == "function_call_output")
        parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
        texts = [part["text"] for part in parts if part["type"] == "input_text"]
        urls = [part["image_url"] for part in parts if part["type"] == "input_image"]
        given.append(("\n".join(texts), [base64.b64decode(url.partition(",")[2]) for url in urls]))
    return given


@pytest.mark.parametrize("ran", [by_pydantic_ai, by_langgraph, by_openai_agents])
async def test_a_model_is_given_all_of_an_answer(tmp_path: Path, ran: Any) -> None:
    with upstream() as url:
        path = write_project(tmp_path, url)
        async with Gateway.load(path) as gateway:
            found = await ran(gateway, list(TRIED.values()))
        assert len(found) == len(TRIED)
        for (name, kind), (text, pictures) in zip(TRIED.items(), found, strict=True):
            assert [part for part in kind.says if part not in text and part not in text.replace('\\"', '"')] == [], (
                name,
                text,
            )
            assert pictures == ([kind.picture] if kind.picture else []), name
