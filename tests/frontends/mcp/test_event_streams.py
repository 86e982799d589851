"""What a client that listens is told of its list of tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gateway.gateways import BOT
from toolgen.frontends.mcp import event_streams
from toolgen.frontends.mcp.event_streams import ListWatch
from toolgen.pipeline.middleware import CallerConnection

TOLD = "notifications/tools/list_changed"


def listed(*tools: str) -> dict[str, object]:
    """The lists of a principal: these tools, and prompts that stay as they are."""
    return {TOLD: tools, "notifications/prompts/list_changed": ("p",)}


async def test_a_change_that_leaves_a_callers_list_as_it_was_is_not_told() -> None:
    """What changed of other people's tools would say that there are such."""
    lists = iter([listed("a"), listed("a"), listed("a", "b"), listed("a", "b"), None])

    class Lists:
        alone = True

        def listed(self, _principal: object) -> Any:
            return next(lists)

        async def source_lists_changed(self) -> None:
            await asyncio.Event().wait()

        async def changed(self) -> None:
            """At once, each time."""

    lists_of: Any = Lists()
    said = [changed async for changed in ListWatch(lists_of, BOT, CallerConnection(), asyncio.Event()).changes()]
    assert said == [{TOLD}]


@pytest.mark.parametrize("alone", [True, False])
async def test_a_change_is_told_again_where_another_worker_may_have_answered(
    monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """It may not have known of the change when the client that was told of it listed its tools there."""
    monkeypatch.setattr(event_streams, "_AGAIN_S", 0.1)
    monkeypatch.setattr(event_streams, "_QUIET_S", 0.5)

    class Lists:
        def __init__(self) -> None:
            self.alone = alone
            self.changes = 1

        def listed(self, _principal: object) -> Any:
            return listed("a") if self.changes else listed("a", "b")

        async def source_lists_changed(self) -> None:
            await asyncio.Event().wait()

        async def changed(self) -> None:
            if not self.changes:
                await asyncio.Event().wait()
            self.changes = 0

    lists_of: Any = Lists()
    said = []
    async for changed in ListWatch(lists_of, BOT, CallerConnection(), asyncio.Event()).changes():
        said.append(changed)
        if not changed:
            break
    assert said == ([{TOLD}, set()] if alone else [{TOLD}, {TOLD}, set()])


async def test_a_change_while_a_client_is_told_of_the_one_before_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads slowly holds the stream up; what changes meanwhile has to reach it without a further change."""
    monkeypatch.setattr(event_streams, "_QUIET_S", 0.5)

    class Lists:
        alone = True

        def __init__(self) -> None:
            self.tools, self.changes = ["a"], asyncio.Event()

        def listed(self, _principal: object) -> Any:
            return listed(*self.tools)

        async def source_lists_changed(self) -> None:
            await asyncio.Event().wait()

        def changed(self) -> Any:
            return self.changes.wait()

        def add(self, tool: str) -> None:
            self.tools.append(tool)
            changes, self.changes = self.changes, asyncio.Event()
            changes.set()

    lists = Lists()
    lists_of: Any = lists
    asyncio.get_running_loop().call_soon(lists.add, "b")
    said = []
    async for changed in ListWatch(lists_of, BOT, CallerConnection(), asyncio.Event()).changes():
        said.append(changed)
        if not changed:
            break
        if len(lists.tools) < 4:
            lists.add("c" * len(lists.tools))
    assert said == [{TOLD}, {TOLD}, {TOLD}, set()]
