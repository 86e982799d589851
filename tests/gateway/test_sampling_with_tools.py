"""Sampling with tools of bridged servers: for clients that declare it, within the budgets, and refused for all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageResult, CreateMessageResultWithTools, SamplingCapability, TextContent, ToolUseContent

from tests.cli.commands import Run
from tests.gateway.test_caller_requests import SERVERS, STYLES, Person, client, project, recorded, served

pytestmark = pytest.mark.usefixtures("in_tmp_path")


class Model:
    """A client's model that uses the tool of a request, and then answers from its result."""

    def __init__(self, name: str = "look") -> None:
        self.asked: list[Any] = []
        self.name = name

    async def sample(self, context: Any, params: Any) -> Any:
        self.asked.append(params)
        if len(params.messages) > 1:
            text = params.messages[-1].content[0].content[0].text
            return CreateMessageResult(role="assistant", content=TextContent(type="text", text=text), model="m")
        used = ToolUseContent(name=self.name, id="use-1", input={"cup": 1})
        return CreateMessageResultWithTools(role="assistant", content=[used], model="m", stop_reason="toolUse")


async def chosen(url: str, style: str, model: Model) -> Any:
    async with (
        httpx2.AsyncClient(headers={"authorization": "Bearer key-of-bot"}, timeout=60) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http),
            mode=style,
            sampling_callback=model.sample,
            sampling_capabilities=SamplingCapability(tools={}),  # type: ignore[arg-type]
        ) as made,
    ):
        return await made.call_tool("far__choose", {})


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ["pipes", "http"])
async def test_a_model_of_the_caller_uses_tools_of_the_server(
    tmp_path: Path, toolgen: Run, kind: str, style: str
) -> None:
    model = Model()
    async with (
        project(tmp_path, toolgen, kind, {"sampling": {"max_tokens": 7, "per_call": 2}}) as path,
        served(path) as url,
    ):
        found = await chosen(url, style, model)
    assert found.is_error is False, found
    assert found.content[0].text == "It is red."
    first, second = model.asked
    assert (first.tools[0].name, first.tool_choice.mode, first.max_tokens) == ("look", "auto", 7)
    assert [one.content[0].type for one in second.messages[1:]] == ["tool_use", "tool_result"]
    assert [one["arguments"]["tools"] for one in recorded(tmp_path, "question")] == [["look"]] * 2


async def test_each_turn_of_a_conversation_counts(tmp_path: Path, toolgen: Run) -> None:
    model = Model()
    async with project(tmp_path, toolgen, "pipes", {"sampling": {"per_call": 1}}) as path, served(path) as url:
        assert (await chosen(url, "legacy", model)).is_error
    assert len(model.asked) == 1


async def test_a_tool_that_the_request_does_not_have_is_not_used(tmp_path: Path, toolgen: Run) -> None:
    async with project(tmp_path, toolgen, "pipes", ["sampling"]) as path, served(path) as url:
        assert (await chosen(url, "legacy", Model("steal"))).is_error


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", SERVERS)
async def test_a_client_without_tools_is_not_asked_with_them(
    tmp_path: Path, toolgen: Run, kind: str, style: str
) -> None:
    person = Person()
    async with (
        project(tmp_path, toolgen, kind, ["sampling"]) as path,
        served(path) as url,
        client(url, style, person) as made,
    ):
        assert (await made.call_tool("far__choose", {})).is_error
    assert person.asked == []
