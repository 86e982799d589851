"""Subscriptions to resources of bridged servers: one for many callers, passed on to those who may read, and ended with the last one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import PromptsListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import PromptListChangedNotification, ResourceUpdatedNotification

from tests.gateway.clients import bearer, serving
from toolgen.audit.reader import entries
from toolgen.connectors.mcp.command import CommandSpec
from toolgen.connectors.mcp.command_client import CommandClient
from toolgen.connectors.mcp.command_server import CommandServer
from toolgen.connectors.mcp.executor import McpExecutor
from toolgen.connectors.mcp.notices import Subscribed
from toolgen.connectors.mcp.stdio import StdioWire
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.model.call import Call, Principal
from toolgen.model.relayed import Relayed

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
SERVER = Path(__file__).parents[2] / "services" / "mcp_subscriptions.py"
STYLES = ("stdio", "session", "stateless")
POLICY = """
principals: {bot: {roles: [bot], api_key: "sha256:BOT"}, eve: {roles: [eve], api_key: "sha256:EVE"}}
egress: {private_networks: allow}
rules:
  - {id: touch, to: [bot, eve], tools: ["far__*"], verdict: allow}
  - {id: notes, to: [bot], prompts: ["*"], resources: ["far://notes", "far://users/[0-9]*"], verdict: allow}
"""


@pytest.fixture(name="project", params=STYLES)
def _project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A built project that bridges the server in one of three ways."""
    command = [sys.executable, str(SERVER), str(tmp_path / "log"), request.param]
    with contextlib.ExitStack() as stack:
        if request.param == "stdio":
            server: dict[str, Any] = {"command": command}
        else:
            running = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(running.kill)
            assert running.stdout is not None
            server = {"url": f"http://127.0.0.1:{int(running.stdout.readline())}/mcp"}
        (tmp_path / "policies").mkdir()
        policy = POLICY
        for name in ("bot", "eve"):
            policy = policy.replace(name.upper(), hashlib.sha256(f"key-of-{name}".encode()).hexdigest())
        (tmp_path / "policies" / "policy.yaml").write_text(policy, encoding="utf-8")
        settings = {
            "sources": {"far": {"mcp": {**server, "annotations": "trusted"}, "timeouts": {"total": "10s"}}},
            "audit": {"dir": "audit"},
            "policies": "policies/",
        }
        path = tmp_path / "toolgen.yaml"
        path.write_text(json.dumps(settings), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "toolgen", "build", "--config", str(path)], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        yield path


@contextlib.asynccontextmanager
async def talking(url: str, mode: str, told: asyncio.Queue[Any] | None = None) -> AsyncIterator[Client]:
    async def keep(message: Any) -> None:
        if told is not None:
            await told.put(message)

    async with (
        httpx2.AsyncClient(headers=bearer("key-of-bot"), timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, message_handler=keep) as client,
    ):
        yield client


async def until(path: Path, *lines: str) -> list[str]:
    """The subscriptions that the server has written down, once they are these."""
    await eventually(lambda: subscriptions(path) == [*lines])
    return [*lines]


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)


def subscriptions(path: Path) -> list[str]:
    log = path.parent / "log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [line for line in lines if "subscribe" in line]


async def _next(told: asyncio.Queue[Any], kind: type) -> Any:
    async with asyncio.timeout(10):
        while not isinstance(found := await told.get(), kind):
            pass
    return found


async def test_callers_share_one_subscription_and_hear_of_changes(project: Path) -> None:
    told: asyncio.Queue[Any] = asyncio.Queue()
    async with serving(project) as (gateway, url), talking(url, "legacy", told) as session:
        bot = gateway.principal("bot")
        for hidden in ("far://other", "far://users/eve", "far://nothing"):
            with pytest.raises(MCPError):
                await session.subscribe_resource(hidden)
        await session.subscribe_resource("far://notes")
        await until(project, "subscribe far://notes")
        async with talking(url, "2026-07-28") as client, client.listen(resource_subscriptions=["far://notes"]) as heard:
            await gateway.call(
                "far__touch", {"uris": ["far://other", "far://notes/page", "far://notes"]}, principal=bot
            )
            async with asyncio.timeout(10):
                async for event in heard:
                    assert isinstance(event, ResourceUpdated)
                    assert event.uri == "far://notes"
                    break
            assert (await _next(told, ResourceUpdatedNotification)).params.uri == "far://notes"
            assert subscriptions(project) == ["subscribe far://notes"]
        await gateway.call("far__touch", {"uris": ["far://notes"]}, principal=bot)
        assert (await _next(told, ResourceUpdatedNotification)).params.uri == "far://notes"
        assert subscriptions(project) == ["subscribe far://notes"]
        await session.unsubscribe_resource("far://notes")
        await until(project, "subscribe far://notes", "unsubscribe far://notes")


async def test_a_change_right_behind_the_acknowledgement_is_heard(project: Path) -> None:
    """The server is subscribed to, and everything is listened to, before the client is told that it is."""
    async with serving(project) as (gateway, url), talking(url, "2026-07-28") as client:
        bot = gateway.principal("bot")
        for uri in ("far://notes", "far://users/7"):
            async with client.listen(resource_subscriptions=[uri]) as heard, asyncio.timeout(10):
                await gateway.call("far__touch", {"uris": [uri]}, principal=bot)
                async for event in heard:
                    assert isinstance(event, ResourceUpdated)
                    assert event.uri == uri
                    break


