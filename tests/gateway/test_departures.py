"""A client that leaves takes its query with it: off the server, into the record, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import httpx
import msgspec
import pytest

from tests.exhaustive import EXHAUSTIVE
from tests.gateway.clients import bearer, listening, run
from tests.gateway.slow_databases import ENGINES, SLOW, SlowProject, slow_project
from tests.projects import KEY
from toolgen.gateway.asgi.app import App
from toolgen.gateway.mcp.stdio import serve_streams
from toolgen.gateway.service import Gateway
from toolgen.pipeline.middleware import Presence

CALL = {"name": "shop__query", "arguments": {"sql": SLOW}}
QUICK = {"sql": "SELECT count(*) AS n FROM big"}
HANDSHAKE = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": "0" * 32}
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "shop__query"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

Leave = Callable[[], Awaitable[None]]


@pytest.fixture(scope="module", params=ENGINES)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with slow_project(request.param, tmp_path_factory.mktemp("slow")) as found:
        yield found


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")


async def until(condition: Callable[[], bool]) -> None:
    """Waits until it holds; `run` gives up on one that never does."""
    holds = False
    while not holds:
        holds = await asyncio.to_thread(condition)
        await asyncio.sleep(0 if holds else 0.02)


def message(method: str, request: int | None = None, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params} | ({} if request is None else {"id": request})


async def post(url: str, path: str, body: object, headers: dict[str, str], padding: int = 0) -> Leave:
    """Sends a request; what is returned closes its connection."""
    host, port = url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    content = msgspec.json.encode(body) + b" " * padding
    lines = {"host": f"{host}:{port}", "content-type": "application/json", "content-length": len(content), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**lines, **bearer(KEY)}.items())
    writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
    await writer.drain()

    async def leave() -> None:
        writer.close()

    return leave


@asynccontextmanager
async def over_rest(gateway: Gateway) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url:
        yield await post(url, "/v1/tools/shop__query/call", {"arguments": CALL["arguments"]}, {})


@asynccontextmanager
async def over_rest_with_a_large_body(gateway: Gateway) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url:
        yield await post(url, "/v1/tools/shop__query/call", {"arguments": CALL["arguments"]}, {}, padding=500_000)


@asynccontextmanager
async def over_tool_calls(gateway: Gateway) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url:
        calls = [{"name": "shop__query", "args": CALL["arguments"], "id": str(number)} for number in range(2)]
        yield await post(url, "/v1/tool_calls", calls, {})


@asynccontextmanager
async def over_mcp(gateway: Gateway) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url:
        yield await post(url, "/mcp", message("tools/call", 1, **CALL, _meta=META), MODERN)


@asynccontextmanager
async def over_mcp_by_notification(gateway: Gateway) -> AsyncIterator[Leave]:
    async with listening(App(gateway)) as url, httpx.AsyncClient(base_url=url, headers=bearer(KEY)) as http:
        calling = asyncio.create_task(http.post("/mcp", json=message("tools/call", 1, **CALL), headers=HANDSHAKE))

        async def leave() -> None:
            for session, request in (("1" * 32, 1), ("0" * 32, 2), ("0" * 32, True), ("0" * 32, "1")):
                headers = {**HANDSHAKE, "mcp-session-id": session}
                answer = await http.post(
                    "/mcp", json=message("notifications/cancelled", requestId=request), headers=headers
                )
                assert answer.status_code == 202
            assert not calling.done()
            await http.post("/mcp", json=message("notifications/cancelled", requestId=1), headers=HANDSHAKE)
            assert (await calling).json()["result"]["isError"]

        yield leave


@asynccontextmanager
async def over_stdio(gateway: Gateway) -> AsyncIterator[tuple[BinaryIO, BinaryIO, asyncio.Task[None]]]:
    """What the client writes to, what it reads from, and the serving."""
    (source, feed), (answers, sink) = pipe(), pipe()
    with source, feed, answers, sink:
        serving = asyncio.create_task(serve_streams(gateway, gateway.principal("bot"), source, sink))
        feed.write(msgspec.json.encode(message("tools/call", 1, **CALL)) + b"\n")
        yield feed, answers, serving
        feed.close()
        await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def over_stdio_by_notification(gateway: Gateway) -> AsyncIterator[Leave]:
    async with over_stdio(gateway) as (feed, _, _):

        async def leave() -> None:
            feed.write(msgspec.json.encode(message("notifications/cancelled", requestId=1)) + b"\n")

        yield leave


@asynccontextmanager
async def over_stdio_that_closes(gateway: Gateway) -> AsyncIterator[Leave]:
    async with over_stdio(gateway) as (feed, answers, _):

        async def leave() -> None:
            answers.close()
            feed.close()

        yield leave


@asynccontextmanager
async def over_stdio_that_is_stopped(gateway: Gateway) -> AsyncIterator[Leave]:
    async with over_stdio(gateway) as (_, _, serving):

        async def leave() -> None:
            serving.cancel()

        yield leave


@asynccontextmanager
async def from_python(gateway: Gateway) -> AsyncIterator[Leave]:
    task = asyncio.create_task(gateway.call("shop__query", {"sql": SLOW}, principal="bot"))

    async def leave() -> None:
        task.cancel()

    yield leave
    with pytest.raises(asyncio.CancelledError):
        await task


def pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb", buffering=0), os.fdopen(writing, "wb", buffering=0)


FRONTS = [
    over_rest,
    over_rest_with_a_large_body,
    over_tool_calls,
    over_mcp,
    over_mcp_by_notification,
    over_stdio_by_notification,
    over_stdio_that_closes,
    over_stdio_that_is_stopped,
    from_python,
]


# Each way to leave is tried on one server and one file, and what differs between engines by three of them; `make exhaustive` tries all.
SAME = {"mysql", "duckdb"}
SOME = {over_rest, over_mcp_by_notification, over_stdio_that_closes}


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("project", "front"),
    [
        pytest.param(engine, front, marks=[pytest.mark.exhaustive] if engine in SAME and front not in SOME else [])
        for engine in ENGINES
        for front in FRONTS
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
    indirect=["project"],
)
def test_what_only_read_for_them_is_ended_on_the_server_and_recorded(project: SlowProject, front: Any) -> None:
    before = len(project.record())
    calls = 2 if front is over_tool_calls else 1

    async def main() -> None:
        async with Gateway.load(project.root / "toolgen.yaml") as gateway:
            async with front(gateway) as leave:
                await until(lambda: project.running() == calls)
                await leave()
                await until(lambda: project.running() == 0)
                await until(lambda: not gateway._running._tasks)
            answer = await gateway.call("shop__query", QUICK, principal="bot")
            assert answer.status == "ok", answer.error

    run(main())
    outcomes = [entry for entry in project.record()[before:] if entry["event"] == "outcome"]
    assert [entry["status"] for entry in outcomes] == ["cancelled"] * calls + ["ok"]
    assert all(entry["code"] == "cancelled" and "big" in entry["sql"] for entry in outcomes[:-1])


def test_a_storm_of_departures_leaves_nothing_behind(project: SlowProject) -> None:
    """Some leave while they wait for a place, some while they connect, some while they run."""
    before = len(project.record())
    waves, each = 5, 12

    async def main() -> None:
        async with Gateway.load(project.root / "toolgen.yaml") as gateway, listening(App(gateway)) as url:
            await gateway.call("shop__query", QUICK, principal="bot")
            loop = asyncio.get_running_loop()
            tasks = len(asyncio.all_tasks())
            for wave in range(waves):
                sent = [
                    await post(url, "/v1/tools/shop__query/call", {"arguments": CALL["arguments"]}, {})
                    for _ in range(each)
                ]
                if wave % 2:
                    await until(lambda: project.running() > 0)
                for leave in sent:
                    await leave()
            await until(lambda: not gateway._running._tasks)
            await until(lambda: project.running() == 0)
            await until(lambda: len(asyncio.all_tasks(loop)) <= tasks)
            answers = await asyncio.gather(*(gateway.call("shop__query", QUICK, principal="bot") for _ in range(4)))
            assert {answer.status for answer in answers} == {"ok"}

    run(main())
    ends = [entry for entry in project.record()[before:] if entry["event"] == "outcome"]
    begun = {entry["call_id"] for entry in project.record()[before:] if entry["event"] == "intent"}
    assert begun == {entry["call_id"] for entry in ends}
    # On a busy machine the time of a call may be over before anybody leaves.
    ended = {entry["code"] for entry in ends if entry["status"] != "ok"}
    assert ended <= {"cancelled", "upstream_timeout", "upstream_unavailable"}


STEPS = range(60) if EXHAUSTIVE else range(0, 60, 3)


@pytest.mark.sweep
@pytest.mark.parametrize("pooled", [True, False], ids=["a session is there", "no session is there"])
@pytest.mark.parametrize("project", ["postgres", "mysql", "sqlite"], indirect=True)
def test_a_query_ends_at_whatever_step_its_client_leaves(project: SlowProject, pooled: bool) -> None:
    """Its task is cancelled once. A library that loses that (before Python 3.12 `wait_for` does) would let the query run on."""

    async def main() -> None:
        for step in STEPS:
            async with Gateway.load(project.root / "toolgen.yaml") as gateway:
                if pooled:
                    await gateway.call("shop__query", QUICK, principal="bot")
                presence = Presence()
                call = gateway.call("shop__query", {"sql": SLOW}, principal="bot", presence=presence)
                task = asyncio.create_task(call)
                for _ in range(step):
                    await asyncio.sleep(0)
                presence.leave()
                async with asyncio.timeout(30):  # the query has sixty
                    envelope = await task
                assert envelope.status == "cancelled", (step, envelope.error)
                await until(lambda: project.running() == 0)

    run(main(), 600)


@pytest.mark.parametrize("project", ["sqlite"], indirect=True)
def test_a_piped_request_is_answered_after_the_pipe_was_closed(project: SlowProject) -> None:
    """`printf … | toolgen serve --stdio`: who reads the answers is still there."""

    async def main() -> None:
        async with Gateway.load(project.root / "toolgen.yaml") as gateway:
            (source, feed), (answers, sink) = pipe(), pipe()
            with source, feed, answers, sink:
                feed.write(msgspec.json.encode(message("tools/call", 1, name="shop__query", arguments=QUICK)) + b"\n")
                feed.close()
                await serve_streams(gateway, gateway.principal("bot"), source, sink)
                told = msgspec.json.decode(answers.read(65_536))
            assert not told["result"]["isError"]

    run(main())


@pytest.mark.parametrize("project", ["sqlite"], indirect=True)
def test_a_client_that_left_before_the_database_was_asked_asks_it_nothing(project: SlowProject) -> None:
    async def main() -> None:
        async with Gateway.load(project.root / "toolgen.yaml") as gateway:
            presence = Presence()
            presence.leave()
            envelope = await gateway.call("shop__query", QUICK, principal="bot", presence=presence)
            assert envelope.error is not None
            assert (envelope.status, envelope.error.code) == ("cancelled", "cancelled")
            assert gateway._executors["shop"]._opened is None  # type: ignore[attr-defined]

    run(main())
