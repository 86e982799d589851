"""Tasks over one Redis: made on one machine, followed on another, and what becomes of them when the first is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.gateway.clients import listening
from tests.gateway.governed import upstream
from tests.gateway.test_shared_calls import machines
from tests.redis_server import RedisServer
from tests.served_workers import serving
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope
from toolgen.pipeline.middleware import CallerConnection

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "all", "to": ["bot", "user"], "tools": ["orders__get_health", "orders__send_mail"], "verdict": "allow"}
    ]
}
HEALTH: dict[str, Any] = {"name": "orders__get_health", "arguments": {}}
MAIL: dict[str, Any] = {"name": "orders__send_mail", "arguments": {"to": "x"}}


async def test_tasks_of_a_machine_that_is_killed_end_on_another(tmp_path: Path, server: RedisServer) -> None:
    async def follow(path: Path, tasks: dict[str, str]) -> None:
        async with asyncio.timeout(120), Gateway.load(path) as gateway, listening(App(gateway)) as url:
            two, old, other = Peer(url), OldPeer(url), Peer(url, "ann")
            await old.open()
            listed = {task["taskId"] for task in (await old.ask("tasks/list"))["tasks"]}
            assert listed == set(tasks.values())
            results = {kind: (await old.ask("tasks/result", taskId=task_id)) for kind, task_id in tasks.items()}
            assert [result["isError"] for result in results.values()] == [True, True]
            read, write = [await two.ended(tasks[kind]) for kind in ("read", "write")]
            for ended in (read, write):  # the other machine cannot know what the record of the first one says
                assert (ended["status"], ended["error"]["data"]["code"]) == ("failed", "outcome_unknown")
            for task_id in tasks.values():
                assert (await other.ask("tasks/get", taskId=task_id))["code"] == -32602
            await close_peers()

    with upstream() as (seen, url):
        one, two = machines(tmp_path, server, url, POLICY)
        for path in (one, two):
            path.write_text(path.read_text().replace('{"sources"', '{"gateway": {"pending_after": "0s"}, "sources"', 1))
        seen.answers.clear()
        with serving(one) as served:

            async def make() -> dict[str, str]:
                peer = Peer(served.url)
                made = {
                    kind: (await peer.ask("tools/call", **call))["taskId"]
                    for kind, call in (("read", HEALTH), ("write", MAIL))
                }
                await close_peers()
                return made

            tasks = await make()
            seen.reached(2)
            served.process.kill()
            served.process.wait()
        await follow(two, tasks)
        seen.answers.set()
        assert len(seen.requests) == 2


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """An API that takes any number of requests, and answers them all once the event is set."""
    answers = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answers.wait()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
        )
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2000)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", answers


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.exhaustive)])
async def test_many_calls_that_are_left_at_once_are_listed_elsewhere_and_end(
    tmp_path: Path, server: RedisServer, count: int
) -> None:
    async with silent() as (url, answers):
        one, two = machines(tmp_path, server, url, POLICY)
        for path in (one, two):
            path.write_text(path.read_text().replace('"server"', '"concurrency": 2000, "server"', 1))
        async with asyncio.timeout(300), Gateway.load(one) as first, Gateway.load(two) as second:
            bot = first.principal("bot")

            async def leave() -> Envelope:
                caller_connection = CallerConnection()
                making = first.tool_calls.call(HEALTH["name"], {}, principal=bot, caller_connection=caller_connection)
                return await first.approvals.background.call(
                    HEALTH["name"], making, caller=bot, wait=0.0, caller_connection=caller_connection
                )

            left = await asyncio.gather(*(leave() for _ in range(count)))
            assert {envelope.status for envelope in left} == {"pending"}
            place: tuple[float, str] | None = (0.0, "")
            found = list[str]()
            while place is not None:
                page, place = await second.approvals.calls.owned(bot, place, 100)
                found += [known.id for known in page]
            assert sorted(found) == sorted(envelope.call_id for envelope in left)
            answers.set()
            ended = await asyncio.gather(*(second.approvals.calls.outcome(call_id, bot, 250) for call_id in found))
            assert {"" if one is None else one.status for one in ended} == {"ok"}
