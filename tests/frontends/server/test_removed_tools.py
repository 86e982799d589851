"""Tools that a program adds and removes, over several workers: none calls what is removed, nor one that is started in place of another, and
clients at each are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ToolsListChanged

from tests.connectors.functions.projects import written
from tests.gateway.catalog.test_runtime_tools import MODULE
from tests.gateway.clients import bearer
from tests.gateway.governed import PRINCIPALS, project, upstream
from tests.redis_server import RedisServer
from tests.served_workers import serving, until
from toolgen.config.settings import load as load_settings
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.state.shared_state import seal_file
from toolgen.state.encryption import seal_of

TOOL = "orders__get_health"
RULES = [{"id": "reads", "to": ["bot"], "tools": ["orders__*"], "effects": ["read"], "verdict": "allow"}]


async def done(path: Path, change: Callable[[Gateway], Awaitable[Any]]) -> None:
    """By a program of its own, beside the gateway that is served."""

    async with Gateway.load(path).short_session() as gateway:
        await change(gateway)


@pytest.mark.parametrize("kind", ["files", "redis"])
async def test_no_worker_calls_what_was_removed_until_it_is_restored(tmp_path: Path, kind: str) -> None:
    redis = RedisServer(tmp_path) if kind == "redis" else None
    if redis is not None:
        redis.start()
    state = "memory" if redis is None else f"redis://127.0.0.1:{redis.port}/0"
    with upstream() as (seen, url):
        path = project(tmp_path / "p", url, {"rules": RULES}, state=state)
        with serving(path, "--workers", "2") as served:
            assert served.codes() == {"ok"}
            await done(path, lambda gateway: gateway.tools.remove(TOOL))
            until(lambda: served.codes(8) == {"unknown_tool"})
            reached = len(seen.requests)
            killed = served.workers()[0]
            os.kill(killed, signal.SIGKILL)
            until(lambda: len(served.workers()) == 2 and killed not in served.workers())
            assert served.codes() == {"unknown_tool"}
            assert len(seen.requests) == reached
            await done(path, lambda gateway: gateway.tools.restore(TOOL))
            until(lambda: served.codes(8) == {"ok"})
            assert served.end() == 0
    if redis is not None:
        redis.stop()


CLIENTS = 4  # in each era: enough that each of two workers has some of them
FUNCTIONS = {
    "principals": {"bot": PRINCIPALS["bot"], "ann": PRINCIPALS["ann"], "eve": PRINCIPALS["eve"]},
    "rules": [{"id": "all", "to": ["bot"], "tools": ["own__*", "added__*"], "verdict": "allow"}],
}


class Listener:
    """A client of the official SDK that listens, in one of MCP's eras, and how often it was told."""

    def __init__(self) -> None:
        self.told = 0
        self.client: Any = None

    async def heard(self, message: Any) -> None:
        self.told += isinstance(message, types.ToolListChangedNotification)

    async def listen(self, url: str, mode: str, stack: contextlib.AsyncExitStack) -> None:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=bearer("key-of-bot"), timeout=60))
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        self.client = await stack.enter_async_context(Client(transport, mode=mode, message_handler=self.heard))
        if mode != "legacy":
            changes = await stack.enter_async_context(self.client.listen(tools_list_changed=True))
            task = asyncio.create_task(self._count(changes))
            stack.callback(task.cancel)

    async def _count(self, changes: Any) -> None:
        async for change in changes:
            self.told += isinstance(change, ToolsListChanged)

    async def names(self) -> list[str]:
        listed = await self.client.list_tools(cache_mode="bypass")
        return [tool.name for tool in listed.tools]


async def add_spare(gateway: Gateway) -> None:
    await gateway.call("own__version", {}, principal="bot")
    binding: Any = gateway.manifest.tools["own__slow"].binding
    await gateway.tools.add(sys.modules[binding.module].spare, effect="read")


@pytest.mark.parametrize("kind", ["files", pytest.param("redis", marks=pytest.mark.exhaustive), "two gateways"])
async def test_clients_of_both_eras_at_every_worker_are_told_what_is_added_and_removed(
    tmp_path: Path, kind: str
) -> None:
    redis = RedisServer(tmp_path) if kind != "files" else None
    (tmp_path / "m0").mkdir()
    path = written(tmp_path / "m0", MODULE, policy=json.dumps(FUNCTIONS))
    if redis is not None:
        redis.start()
        state = f"state: redis://127.0.0.1:{redis.port}/0\n"
        path.write_text(path.read_text(encoding="utf-8") + state, encoding="utf-8")
        seal_of(seal_file(load_settings(path)))
    places = [path]
    if kind == "two gateways":
        shutil.copytree(path.parent, tmp_path / "m1")
        places.append(tmp_path / "m1" / path.name)

    async def listed(one: Listener, told: int, names: list[str]) -> None:
        """A client that was told of a change lists these tools, or is told again."""
        while True:
            while one.told <= told:  # noqa: ASYNC110 - another process tells it
                await asyncio.sleep(0.02)
            told = one.told
            if await one.names() == names:
                return

    async def changed(listeners: list[Listener], change: Callable[[Gateway], Awaitable[Any]], names: list[str]) -> None:
        before = [one.told for one in listeners]
        await done(path, change)
        async with asyncio.timeout(120):
            await asyncio.gather(*(listed(one, told, names) for one, told in zip(listeners, before, strict=True)))

    with contextlib.ExitStack() as stack:
        workers = "2" if kind != "two gateways" else "1"
        served = [stack.enter_context(serving(place, "--workers", workers)) for place in places]
        urls = [one.url for one in served]
        listeners = [Listener() for _ in range(2 * CLIENTS)]
        async with contextlib.AsyncExitStack() as clients:
            for number, one in enumerate(listeners):
                mode = "legacy" if number % 2 else "2026-07-28"
                await one.listen(urls[number // 2 % len(urls)], mode, clients)
            assert {tuple(await one.names()) for one in listeners} == {("own__slow", "own__version")}
            await changed(listeners, add_spare, ["added__spare", "own__slow", "own__version"])
            await changed(
                listeners, lambda gateway: gateway.tools.remove("own__version"), ["added__spare", "own__slow"]
            )
            await changed(listeners, lambda gateway: gateway.tools.remove("added__spare"), ["own__slow"])
            await changed(
                listeners, lambda gateway: gateway.tools.restore("own__version"), ["own__slow", "own__version"]
            )
        assert [one.end() for one in served] == [0] * len(served)
    if redis is not None:
        redis.stop()
