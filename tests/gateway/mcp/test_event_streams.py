"""What a client that listens is told of its list of tools."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.gateway.clients import run
from tests.gateway.gateways import BOT
from toolgen.gateway.mcp.event_streams import watch
from toolgen.pipeline.middleware import Presence


def test_a_change_that_leaves_a_callers_list_as_it_was_is_not_told() -> None:
    """What changed of other people's tools would say that there are such."""
    lists = iter([("a",), ("a",), ("a", "b"), ("a", "b"), None])

    class Lists:
        def listed(self, _principal: object) -> Any:
            return next(lists)

        async def changed(self) -> None:
            """At once, each time."""

    async def main() -> None:
        lists_of: Any = Lists()
        said = [changed async for changed in watch(lists_of, BOT, Presence(), asyncio.Event())]
        assert said == [True]

    run(main())
