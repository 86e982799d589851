"""A client that leaves takes its query with it: off the server, into the record, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.exhaustive import EXHAUSTIVE
from tests.frontends.contract.leaving_clients import (
    FRONTS,
    Asked,
    message,
    over_mcp_by_notification,
    over_rest,
    over_stdio_that_closes,
    over_tool_calls,
    pipe,
    post,
    until,
)
from tests.gateway.clients import listening
from tests.gateway.slow_databases import ENGINES, SLOW, SlowProject, slow_project
from tests.projects import KEY
from toolgen.frontends.http.app import App
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.frontends.python.gateway import Gateway
from toolgen.pipeline.middleware import CallerConnection

CALL = Asked(name="shop__query", arguments={"sql": SLOW}, key=KEY)
QUICK = {"sql": "SELECT count(*) AS n FROM big"}


@pytest.fixture(scope="module", params=ENGINES)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with slow_project(request.param, tmp_path_factory.mktemp("slow")) as found:
        yield found


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")


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
async def test_what_only_read_for_them_is_ended_on_the_server_and_recorded(project: SlowProject, front: Any) -> None:
    before = len(project.record())
    calls = 2 if front is over_tool_calls else 1

    async with Gateway.load(project.root / "toolgen.yaml") as gateway:
        async with front(gateway, CALL) as leave:
            await until(lambda: project.running() == calls)
            await leave()
            await until(lambda: project.running() == 0)
            await until(lambda: not gateway._running._tasks)
        answer = await gateway.call("shop__query", QUICK, principal="bot")
        assert answer.status == "ok", answer.error
    outcomes = [entry for entry in project.record()[before:] if entry["event"] == "outcome"]
    assert [entry["status"] for entry in outcomes] == ["cancelled"] * calls + ["ok"]
    assert all(entry["code"] == "cancelled" and "big" in entry["sql"] for entry in outcomes[:-1])


async def test_a_storm_of_departures_leaves_nothing_behind(project: SlowProject) -> None:
    """Some leave while they wait for a place, some while they connect, some while they run."""
    before = len(project.record())
    waves, each = 5, 12

    async with Gateway.load(project.root / "toolgen.yaml") as gateway, listening(App(gateway)) as url:
        await gateway.call("shop__query", QUICK, principal="bot")
        loop = asyncio.get_running_loop()
        tasks = len(asyncio.all_tasks())
        for wave in range(waves):
            sent = [await post(url, CALL.path, {"arguments": CALL.arguments}, KEY, {}) for _ in range(each)]
            if wave % 2:
                await until(lambda: project.running() > 0)
            for leave in sent:
                await leave()
        await until(lambda: not gateway._running._tasks)
        await until(lambda: project.running() == 0)
        await until(lambda: len(asyncio.all_tasks(loop)) <= tasks)
        answers = await asyncio.gather(*(gateway.call("shop__query", QUICK, principal="bot") for _ in range(4)))
        assert {answer.status for answer in answers} == {"ok"}
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
async def test_a_query_ends_at_whatever_step_its_client_leaves(project: SlowProject, pooled: bool) -> None:
    """Its task is cancelled once. A library that loses that (before Python 3.12 `wait_for` does) would let the query run on."""

    for step in STEPS:
        async with Gateway.load(project.root / "toolgen.yaml") as gateway:
            if pooled:
                await gateway.call("shop__query", QUICK, principal="bot")
            caller_connection = CallerConnection()
            call = gateway.call("shop__query", {"sql": SLOW}, principal="bot", caller_connection=caller_connection)
            task = asyncio.create_task(call)
            for _ in range(step):
                await asyncio.sleep(0)
            caller_connection.leave()
            async with asyncio.timeout(30):  # the query has sixty
                envelope = await task
            assert envelope.status == "cancelled", (step, envelope.error)
            await until(lambda: project.running() == 0)


@pytest.mark.parametrize("project", ["sqlite"], indirect=True)
async def test_a_piped_request_is_answered_after_the_pipe_was_closed(project: SlowProject) -> None:
    """`printf … | toolgen serve --stdio`: who reads the answers is still there."""
    async with Gateway.load(project.root / "toolgen.yaml") as gateway:
        (source, feed), (answers, sink) = pipe(), pipe()
        with source, feed, answers, sink:
            feed.write(msgspec.json.encode(message("tools/call", 1, name="shop__query", arguments=QUICK)) + b"\n")
            feed.close()
            await serve_streams(gateway, gateway.principal("bot"), source, sink)
            told = msgspec.json.decode(answers.read(65_536))
        assert not told["result"]["isError"]


@pytest.mark.parametrize("project", ["sqlite"], indirect=True)
async def test_a_client_that_left_before_the_database_was_asked_asks_it_nothing(project: SlowProject) -> None:
    async with Gateway.load(project.root / "toolgen.yaml") as gateway:
        caller_connection = CallerConnection()
        caller_connection.leave()
        envelope = await gateway.call("shop__query", QUICK, principal="bot", caller_connection=caller_connection)
        assert envelope.error is not None
        assert (envelope.status, envelope.error.code) == ("cancelled", "cancelled")
        assert gateway._executors["shop"]._opened is None  # type: ignore[attr-defined]
