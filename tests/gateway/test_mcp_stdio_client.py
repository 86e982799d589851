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

from tests.gateway.clients import run
from tests.gateway.test_mcp_conversations import MODERN, MODES, policy, project, saying, text

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
@pytest.mark.parametrize(
    ("action", "content", "said"), [("accept", {"name": "Ann"}, "Hello, Ann"), ("decline", None, "decline")]
)
def test_a_function_asks_the_person(
    mode: str, action: str, content: Any, said: str, project: Callable[..., Path]
) -> None:
    async def main() -> None:
        asked: list[Any] = []
        async with talking(project(), mode, saying(asked, action, content)) as client:
            assert text(await client.call_tool("own__greet", {})) == said
        assert [one.message for one in asked] == ["Who are you?"]

    run(main())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("content", "said"), [({"approve": True}, "dropped orders"), ({"approve": False}, "approval_denied:")]
)
def test_the_person_at_the_client_approves_exactly_what_is_shown(
    mode: str, content: Any, said: str, project: Callable[..., Path]
) -> None:
    async def main() -> None:
        asked: list[Any] = []
        async with talking(project(), mode, saying(asked, "accept", content)) as client:
            assert text(await client.call_tool("own__drop", {"table": "orders"})).startswith(said)
        (shown,) = asked
        assert "own__drop (destructive)" in shown.message
        assert '"table": "orders"' in shown.message

    run(main())


@pytest.mark.parametrize("mode", MODES)
def test_progress_is_told_before_the_answer(mode: str, project: Callable[..., Path]) -> None:
    async def main() -> None:
        told: list[Any] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told.append((done, total, message))

        async with talking(project(), mode) as client:
            assert text(await client.call_tool("own__count", {}, progress_callback=progress)) == "3"
        assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]

    run(main())


def test_who_listens_is_told_that_the_tools_changed(project: Callable[..., Path]) -> None:
    async def main() -> None:
        path = project()
        async with talking(path, MODERN) as client, client.listen(tools_list_changed=True) as changes:
            assert len((await client.list_tools()).tools) == 3
            narrow(path)
            assert isinstance(await anext(aiter(changes)), ToolsListChanged)
            listed = await client.list_tools(cache_mode="bypass")
            assert [tool.name for tool in listed.tools] == ["own__count"]

    run(main())


def test_who_shook_hands_is_told_without_asking(project: Callable[..., Path]) -> None:
    async def main() -> None:
        path, changed = project(), asyncio.Event()

        async def heard(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                changed.set()

        async with talking(path, "legacy", heard=heard) as client:
            assert len((await client.list_tools()).tools) == 3
            narrow(path)
            await changed.wait()
            assert [tool.name for tool in (await client.list_tools()).tools] == ["own__count"]

    run(main())
