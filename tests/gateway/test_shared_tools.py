"""Tools that are added and removed on one machine, over one Redis: the same on another, and never taken back by a Redis that forgot."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.connectors.functions.projects import written
from tests.gateway.catalog.test_runtime_tools import MODULE, OPEN, changes, names, pay, said
from tests.patient import until
from tests.redis_server import RedisServer
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import StateUnavailableError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.state.shared_state import seal_file
from toolgen.state.encryption import seal_of


def machines(root: Path, server: RedisServer, count: int = 2) -> list[Path]:
    """The same project on several machines."""
    (root / "m0").mkdir()
    first = written(root / "m0", MODULE, policy=OPEN)
    state = f"state: redis://127.0.0.1:{server.port}/0\n"
    first.write_text(first.read_text(encoding="utf-8") + state, encoding="utf-8")
    seal_of(seal_file(load_settings(first)))
    for number in range(1, count):
        shutil.copytree(first.parent, root / f"m{number}")
    return [root / f"m{number}" / first.name for number in range(count)]


@asynccontextmanager
async def both(root: Path, server: RedisServer) -> AsyncIterator[tuple[Gateway, Gateway]]:
    one, two = machines(root, server)
    async with Gateway.load(one) as first, Gateway.load(two) as second, asyncio.timeout(120):
        yield first, second


async def spare(gateway: Gateway) -> Any:
    """The project's own function that no build has as a tool."""
    await gateway.call("own__version", {}, principal="bot")
    binding: Any = gateway.manifest.tools["own__slow"].binding
    return sys.modules[binding.module].spare


async def test_what_one_machine_adds_and_removes_holds_on_the_other(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server) as (first, second):
        added = await first.tools.add(await spare(first), effect="read")
        await first.tools.add(pay)
        await first.tools.remove("own__version")
        await until(lambda: names(second) == ["added__spare", "own__slow"])
        assert await said(second, "added__spare", {"count": 4}) == 4
        assert await said(second, "own__version") == "unknown_tool"
        assert second.manifest.tools["added__spare"].digest == added.digest
        redis = Redis(port=server.port)
        kept = await redis.dump("toolgen:tools") or b""
        await redis.aclose()
        assert kept
        assert b"spare" not in kept
        await second.tools.restore("own__version")
        await second.tools.remove("added__spare")
        await until(lambda: names(first) == ["added__pay", "own__slow", "own__version"])
        assert await said(first, "own__version") == 1
        digest = added.digest
    codes = ["tool_added", "tool_removed", "tool_restored", "tool_removed"]
    for machine in ("m0", "m1"):
        found = [entry for entry in changes(tmp_path / machine) if entry[1] != "added__pay"]
        assert sorted(entry[0] for entry in found) == sorted(codes)
        assert ("tool_added", "added__spare", digest, "ok") in found


async def test_what_both_machines_add_is_one_tool(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server) as (first, second):
        function = await spare(first)
        made = await asyncio.gather(first.tools.add(function), second.tools.add(function), return_exceptions=True)
        tool: Any = await second.tools.add(function)
        assert (await first.tools.add(function)).digest == tool.digest
        assert await said(first, "added__spare") == await said(second, "added__spare") == 1
        assert all(not isinstance(one, BaseException) for one in made)


async def test_a_redis_that_forgot_is_told_again(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server) as (first, second):
        await first.tools.remove("own__version")
        await until(lambda: "own__version" not in names(second))
        redis = Redis(port=server.port)
        await redis.flushall()
        found: list[bytes | None] = []
        async with asyncio.timeout(60):
            while not found or found[-1] is None:
                await asyncio.sleep(0.05)
                found.append(await redis.hget("toolgen:tools", "version"))  # type: ignore[misc]
        await redis.aclose()
        assert (await said(first, "own__version"), await said(second, "own__version")) == (
            "unknown_tool",
            "unknown_tool",
        )


async def test_without_redis_nothing_is_changed_and_what_is_known_holds(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server) as (first, second):
        function = await spare(first)
        await first.tools.remove("own__version")
        await until(lambda: "own__version" not in names(second))
        server.stop()
        for change in (first.tools.add(function), first.tools.remove("own__slow"), first.tools.restore("own__version")):
            with pytest.raises(StateUnavailableError):
                await change
        assert (names(first), names(second)) == (["own__slow"], ["own__slow"])


async def test_a_machine_that_starts_without_redis_makes_no_call_to_what_was_removed(tmp_path: Path) -> None:
    """Its calls wait for what is paused, and that for what is removed."""
    server = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always")

    server.start()
    try:
        one, two = machines(tmp_path, server)
        async with Gateway.load(one) as first:
            await first.tools.remove("own__version")
        server.stop()
        seen: list[Any] = []
        async with Gateway.load(two) as second, asyncio.timeout(120):
            seen.append(await said(second, "own__version"))
            server.start()
            while seen[-1] != "unknown_tool":
                seen += await asyncio.gather(*(said(second, "own__version") for _ in range(5)))
        found = set(seen)
        assert found <= {"upstream_unavailable", "expired", "unknown_tool"}
    finally:
        server.stop()


async def test_no_call_is_made_while_it_cannot_be_read_what_was_removed(tmp_path: Path, server: RedisServer) -> None:
    one, two = machines(tmp_path, server)
    async with Gateway.load(one) as first:
        await first.tools.remove("own__version")
    redis = Redis(port=server.port)
    await redis.hset("toolgen:tools", "box", "of somebody else")  # type: ignore[misc]
    await redis.aclose()
    async with Gateway.load(two) as second:
        await until(lambda: any("tools" in one and "was changed" in one for one in second.operations.ready()))
        found = {await said(second, "own__version") for _ in range(5)}
    assert found == {"upstream_unavailable"}
