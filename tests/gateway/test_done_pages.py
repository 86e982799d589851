"""Web pages that a bridged server had shown, and says are done: the session that was shown one is told, once, and no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitCompleteNotification

from tests.cli.commands import Run, runner
from tests.frontends.mcp.peers import OldPeer, close_peers
from tests.gateway.clients import listening
from tests.gateway.test_caller_requests import Person, project, said, served
from tests.services.bridged import open_workers
from toolgen.frontends.http.app import App

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


@pytest.mark.parametrize("kind", ["pipes", "http"])
async def test_any_worker_tells_the_session_that_was_shown_a_page(tmp_path: Path, toolgen: Run, kind: str) -> None:
    """Whichever worker the server says it to, and whichever has the streams of the session."""
    async with (
        asyncio.timeout(90),
        project(tmp_path, toolgen, kind, ALLOW) as path,
        open_workers(path) as workers,
        listening(App(workers[0])) as first,
        listening(App(workers[1])) as second,
    ):
        for number, (called, listens) in enumerate(product((first, second), repeat=2)):
            says = first if listens == second else second
            peer = OldPeer(called, capabilities={"elicitation": {"url": {}}})
            await peer.open()
            page = f"e-{number}"
            shown = await pay(peer, page, first if called == second else second)
            async with stream(at(peer, listens)) as told, stream(at(peer, second if number % 2 else first)) as also:
                await at(peer, says).ask("tools/call", name="far__finish", arguments={"pages": [page, page]})
                assert await first_of(told, also) == shown
                await at(peer, called).ask("tools/call", name="far__add", arguments={"a": 1, "b": 1})
                assert (told.qsize(), also.qsize()) == (0, 0)
        await close_peers()


async def test_a_page_that_is_done_before_the_session_listens_is_told_when_it_does(
    tmp_path: Path, toolgen: Run
) -> None:
    async with (
        asyncio.timeout(90),
        project(tmp_path, toolgen, "pipes", ALLOW) as path,
        open_workers(path) as workers,
        listening(App(workers[0])) as first,
        listening(App(workers[1])) as second,
    ):
        for url in (first, second):
            peer = OldPeer(first, capabilities={"elicitation": {"url": {}}})
            await peer.open()
            shown = await pay(peer, url, second)
            await peer.ask("tools/call", name="far__finish", arguments={"pages": [url]})
            async with stream(at(peer, url)) as told:
                assert await told.get() == shown
            async with stream(at(peer, first)) as told, stream(at(peer, second)) as also:
                await peer.ask("tools/call", name="far__finish", arguments={"pages": [url]})
                assert (told.qsize(), also.qsize()) == (0, 0)
        await close_peers()


def at(peer: OldPeer, url: str) -> OldPeer:
    """The client of a session, at a worker."""
    other = OldPeer(url)
    other.session = peer.session
    return other


async def pay(peer: OldPeer, page: str, answered_at: str) -> str:
    """The id by which a client was shown a page."""
    shown = ""
    async with peer.stream("tools/call", name="far__pay", arguments={"page": page}) as found:
        async for message in found:
            if message.get("method") == "elicitation/create":
                shown = message["params"]["elicitationId"]
                await at(peer, answered_at).respond(message["id"], {"action": "accept"})
    return shown


@asynccontextmanager
async def stream(peer: OldPeer) -> AsyncIterator[asyncio.Queue[str]]:
    """The pages that a client is told are done over a stream of its session, which is open."""
    told: asyncio.Queue[str] = asyncio.Queue()
    opened = asyncio.Event()

    async def read() -> None:
        headers = {**peer.written("", {})[1], "accept": "text/event-stream"}
        async with peer.http.stream("GET", peer.url, headers=headers) as answer:
            async for line in answer.aiter_lines():
                opened.set()
                if line.startswith("data: ") and "elicitation/complete" in line:
                    told.put_nowait(json.loads(line[6:])["params"]["elicitationId"])

    reading = asyncio.create_task(read())
    await opened.wait()
    try:
        yield told
    finally:
        reading.cancel()


async def first_of(*streams: asyncio.Queue[str]) -> str:
    """The page that one of the streams is told."""
    waits = [asyncio.create_task(one.get()) for one in streams]
    done, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for other in others:
        other.cancel()
    (found,) = done
    return found.result()
