"""Sessions of MCP at a gateway of two workers that really run: their level of log messages and their subscriptions hold at both."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import runner
from tests.frontends.mcp.peers import OldPeer, close_peers
from tests.gateway.test_caller_requests import policy
from tests.served_workers import Served, serving
from tests.services.bridged import ROOT, write_project
from toolgen.audit.reader import entries

SERVER = ROOT / "tests" / "services" / "mcp_subscriptions.py"
READABLE = {"id": "reads", "to": ["bot"], "resources": ["far://notes"], "verdict": "allow"}
TIMES = 12


@pytest.fixture(name="served")
def _served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Served]:
    monkeypatch.chdir(tmp_path)
    server = {"command": [sys.executable, "-B", str(SERVER), str(tmp_path / "log"), "stdio"], "annotations": "trusted"}
    rules = policy(None)
    rules["rules"].append(READABLE)
    path = write_project(tmp_path, rules, mcp=server)
    done = runner(capfdbinary)("build")
    assert done.code == 0, done.err
    with serving(path, "--workers", "2") as served:
        yield served


def again(peer: OldPeer, served: Served) -> OldPeer:
    """The client of a session on another connection, so that any worker may get it."""
    other = OldPeer(served.url)
    other.session = peer.session
    return other


async def done(peer: OldPeer, method: str, **params: Any) -> None:
    """Make a request whose result is empty."""
    async with peer.stream(method, **params) as found:
        assert [one["result"] async for one in found] == [{}]


async def messages(peer: OldPeer, **arguments: Any) -> list[str]:
    """The log messages that come with the answer of a call."""
    async with peer.stream("tools/call", name="far__touch", arguments=arguments) as found:
        return [one["params"]["data"] async for one in found if one.get("method") == "notifications/message"]


def callers(served: Served) -> int:
    """The number of workers that have made calls."""
    found = entries(served.path.parent / "audit")
    return len({str(one["stream"]) for one in found if one["event"] == "intent"})


async def test_the_level_of_log_messages_of_a_session_holds_at_every_worker(served: Served) -> None:
    peer, silent = OldPeer(served.url), OldPeer(served.url)
    await peer.open()
    await silent.open()
    await done(peer, "logging/setLevel", level="info")
    async with asyncio.timeout(60):
        while not all([await messages(again(peer, served), log="hot") == ["hot"] for _ in range(TIMES)]):
            await close_peers()
        while callers(served) < 2:
            await messages(again(peer, served), log="hot")
        await done(again(peer, served), "logging/setLevel", level="error")
        while any([await messages(again(peer, served), log="hot") for _ in range(TIMES)]):
            await close_peers()
    assert await messages(again(silent, served), log="hot") == []
    await close_peers()


async def test_a_change_reaches_subscribers_at_every_worker(served: Served) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def listen(peer: OldPeer) -> None:
        headers = {**peer.written("", {})[1], "accept": "text/event-stream"}
        async with peer.http.stream("GET", peer.url, headers=headers) as answer:
            told.put_nowait("open")
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and json.loads(line[6:])["method"] == "notifications/resources/updated":
                    told.put_nowait(peer.session)

    peers = [OldPeer(served.url) for _ in range(8)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for peer in peers:
            await peer.open()
        listening = [group.create_task(listen(again(peer, served))) for peer in peers]
        assert {await told.get() for _ in peers} == {"open"}
        for peer in peers:
            await done(again(peer, served), "resources/subscribe", uri="far://notes")
        heard: set[str] = set()
        while len(heard) < len(peers):  # a subscription takes a moment to the worker that has the stream
            await again(peers[0], served).ask("tools/call", name="far__touch", arguments={"uris": ["far://notes"]})
            while not told.empty():
                heard.add(told.get_nowait())
        for one in listening:
            one.cancel()
    await close_peers()
