"""The events of a call that waits: what is said, to whom, and when it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.governed import Upstream, project, upstream, write_policy
from tests.gateway.tenants import Boundary, beside, strangers
from toolgen.frontends.rest import call_events
from toolgen.gateway.operations.waiting_calls import WaitingCalls

POLICY: dict[str, Any] = {
    "rules": [{"id": "asks", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"}],
    "approvals": {"approvers": ["user"]},
}


class Caller:
    """Clients of a gateway that listens on a real port."""

    def __init__(self, boundary: Boundary, root: Path) -> None:
        self.boundary, self.root = boundary, root
        self.gateway, self.url = boundary.gateway, boundary.url

    def stranger(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.boundary.other_url, headers=self.boundary.headers(), timeout=120)

    def http(self, who: str = "bot") -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers={"authorization": f"Bearer key-of-{who}"}, timeout=120)

    async def asked(self) -> str:
        """The id of a call that waits for a person."""
        async with self.http() as http:
            answer = await http.post("/v1/tools/orders__send_mail/call", json={"arguments": {"to": "x"}, "wait": 0})
        assert answer.status_code == 202
        return str(answer.json()["call_id"])

    async def decide(self, call_id: str, decision: str) -> None:
        async with self.http("ann") as http:
            answer = await http.post(f"/v1/approvals/{call_id}", json={"decision": decision})
        assert answer.status_code == 200, answer.text

    @asynccontextmanager
    async def events(
        self, call_id: str, who: str = "bot", wait: int = 120
    ) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        async with self.http(who) as http, http.stream("GET", f"/v1/calls/{call_id}/events?wait={wait}") as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["cache-control"] == "no-store"
            yield read(answer)


async def read(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            yield "quiet", None
        elif line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


@asynccontextmanager
async def play(root: Path, stranger: str = "principal") -> AsyncIterator[tuple[Caller, Upstream]]:
    with upstream() as (seen, server):
        path = project(root / "p", server, POLICY)
        async with asyncio.timeout(120), beside(path, stranger) as boundary:
            yield Caller(boundary, path.parent), seen


async def test_a_call_is_followed_from_waiting_to_its_end(tmp_path: Path) -> None:
    async with play(tmp_path) as (caller, seen):
        call_id = await caller.asked()
        seen.answers.clear()
        async with caller.events(call_id) as events:
            assert await anext(events) == (
                "progress",
                {"call_id": call_id, "tool": "orders__send_mail", "state": "pending"},
            )
            await caller.decide(call_id, "approve")
            states = []
            async for name, data in events:
                if name == "progress":
                    states.append(data["state"])
                    if data["state"] == "running":
                        seen.answers.set()
                else:
                    assert (name, data["status"], data["data"]) == ("done", "ok", {"ok": True})
                    assert data["call_id"] == call_id
            assert states in (["approved", "running"], ["running"])
        async with caller.events(call_id) as events:
            assert [name async for name, _ in events] == ["done"]  # also for whoever comes late


@strangers
async def test_a_denied_call_is_done_and_a_call_of_another_is_none(tmp_path: Path, stranger: str) -> None:
    async with play(tmp_path, stranger=stranger) as (caller, seen):
        call_id = await caller.asked()
        for client, path in (
            (caller.stranger(), f"/v1/calls/{call_id}/events"),
            (caller.http(), "/v1/calls/call_none/events"),
        ):
            async with client as http:
                answer = await http.get(path)
                assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        async with caller.http("nobody") as http:
            assert (await http.get(f"/v1/calls/{call_id}/events")).status_code == 401
        await caller.decide(call_id, "deny")
        async with caller.events(call_id) as events:
            ((name, data),) = [event async for event in events]
        assert (name, data["status"], data["error"]["code"]) == ("done", "refused", "approval_denied")
        assert seen.requests == []


@pytest.mark.parametrize("query", ["wait=0", "wait=301", "wait=x", "wait=1&wait=2", "other=1"])
async def test_a_bad_query_is_refused(query: str, tmp_path: Path) -> None:
    async with play(tmp_path) as (caller, _):
        call_id = await caller.asked()
        async with caller.http() as http:
            assert (await http.get(f"/v1/calls/{call_id}/events?{query}")).status_code == 400


async def test_a_stream_is_kept_alive_and_ends_when_its_credential_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_events, "QUIET_S", 0.05)

    async with play(tmp_path) as (caller, _):
        call_id = await caller.asked()
        async with caller.events(call_id) as events:
            assert [(await anext(events))[0] for _ in range(3)] == ["progress", "quiet", "quiet"]
            others = {"principals": {"ann": {"api_key": "sha256:" + "0" * 64, "roles": ["user"]}}}
            write_policy(caller.root, {**POLICY, **others, "rules": []})
            assert await caller.gateway.operations.reload()
            assert [name async for name, _ in events if name != "quiet"] == []


async def test_a_caller_may_listen_to_so_many_at_once_and_again_when_some_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_events, "_MAX_EACH", 1)
    monkeypatch.setattr(call_events, "QUIET_S", 0.05)

    async with play(tmp_path) as (caller, _):
        call_id = await caller.asked()
        async with caller.events(call_id) as events:
            await anext(events)
            async with caller.http() as http:
                refused = await http.get(f"/v1/calls/{call_id}/events")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
            assert refused.headers["retry-after"]
            await caller.decide(call_id, "deny")
            assert [name async for name, _ in events if name != "quiet"] == ["done"]
        async with caller.events(call_id) as events:
            assert (await anext(events))[0] == "done"


async def test_who_follows_a_call_is_woken_by_what_may_be_about_it() -> None:
    nothing: Any = None
    waiting = WaitingCalls(store=nothing, log=nothing, approval_text=str)
    mine, any_call = waiting.news.of("a"), waiting.news.next
    waiting.news.announce("b")
    assert (mine.is_set(), any_call.is_set(), waiting.news.of("a")) == (False, True, mine)
    waiting.news.announce("a")
    later = waiting.news.of("a")
    assert (mine.is_set(), later.is_set()) == (True, False)
    waiting.news.announce()
    assert later.is_set()
    waiting.news.announce("a")  # which nobody follows
