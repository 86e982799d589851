"""What a call says while it runs, to those who follow it at any worker, and that it is told when it is called off."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.contract.leaving_clients import until
from tests.gateway.clients import listening
from tests.gateway.operations.test_background_calls import ended, two_gateways
from tests.gateway.slow_databases import ENGINES, SLOW, slow_project
from tests.gateway.test_call_events import read
from tests.projects import KEY
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

_NUMBERS = itertools.count()
TOOLS = '''
from __future__ import annotations
import asyncio
import threading
import toolgen

GO, ENDED = threading.Event(), threading.Event()

@toolgen.tool(effect="read")
async def count(ctx: toolgen.ToolContext) -> list[int]:
    """Counts."""
    for number in range(1, 4):
        ctx.progress(number, 4, f"secret {number}")
        ctx.partial([number])
        ctx.partial(object())
        await asyncio.to_thread(GO.wait, 60)
        GO.clear()
    return [1, 2, 3]

@toolgen.tool(effect="write")
def wait_in_thread(ctx: toolgen.ToolContext) -> str:
    """Waits."""
    while not ctx.cancelled:
        GO.wait(0.01)
    ENDED.set()
    return "ended"

@toolgen.tool(effect="write")
async def wait(ctx: toolgen.ToolContext) -> str:
    """Waits."""
    try:
        await asyncio.sleep(3600)
    finally:
        ENDED.set()
    return "never"

@toolgen.tool(effect="read")
async def flood(ctx: toolgen.ToolContext) -> int:
    """Says much."""
    for number in range(200):
        ctx.partial("x" * 2000 + str(number))
    await asyncio.to_thread(GO.wait, 60)
    return 200
'''


WITHHOLDS = """
import toolgen

class Withholds(toolgen.Middleware):
    def after(self, call, result):
        return toolgen.Refuse(message="not this one")
"""


@asynccontextmanager
async def play(
    root: Path, policy: str = "", checks: str = ""
) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient, Any]]:
    """Two gateways of one project of these functions, and their module; `checks` is the code of a middleware."""
    name = f"progress_{next(_NUMBERS)}"
    (root / f"{name}.py").write_text(TOOLS, encoding="utf-8")
    (root / "policies").mkdir()
    key = hashlib.sha256(b"key-of-bot").hexdigest()
    allow = f"principals: {{bot: {{api_key: 'sha256:{key}', roles: [bot]}}}}\n"
    allow += "rules: [{id: all, to: [bot], tools: ['*'], verdict: allow}]\n"
    (root / "policies" / "policy.yaml").write_text(allow + policy, encoding="utf-8")
    path = root / "toolgen.yaml"
    asked = f"middleware: [{{use: checks_of_{name}.Withholds, timeout: 10s}}]\n" if checks else ""
    (root / f"checks_of_{name}.py").write_text(checks, encoding="utf-8")
    path.write_text(f"sources: {{own: {{python: {name}}}}}\n{asked}", encoding="utf-8")

    async with two_gateways(path) as (first, second, _):
        yield first, second, importlib.import_module(name)


async def left(client: httpx.AsyncClient, tool: str) -> str:
    answer = await client.post(f"/v1/tools/own__{tool}/call", json={"wait": 0})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["call_id"])


@pytest.mark.parametrize("follower", [0, 1], ids=["at its worker", "at another"])
async def test_progress_and_pieces_reach_whoever_follows(tmp_path: Path, follower: int) -> None:
    async with play(tmp_path) as (one, two, module):
        call_id = await left(one, "count")
        progress, pieces = [], []
        async with (one, two)[follower].stream("GET", f"/v1/calls/{call_id}/events?wait=120") as answer:
            async for name, data in read(answer):
                if name == "progress" and "done" in data:
                    progress.append((data["done"], data["total"], data["percent"], data["message"], data["state"]))
                elif name == "partial":
                    assert data["call_id"] == call_id
                    pieces.append((data["number"], data["data"]))
                    if len(pieces) == len(progress) or len(pieces) == 3:
                        module.GO.set()
                elif name == "done":
                    assert data["data"] == [1, 2, 3]
        assert progress == [(n, 4, 25.0 * n, f"secret {n}", "running") for n in (1, 2, 3)]
        assert pieces == [(1, [1]), (2, [2]), (3, [3])]
        async with two.stream("GET", f"/v1/calls/{call_id}/events") as answer:
            late = [(name, data) async for name, data in read(answer)]
        assert [name for name, _ in late] == ["partial", "partial", "partial", "done"]


async def test_a_call_that_is_asked_for_says_how_far_it_is(tmp_path: Path) -> None:
    async with play(tmp_path) as (one, two, _):
        call_id = await left(one, "count")
        answer = {}
        while "data" not in answer:
            answer = (await two.get(f"/v1/calls/{call_id}")).json()
        assert answer["data"] == {"progress": {"done": 1, "total": 4, "percent": 25.0, "message": "secret 1"}}
        await one.post(f"/v1/calls/{call_id}/cancel")


@pytest.mark.parametrize(
    ("policy", "checks"),
    [("redact: [{tools: ['*'], fields: ['$..x'], with: '…'}]\n", ""), ("", WITHHOLDS)],
    ids=["the policy", "a middleware"],
)
async def test_where_something_may_be_hidden_no_piece_is_given(tmp_path: Path, policy: str, checks: str) -> None:
    async with play(tmp_path, policy, checks) as (one, two, module):
        call_id = await left(one, "count")
        seen: list[Any] = []
        async with two.stream("GET", f"/v1/calls/{call_id}/events?wait=120") as answer:
            async for name, data in read(answer):
                seen.append((name, data))
                if name == "progress" and "done" in data:
                    module.GO.set()
        assert [data["done"] for name, data in seen if name == "progress" and "done" in data] == [1, 2, 3]
        assert "partial" not in [name for name, _ in seen]


async def test_of_many_pieces_the_last_are_kept(tmp_path: Path) -> None:
    async with play(tmp_path) as (one, two, module):
        call_id = await left(one, "flood")
        module.GO.set()
        await ended(two, call_id)
        async with two.stream("GET", f"/v1/calls/{call_id}/events") as answer:
            numbers = [data["number"] async for name, data in read(answer) if name == "partial"]
        assert numbers == list(range(201 - len(numbers), 201))
        assert 25 < len(numbers) < 40  # 64 KiB of two thousand each


@pytest.mark.parametrize("tool", ["wait", "wait_in_thread"])
async def test_a_function_is_told_that_its_call_was_called_off(tmp_path: Path, tool: str) -> None:
    async with play(tmp_path) as (one, two, module):
        call_id = await left(one, tool)
        answer = await two.post(f"/v1/calls/{call_id}/cancel")
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, "outcome_unknown")
        assert await asyncio.to_thread(module.ENDED.wait, 60)


@pytest.mark.parametrize("dialect", ENGINES)
async def test_a_statement_is_cancelled_on_its_server(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")

    with slow_project(dialect, tmp_path) as project:
        root = project.root
        running = project.running
        headers = {"authorization": f"Bearer {KEY}"}
        async with (
            asyncio.timeout(120),
            Gateway.load(root / "toolgen.yaml") as gateway,
            listening(App(gateway)) as url,
            httpx.AsyncClient(base_url=url, headers=headers, timeout=120) as client,
        ):
            made = await client.post("/v1/tools/shop__query/call", json={"wait": 0, "arguments": {"sql": SLOW}})
            assert made.status_code == 202, made.text
            await until(lambda: running() > 0)
            answer = await client.post(f"/v1/calls/{made.json()['call_id']}/cancel")
            assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
            await until(lambda: running() == 0)
