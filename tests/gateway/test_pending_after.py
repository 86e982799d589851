"""`gateway.pending_after`: a call over REST whose caller said nothing of waiting turns into one to come back for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.gateway.clients import listening
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.operations.test_background_calls import HEALTH, MAIL, POLICY, ended, http
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway


@asynccontextmanager
async def play(root: Path, after: str | None) -> AsyncIterator[tuple[httpx.AsyncClient, Upstream, Gateway]]:
    """Gateway whose callers wait so long."""

    with upstream() as (seen, server):
        settings = {} if after is None else {"gateway": {"pending_after": after}}
        path = project(root / "p", server, POLICY, **settings)
        async with (
            asyncio.timeout(120),
            Gateway.load(path) as gateway,
            listening(App(gateway)) as url,
            http(url) as one,
        ):
            yield one, seen, gateway


@pytest.mark.parametrize("after", ["0s", "200ms"])
async def test_a_call_that_takes_longer_answers_with_its_id_and_goes_on(tmp_path: Path, after: str) -> None:
    async with play(tmp_path, after) as (one, seen, _):
        seen.answers.clear()
        answer = await one.post(MAIL, json={"arguments": {"to": "x"}})
        assert (answer.status_code, answer.json()["status"], answer.json()["error"]["code"]) == (
            202,
            "pending",
            "deferred",
        )
        call_id = answer.json()["call_id"]
        assert (await one.get(f"/v1/calls/{call_id}")).status_code == 202
        seen.answers.set()
        done = await ended(one, call_id)
        assert (done.status_code, done.json()["data"], done.json()["call_id"]) == (200, {"ok": True}, call_id)
        assert len(seen.requests) == 1


async def test_a_call_that_ends_in_time_is_answered_and_kept_nowhere(tmp_path: Path) -> None:
    async with play(tmp_path, "1h") as (one, _, gateway):
        answer = await one.post(HEALTH, json={})
        assert (answer.status_code, answer.json()["data"]) == (200, {"ok": True})
        assert (await one.post("/v1/tools/orders__nothing/call", json={})).status_code == 404
        assert not (gateway.settings.state_dir / "calls.db").exists()


async def test_what_a_caller_says_of_waiting_counts_more(tmp_path: Path) -> None:
    async with play(tmp_path, "0s") as (one, seen, gateway):
        seen.answers.clear()
        waiting = asyncio.create_task(one.post(HEALTH, json={"wait": 120}))
        await asyncio.to_thread(seen.reached, 1)
        seen.answers.set()
        assert (await waiting).status_code == 200
        assert not (gateway.settings.state_dir / "calls.db").exists()


async def test_a_person_is_waited_for_no_longer(tmp_path: Path) -> None:
    async with play(tmp_path, "0s") as (one, _, _):
        answer = await one.post("/v1/tools/orders__create_orders/call", json={"arguments": {"body": []}})
        assert (answer.status_code, answer.json()["error"]["code"]) == (202, "approval_required")


async def test_one_call_too_many_is_made_and_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.gateway.operations.background_calls.MAX_CALLS_EACH", 1)

    async with play(tmp_path, "0s") as (one, seen, _):
        seen.answers.clear()
        first = await one.post(HEALTH, json={})
        assert first.status_code == 202
        waiting = asyncio.create_task(one.post(HEALTH, json={}))
        await asyncio.to_thread(seen.reached, 2)
        assert (await one.post(HEALTH, json={"wait": 0})).status_code == 429
        seen.answers.set()
        assert ((await waiting).status_code, (await ended(one, first.json()["call_id"])).status_code) == (200, 200)


BATCH = [{"type": "tool_call", "id": "a", "name": "orders__get_health", "args": {}}]


async def test_without_the_setting_callers_wait_to_the_end(tmp_path: Path) -> None:
    async with play(tmp_path, None) as (one, seen, _):
        seen.answers.clear()
        batch = asyncio.create_task(one.post("/v1/tool_calls", json=BATCH))
        single = asyncio.create_task(one.post(HEALTH, json={}))
        await asyncio.to_thread(seen.reached, 2)
        seen.answers.set()
        assert ((await batch).status_code, (await batch).json()[0]["status"]) == (200, "success")
        assert (await single).status_code == 200


async def test_calls_of_a_batch_are_left_too_unless_it_says_how_long_it_waits(tmp_path: Path) -> None:
    async with play(tmp_path, "0s") as (one, seen, _):
        seen.answers.clear()
        (message,) = (await one.post("/v1/tool_calls", json=BATCH)).json()
        assert message["content"].startswith("deferred:")
        waiting = asyncio.create_task(one.post("/v1/tool_calls?wait=120", json=BATCH))
        await asyncio.to_thread(seen.reached, 2)
        seen.answers.set()
        assert (await waiting).json()[0]["content"] == '{"ok":true}'
