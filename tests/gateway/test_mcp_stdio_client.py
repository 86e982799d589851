"""The official client over a real gateway's standard input and output: questions, approvals, and tools that change."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, types
from mcp.client.subscriptions import ToolsListChanged

from tests.gateway.test_mcp_conversations import MODES, STATELESS, policy, project, saying, text

__all__ = ["project"]  # the fixture


@contextlib.asynccontextmanager
async def talking(path: Path, mode: str, answer: Any = None, heard: Any = None) -> AsyncIterator[Client]:
    """A client whose server is `toolgen serve --stdio` in the folder of a project."""
    command = ["-m", "toolgen", "serve", "--stdio", "--as", "bot"]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=path.parent)
    async with Client(server, mode=mode, elicitation_callback=answer, message_handler=heard) as client:
        yield client


def narrow(path: Path) -> None:
    """Leaves one tool in the policy; the gateway notices by itself."""
    (path.parent / "policies" / "policy.yaml").write_text(policy(tools='["own__count"]'), encoding="utf-8")


@pytest.mark.parametrize("mode", MODES)
async def test_a_conversation_asks_approves_and_tells_progress(mode: str, project: Callable[..., Path]) -> None:
    """One process for all of it: what starts it anew for each is not what is tried."""
    asked: list[Any] = []
    answers: list[tuple[str, Any]] = []
    told: list[Any] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return await saying(asked, *answers.pop())(context, params)  # type: ignore[no-any-return]

    async def said(name: str, arguments: dict[str, Any], action: str, content: Any = None) -> str:
        answers.append((action, content))
        result = await client.call_tool(name, arguments)
        assert answers == []
        return text(result)

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    async with talking(project(), mode, answer) as client:
        assert await said("own__greet", {}, "accept", {"name": "Ann"}) == "Hello, Ann"
        assert await said("own__greet", {}, "decline") == "decline"
        assert await said("own__drop", {"table": "orders"}, "accept", {"approve": True}) == "dropped orders"
        refused = await said("own__drop", {"table": "bills"}, "accept", {"approve": False})
        assert refused.startswith("approval_denied:")
        assert text(await client.call_tool("own__count", {}, progress_callback=progress)) == "3"
    assert [one.message for one in asked[:2]] == ["Who are you?"] * 2
    for shown, table in zip(asked[2:], ("orders", "bills"), strict=True):
        assert "own__drop (destructive)" in shown.message
        assert f'table = "{table}"' in shown.message
    assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_who_listens_is_told_that_the_tools_changed(project: Callable[..., Path]) -> None:
    path = project()
    async with talking(path, STATELESS) as client, client.listen(tools_list_changed=True) as changes:
        assert len((await client.list_tools()).tools) == 3
        narrow(path)
        assert isinstance(await anext(aiter(changes)), ToolsListChanged)
        listed = await client.list_tools(cache_mode="bypass")
        assert [tool.name for tool in listed.tools] == ["own__count"]


async def test_who_shook_hands_is_told_without_asking(project: Callable[..., Path]) -> None:
    path, changed = project(), asyncio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async with talking(path, "legacy", heard=heard) as client:
        assert len((await client.list_tools()).tools) == 3
        narrow(path)
        await changed.wait()
        assert [tool.name for tool in (await client.list_tools()).tools] == ["own__count"]
