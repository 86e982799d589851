"""What every adapter does alike, on a gateway in the same process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner
from langchain.agents import create_agent

from tests.frontends.adapters.agents import READ, world
from tests.frontends.adapters.test_langgraph import Scripted
from tests.frontends.adapters.test_langgraph import answers as messages
from tests.frontends.adapters.test_openai_agents import QUIET, scripted
from tests.frontends.adapters.test_openai_agents import answers as outputs
from toolgen.core.errors import ConfigError
from toolgen.frontends.adapters.calls import AdapterCaller
from toolgen.frontends.adapters.langgraph import tools as langgraph_tools
from toolgen.frontends.adapters.openai_agents import tools as openai_tools
from toolgen.frontends.python.gateway import Gateway


async def test_a_gateway_that_is_not_open_is_not_called(tmp_path: Path) -> None:
    """Nobody would act on a revocation, and no approved call would ever be made."""
    async with world(tmp_path) as (opened, seen):
        closed = Gateway.load(opened.settings.path)
        with pytest.raises(ConfigError, match=r"not open.*async with"):
            await AdapterCaller(gateway=closed, party="bot", client="test").call(*READ)
        caller = AdapterCaller(gateway=opened, party="bot", client="test")
        assert (await caller.call(*READ)).status == "ok"
    with pytest.raises(ConfigError, match="not open"):
        await caller.call(*READ)
    assert len(seen.requests) == 1


async def by_langgraph(gateway: Gateway, session: str) -> list[str]:
    agent = create_agent(Scripted(turns=[[READ]] * 6), langgraph_tools(gateway, "bot", session=session))
    state = await agent.ainvoke({"messages": "go"}, {"recursion_limit": 50})
    return [str(message.content) for message in messages(state)]


async def by_openai_agents(gateway: Gateway, session: str) -> list[str]:
    told = []
    for _ in range(6):  # a turn of the model's each
        agent = Agent(name="clerk", model=scripted(READ), tools=openai_tools(gateway, "bot", session=session))
        told += outputs(await Runner.run(agent, "go", run_config=QUIET))
    return told


@pytest.mark.parametrize("ran", [by_langgraph, by_openai_agents])
@pytest.mark.parametrize(("session", "most"), [("", 6), ("s1", 4)])
async def test_turns_are_counted_where_a_conversation_is_named(
    ran: Any, session: str, most: int, tmp_path: Path
) -> None:
    async with world(tmp_path) as (gateway, seen):
        told = await ran(gateway, session)
        assert [text.partition(":")[0] for text in told[most:]] == ["turn_limit"] * (6 - most)
        assert [text for text in told[:most] if "turn_limit" in text] == []
        assert len(seen.requests) == most
