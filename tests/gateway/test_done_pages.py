"""Web pages that a bridged server had shown, and says are done: the session that was shown one is told, once, and no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitCompleteNotification

from tests.cli.commands import Run, runner
from tests.frontends.mcp.peers import OldPeer, close_peers
from tests.gateway.test_caller_requests import Person, project, said, served
from tests.served_workers import serving

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
ALLOW = ["elicitation_url"]


@pytest.fixture(name="toolgen")
def _toolgen(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner(capfdbinary)


class Told:
    """Client of the official SDK, the pages it was shown, and those that it was told are done."""

    def __init__(self) -> None:
        self.person = Person()
        self.done: list[str] = []
        self.news = asyncio.Event()

    async def heard(self, message: Any) -> None:
        if isinstance(message, ElicitCompleteNotification):
            self.done.append(message.params.elicitation_id)
            self.news.set()

    @property
    def shown(self) -> list[str]:
        return [one.elicitation_id for one in self.person.asked]

    async def told(self, count: int) -> list[str]:
        """The pages that are done, once there are so many."""
        async with asyncio.timeout(60):
            while len(self.done) < count:
                self.news.clear()
                await self.news.wait()
        return self.done


@asynccontextmanager
async def talking(url: str, who: str = "bot") -> AsyncIterator[tuple[Client, Told]]:
    told = Told()
    headers = {"authorization": f"Bearer key-of-{who}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http),
            mode="legacy",
            elicitation_callback=told.person.elicit,
            message_handler=told.heard,
        ) as made,
    ):
        yield made, told


@pytest.mark.parametrize("kind", ["pipes", "http"])
async def test_the_session_that_was_shown_a_page_is_told_once_that_it_is_done(
    tmp_path: Path, toolgen: Run, kind: str
) -> None:
    """Whether the server says so in a call, or when none is under way."""
    async with (
        project(tmp_path, toolgen, kind, ALLOW) as path,
        served(path) as url,
        talking(url) as (bot, told),
        talking(url) as (same, silent),
        talking(url, "other") as (other, foreign),
    ):
        assert await said(bot, "pay", page="e-1") == "accept"
        assert await said(same, "pay", page="e-2") == "accept"
        assert await said(other, "pay", page="e-3") == "accept"
        if kind == "http":  # which has a session for each caller
            await said(other, "finish", pages=["e-1", "e-2"])
        await said(bot, "finish", pages=["unknown", "x" * 5_000, "e-1", "e-1"], when="later")
        assert await told.told(1) == told.shown
        assert (await bot.call_tool("far__export", {})).is_error  # -32042: the call failed, and is made again
        await said(bot, "finish", pages=["e-1", "e-8"], when="later")
        assert await told.told(2) == told.shown
        assert len(set(told.shown)) == 2
        assert (silent.done, foreign.done) == ([], [])
        await said(same, "finish", pages=["e-2"])
        assert await silent.told(1) == silent.shown
        await said(other, "finish", pages=["e-3"])
        assert await foreign.told(1) == foreign.shown
    assert (len(told.done), len(silent.done), len(foreign.done)) == (2, 1, 1)


async def test_any_worker_tells_its_client(tmp_path: Path, toolgen: Run) -> None:
    async with project(tmp_path, toolgen, "http", ALLOW) as path:
        with serving(path, "--workers", "2") as gateway:
            await _all_told(gateway.url)


async def _all_told(url: str) -> None:
    heard: dict[str, list[str]] = {}
    opened: asyncio.Queue[str] = asyncio.Queue()

    def again(peer: OldPeer) -> OldPeer:
        """The client of a session on another connection, so that any worker may get it."""
        other = OldPeer(url)
        other.session = peer.session
        return other

    async def listen(peer: OldPeer) -> None:
        headers = {**peer.written("", {})[1], "accept": "text/event-stream"}
        async with peer.http.stream("GET", peer.url, headers=headers) as answer:
            opened.put_nowait(peer.session)
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and "elicitation/complete" in line:
                    heard.setdefault(peer.session, []).append(json.loads(line[6:])["params"]["elicitationId"])
                    opened.put_nowait(peer.session)

    async def pay(peer: OldPeer, page: str) -> str:
        shown = ""
        async with peer.stream("tools/call", name="far__pay", arguments={"page": page}) as found:
            async for message in found:
                if message.get("method") == "elicitation/create":
                    shown = message["params"]["elicitationId"]
                    await again(peer).respond(message["id"], {"action": "accept"})
        return shown

    peers = [OldPeer(url, capabilities={"elicitation": {"url": {}}}) for _ in range(6)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for peer in peers:
            await peer.open()
        listening = [group.create_task(listen(again(peer))) for peer in peers for _ in range(2)]
        assert len([await opened.get() for _ in listening]) == len(listening)
        shown = {peer.session: await pay(again(peer), f"p-{number}") for number, peer in enumerate(peers)}
        pages = [f"p-{number}" for number in range(len(peers))]
        for _ in range(2):
            await again(peers[0]).ask("tools/call", name="far__finish", arguments={"pages": pages, "when": "later"})
        for _ in peers:
            await opened.get()
        for _ in range(2):
            await again(peers[0]).ask("tools/call", name="far__finish", arguments={"pages": pages})
        for one in listening:
            one.cancel()
    await close_peers()
    assert heard == {session: [page] for session, page in shown.items()}