async def test_changed_lists_right_behind_the_acknowledgement_are_heard(project: Path) -> None:
    async with (
        serving(project) as (gateway, url),
        talking(url, "2026-07-28") as client,
        client.listen(resource_subscriptions=["far://notes"], prompts_list_changed=True) as heard,
        asyncio.timeout(10),
    ):
        await gateway.call("far__touch", {"list": "prompts"}, principal=gateway.principal("bot"))
        async for event in heard:
            assert isinstance(event, PromptsListChanged)
            break


async def test_listeners_that_leave_end_the_subscription_and_it_is_on_record(project: Path) -> None:
    async with serving(project) as (gateway, url):
        async with (
            talking(url, "2026-07-28") as client,
            client.listen(resource_subscriptions=["far://notes", "far://users/7", "far://other"]),
        ):
            await eventually(lambda: {"subscribe far://notes", "subscribe far://users/7"} <= {*subscriptions(project)})
        await eventually(lambda: {"unsubscribe far://notes", "unsubscribe far://users/7"} <= {*subscriptions(project)})
        assert not [one for one in subscriptions(project) if "other" in one]
        recorded = [one for one in entries(gateway.settings.audit_dir) if one.get("event") == "subscription"]
        assert {one["tool"] for one in recorded} == {"resource:far://notes", "resource:far://users/{id}"}
        assert {one["principal"] for one in recorded} == {"bot"}


async def test_changed_lists_of_a_server_are_passed_on(project: Path) -> None:
    told: asyncio.Queue[Any] = asyncio.Queue()
    async with serving(project) as (gateway, url), talking(url, "legacy", told) as session:
        await session.subscribe_resource("far://notes")
        await until(project, "subscribe far://notes")
        await gateway.call("far__touch", {"list": "prompts"}, principal=gateway.principal("bot"))
        assert await _next(told, PromptListChangedNotification)


def _listing(gateway: Gateway, uri: str) -> Call:
    call = gateway.context._current.compiled_policy.context.followed_call(uri, Reader(principal=Principal(id="x")))
    assert call is not None
    return call


@pytest.mark.parametrize("project", ["stdio"], indirect=True)
async def test_workers_share_one_subscription(project: Path) -> None:
    async with Gateway.load(project) as gateway:
        read = _listing(gateway, "far://notes")
    words = (sys.executable, str(SERVER), str(project.parent / "log"), "stdio")
    spec = CommandSpec(source="far", words=words, folder=str(project.parent))
    server = CommandServer([spec])
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    workers: dict[str, tuple[CommandClient, asyncio.Task[None]]] = {}
    for name in ("one", "two"):
        client = CommandClient((await server.connect()).detach())
        executor = McpExecutor(StdioWire(spec, secrets=SecretResolver(), command=client.command("far")), shared=True)
        following = executor.follow(read, lambda notice, name=name: heard.put_nowait((name, notice.kind)))
        workers[name] = client, asyncio.create_task(following)  # type: ignore[arg-type]
        await until(project, "subscribe far://notes")
    try:
        message = {"jsonrpc": "2.0", "id": 1, "method": "notifications/resources/updated", "params": {}}
        command = server._commands["far"]._command
        subscribers = server._commands["far"]._subscribers
        arguments = {"name": "touch", "arguments": {"uris": ["far://notes"]}}
        async with asyncio.timeout(10):
            assert {await heard.get(), await heard.get()} == {("one", "settled"), ("two", "settled")}
            command.ask({**message, "id": 900, "method": "tools/call", "params": arguments}, None)
            assert {await heard.get(), await heard.get()} == {("one", "updated"), ("two", "updated")}
        workers["one"][1].cancel()
        await eventually(lambda: len(subscribers["far://notes"]) == 1)
        assert subscriptions(project) == ["subscribe far://notes"]
        await workers["two"][0].close()  # the worker has died
        await until(project, "subscribe far://notes", "unsubscribe far://notes")
    finally:
        for client, task in workers.values():
            task.cancel()
            await client.close()
        await server.close()


async def test_workers_know_subscriptions_of_sessions_at_other_workers() -> None:
    server = CommandServer([])
    clients = [CommandClient((await server.connect()).detach()) for _ in range(2)]
    one, two = (ResourceUpdates(client) for client in clients)
    shared: asyncio.Queue[Relayed] = asyncio.Queue()
    said = Relayed(topic="subscription", key="session", name="far://notes", value="far://note%73")
    changed: asyncio.Queue[str] = asyncio.Queue()
    two.shared("subscription", shared.put_nowait)
    try:
        with two.listening(changed):
            one.share(said)
            one.put("far://notes")
            async with asyncio.timeout(10):
                assert await shared.get() == said
                assert await changed.get() == "far://notes"
            late = CommandClient((await server.connect()).detach())
            third = ResourceUpdates(late)
            third.shared("subscription", shared.put_nowait)
            with third.listening(asyncio.Queue()):
                async with asyncio.timeout(10):
                    assert await shared.get() == said
            await third.close()
    finally:
        await one.close()
        await two.close()
        await server.close()


def test_a_flood_of_updates_is_not_passed_on() -> None:
    clock = FixedClock()
    subscribed = Subscribed(clock)
    subscribed.uris.add("far://notes")
    assert subscribed.meant("far://other") == subscribed.meant(7) == subscribed.meant("far://notes2") == []
    passed = sum(bool(subscribed.meant("far://notes")) for _ in range(10_000))
    assert passed == 500
    clock.advance(1)
    assert sum(bool(subscribed.meant("far://notes/1")) for _ in range(1000)) == 50
