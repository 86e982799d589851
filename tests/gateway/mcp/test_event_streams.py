"""What a client that listens is told of its list of tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gateway.clients import run
from tests.gateway.gateways import BOT
from toolgen.gateway.mcp import event_streams
from toolgen.gateway.mcp.event_streams import watch
from toolgen.pipeline.middleware import CallerConnection

TOLD = "notifications/tools/list_changed"


def listed(*tools: str) -> dict[str, object]:
    """The lists of a principal: these tools, and prompts that stay as they are."""
    return {TOLD: tools, "notifications/prompts/list_changed": ("p",)}


def test_a_change_that_leaves_a_callers_list_as_it_was_is_not_told() -> None:
    """What changed of other people's tools would say that there are such."""
    lists = iter([listed("a"), listed("a"), listed("a", "b"), listed("a", "b"), None])

    class Lists:
        alone = True

        def listed(self, _principal: object) -> Any:
            return next(lists)

        async def changed(self) -> None:
            """At once, each time."""

    async def main() -> None:
        lists_of: Any = Lists()
        said = [changed async for changed in watch(lists_of, BOT, CallerConnection(), asyncio.Event())]
        assert said == [{TOLD}]

    run(main())


@pytest.mark.parametrize("alone", [True, False])
def test_a_change_is_told_again_where_another_worker_may_have_answered(
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

        async def changed(self) -> None:
            if not self.changes:
                await asyncio.Event().wait()
            self.changes = 0

    async def main() -> None:
        lists_of: Any = Lists()
        said = []
        async for changed in watch(lists_of, BOT, CallerConnection(), asyncio.Event()):
            said.append(changed)
            if not changed:
                break
        assert said == ([{TOLD}, set()] if alone else [{TOLD}, {TOLD}, set()])

    run(main())
