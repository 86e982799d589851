"""Calls that go on without their callers: left after `wait`, followed, come back for and called off, at any worker and after restarts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import listening
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.test_call_events import read
from tests.served_workers import serving
from toolgen.audit.reader import entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.operations import background_calls, waiting_calls
from toolgen.gateway.operations.background_calls import MAX_CALLS_EACH, BackgroundCalls
from toolgen.state.invocations import Room

POLICY: dict[str, Any] = {
    "rules": [
        {
            "id": "reads",
            "to": ["bot", "user"],
            "tools": ["orders__get_health", "orders__check_fraud"],
            "verdict": "allow",
        },
        {"id": "mails", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow"},
        {"id": "asks", "to": ["bot"], "tools": ["orders__create_orders"], "verdict": "ask"},
    ],
    "approvals": {"approvers": ["user"]},
}
HEALTH = "/v1/tools/orders__get_health/call"
MAIL = "/v1/tools/orders__send_mail/call"


def http(url: str, who: str = "bot") -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer key-of-{who}"}, timeout=120)


@asynccontextmanager
async def two_gateways(path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient, Gateway]]:
    """Clients of two gateways of one project, and the first gateway."""
    async with (
        asyncio.timeout(120),
        Gateway.load(path) as one,
        Gateway.load(path) as two,
        listening(App(one)) as first,
        listening(App(two)) as second,
        http(first) as at_first,
        http(second) as at_second,
    ):
        yield at_first, at_second, one


async def ended(client: httpx.AsyncClient, call_id: str) -> httpx.Response:
    """How a call ended, by asking until it has."""
    async with client.stream("GET", f"/v1/calls/{call_id}/events?wait=120") as answer:
        async for name, _ in read(answer):
            if name == "done":
                break
    return await client.get(f"/v1/calls/{call_id}")


@asynccontextmanager
async def play(root: Path, gateways: int = 2, **policy: Any) -> AsyncIterator[tuple[list[str], Upstream, Path]]:
    """URLs of so many gateways of one project, as its workers are, their API and the project."""
    with upstream() as (seen, server):
        path = project(root / "p", server, {**POLICY, **policy})
        urls: list[str] = []
        async with asyncio.timeout(120), AsyncExitStack() as stack:
            for _ in range(gateways):
                gateway = await stack.enter_async_context(Gateway.load(path))
                urls.append(await stack.enter_async_context(listening(App(gateway))))
            yield urls, seen, path


async def left(client: httpx.AsyncClient, seen: Upstream, path: str = HEALTH, **body: Any) -> str:
    """The id of a call that reached the API, which does not answer, and was left."""
    seen.answers.clear()
    count = len(seen.requests)
    answer = await client.post(path, json={"wait": 0, **body})
    assert (answer.status_code, answer.json()["status"], answer.json()["error"]["code"]) == (202, "pending", "deferred")
    await asyncio.to_thread(seen.reached, count + 1)
    return str(answer.json()["call_id"])


async def test_a_call_is_left_and_its_result_is_there_at_any_worker(tmp_path: Path) -> None:
    async with (
        play(tmp_path) as (urls, seen, path),
        http(urls[0]) as one,
        http(urls[1]) as two,
    ):
        call_id = await left(one, seen)
        for client in (one, two):
            answer = await client.get(f"/v1/calls/{call_id}")
            assert (answer.status_code, answer.json()["call_id"], answer.json()["error"]["code"]) == (
                202,
                call_id,
                "deferred",
            )
        seen.answers.set()
        for client in (two, one):
            answer = await ended(client, call_id)
            assert (answer.status_code, answer.json()["data"]) == (200, {"ok": True})
            assert answer.json()["call_id"] == call_id
        written = [entry for entry in entries(path.parent / "var" / "audit") if entry.get("call_id") == call_id]
        assert [entry["event"] for entry in written] == ["intent", "outcome"]
        assert len(seen.requests) == 1


async def test_a_call_that_ends_in_time_is_answered_as_any_other(tmp_path: Path) -> None:
    async with (
        play(tmp_path, gateways=1) as (urls, _, path),
        http(urls[0]) as one,
    ):
        answer = await one.post(HEALTH, json={"wait": 60})
        assert (answer.status_code, answer.json()["data"]) == (200, {"ok": True})
        assert (await one.get(f"/v1/calls/{answer.json()['call_id']}")).status_code == 404
        for name, body, status in (("orders__nothing", {}, 404), ("orders__check_fraud", {"order": 1}, 400)):
            answer = await one.post(f"/v1/tools/{name}/call", json={"wait": 0, "arguments": body})
            assert answer.status_code == status, answer.text
        assert not (path.parent / "var" / "state" / "calls.db").exists()


async def test_nobody_else_sees_a_call_or_calls_it_off(tmp_path: Path) -> None:
    async with (
        play(tmp_path) as (urls, seen, _),
        http(urls[0]) as one,
        http(urls[1], "ann") as other,
        http(urls[0], "bare") as same_role,
    ):
        call_id = await left(one, seen)
        for client in (other, same_role):
            for made in (client.get, lambda path, client=client: client.post(path)):
                for path in (f"/v1/calls/{call_id}", f"/v1/calls/{call_id}/events", f"/v1/calls/{call_id}/cancel"):
                    answer = await made(path)
                    assert answer.status_code in {404, 405}
            assert (await client.post(f"/v1/calls/{call_id}/cancel")).status_code == 404
        assert (await one.get(f"/v1/calls/{call_id}")).status_code == 202
        seen.answers.set()
        await ended(one, call_id)


@pytest.mark.parametrize("worker", [0, 1], ids=["at its worker", "at another"])
@pytest.mark.parametrize(
    ("path", "status", "code"),
    [(HEALTH, "cancelled", "cancelled"), (MAIL, "error", "outcome_unknown")],
    ids=["read", "write"],
)
async def test_a_call_is_called_off_and_its_request_closed(
    tmp_path: Path, worker: int, path: str, status: str, code: str
) -> None:
    async with (
        play(tmp_path) as (urls, seen, root),
        http(urls[0]) as one,
        http(urls[worker]) as client,
    ):
        arguments = {"to": "x"} if path == MAIL else {}
        call_id = await left(one, seen, path, arguments=arguments)
        answer = await client.post(f"/v1/calls/{call_id}/cancel")
        assert (answer.status_code, answer.json()["status"], answer.json()["error"]["code"]) == (200, status, code)
        assert await asyncio.to_thread(seen.closed)
        again = await one.post(f"/v1/calls/{call_id}/cancel")
        assert again.json() == answer.json()
        last = [entry for entry in entries(root.parent / "var" / "audit") if entry.get("call_id") == call_id][-1]
        assert (last["event"], last["status"], last["code"]) == ("outcome", status, code)


async def test_a_call_that_a_person_has_to_agree_to_says_so_at_once(tmp_path: Path) -> None:
    async with play(tmp_path) as (urls, seen, _), http(urls[0]) as one, http(urls[1], "ann") as ann:
        answer = await one.post("/v1/tools/orders__create_orders/call", json={"wait": 0, "arguments": {"body": []}})
        assert (answer.status_code, answer.json()["error"]["code"]) == (202, "approval_required")
        call_id = answer.json()["call_id"]
        seen.answers.clear()
        assert (await ann.post(f"/v1/approvals/{call_id}", json={"decision": "approve"})).status_code == 200
        await asyncio.to_thread(seen.reached, 1)
        answer = await one.post(f"/v1/calls/{call_id}/cancel")
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, "outcome_unknown")


@pytest.mark.parametrize("caller_at", [0, 1])
async def test_nobody_is_asked_about_a_call_that_was_called_off_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller_at: int
) -> None:
    """It waits for a limit when its caller calls it off, here or at another worker."""
    monkeypatch.setattr(background_calls, "_CALLED_OFF_S", 0.0)
    limit = {"id": "one", "per": ["principal"], "concurrency": 1, "wait": "30s"}

    async with (
        play(tmp_path, limits=[limit]) as (urls, seen, _),
        http(urls[0]) as one,
        http(urls[caller_at]) as caller,
        http(urls[0], "ann") as ann,
    ):
        await left(one, seen)
        asked = await one.post("/v1/tools/orders__create_orders/call", json={"arguments": {"body": []}, "wait": 0})
        assert (asked.status_code, asked.json()["error"]["code"]) == (202, "deferred")
        call_id = asked.json()["call_id"]
        assert (await caller.post(f"/v1/calls/{call_id}/cancel")).status_code == 202
        seen.answers.set()
        outcome = await ended(one, call_id)
        assert outcome.json()["error"]["code"] in {"cancelled", "rate_limited"}
        assert (await ann.get("/v1/approvals")).json() == {"approvals": []}


async def test_the_same_key_leads_back_to_the_call_that_was_left(tmp_path: Path) -> None:
    async with (
        play(tmp_path, gateways=1) as (urls, seen, _),
        http(urls[0]) as one,
    ):
        body = {"arguments": {"to": "x"}, "idempotency_key": "k1"}
        call_id = await left(one, seen, MAIL, **body)
        seen.answers.set()
        await ended(one, call_id)
        again = await one.post(MAIL, json={"wait": 0, **body})
        assert (again.status_code, again.json()["call_id"], again.json()["data"]) == (200, call_id, {"ok": True})
        assert len(seen.requests) == 1


async def test_each_principal_leaves_a_bounded_number_of_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_CALLS_EACH == 1000
    monkeypatch.setattr("toolgen.gateway.operations.background_calls.MAX_CALLS_EACH", 2)
    leave, waits = BackgroundCalls._leave, asyncio.Event()

    async def leaving(*given: Any) -> Any:
        if (known := await leave(*given)) is None:
            waits.set()
        return known

    monkeypatch.setattr(BackgroundCalls, "_leave", leaving)

    async with (
        play(tmp_path) as (urls, seen, _),
        http(urls[0]) as one,
        http(urls[0], "ann") as other,
        http(urls[1]) as elsewhere,
    ):
        calls = [await left(one, seen) for _ in range(2)]
        refused = await one.post(HEALTH, json={"wait": 0})
        assert (refused.status_code, refused.json()["error"]["code"], refused.json()["call_id"]) == (
            429,
            "rate_limited",
            "",
        )
        assert "retry-after" in refused.headers
        assert len(seen.requests) == 2
        calls_of_other = await left(other, seen)
        # At another worker nobody knows before: the call is made, and its caller waits for it.
        waiting = asyncio.create_task(elsewhere.post(HEALTH, json={"wait": 0}))
        await asyncio.to_thread(seen.reached, 4)
        async with asyncio.timeout(120):
            await waits.wait()  # the others go on still, so it could not be left
        seen.answers.set()
        assert (await waiting).status_code == 200
        for client, call_id in ((one, calls[0]), (one, calls[1]), (other, calls_of_other)):
            assert (await ended(client, call_id)).status_code == 200
        assert await left(one, seen)
        seen.answers.set()


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [(HEALTH, "cancelled", "cancelled"), (MAIL, "error", "outcome_unknown")],
    ids=["read", "write"],
)
def test_a_call_whose_gateway_was_killed_ends_by_its_effect(tmp_path: Path, path: str, status: str, code: str) -> None:
    with upstream() as (seen, server):
        root = project(tmp_path / "p", server, POLICY)
        seen.answers.clear()
        body = {"wait": 0, "arguments": {"to": "x"} if path == MAIL else {}}
        key = {"authorization": "Bearer key-of-bot"}
        with serving(root) as served:
            answer = httpx.post(served.url + path, json=body, headers=key, timeout=120)
            assert answer.status_code == 202, answer.text
            call_id = answer.json()["call_id"]
            seen.reached(1)
            served.process.kill()
            served.process.wait()
        with serving(root) as served, httpx.Client(base_url=served.url, headers=key, timeout=120) as client:
            answer = client.get(f"/v1/calls/{call_id}")
            assert answer.json()["call_id"] == call_id
            until = time.monotonic() + 120
            while answer.status_code == 202 and time.monotonic() < until:
                client.get(f"/v1/calls/{call_id}/events?wait=10")
                answer = client.get(f"/v1/calls/{call_id}")
            assert (answer.json()["status"], answer.json()["error"]["code"]) == (status, code)
        seen.answers.set()
        assert len(seen.requests) == 1


async def test_a_call_that_is_left_when_the_gateway_stops_ends_first(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        path = project(tmp_path / "p", server, POLICY)
        async with Gateway.load(path) as gateway, listening(App(gateway)) as url, http(url) as client:
            call_id = await left(client, seen)
            asyncio.get_running_loop().call_soon(seen.answers.set)
        async with Gateway.load(path) as gateway, listening(App(gateway)) as url, http(url) as client:
            answer = await client.get(f"/v1/calls/{call_id}")
            assert (answer.status_code, answer.json()["data"]) == (200, {"ok": True})


async def test_what_is_kept_of_a_call_that_runs_has_none_of_its_arguments(tmp_path: Path) -> None:
    async with play(tmp_path, gateways=1) as (urls, seen, path), http(urls[0]) as one:
        call_id = await left(one, seen, MAIL, arguments={"to": "canary-4711"})
        kept = b"".join(file.read_bytes() for file in (path.parent / "var" / "state").glob("calls.db*"))
        assert call_id.encode() in kept
        assert b"canary-4711" not in kept
        seen.answers.set()
        await ended(one, call_id)


async def test_each_call_of_a_batch_may_be_left_alone(tmp_path: Path) -> None:
    async with play(tmp_path, gateways=1) as (urls, seen, path):
        calls = [{"type": "tool_call", "id": f"c{n}", "name": "orders__get_health", "args": {}} for n in range(3)]
        refused = {"type": "tool_call", "id": "no", "name": "orders__nothing", "args": {}}
        seen.answers.clear()
        async with http(urls[0]) as client:
            answer = await client.post("/v1/tool_calls?wait=0", json=[*calls, refused])
            assert answer.status_code == 200, answer.text
            *told, no = answer.json()
            assert no["content"].startswith("unknown_tool: ")
            assert [(one["tool_call_id"], one["status"]) for one in told] == [(f"c{n}", "error") for n in range(3)]
            ids = [one["content"].rpartition("/v1/calls/")[2].rstrip(")") for one in told]
            assert len(set(ids)) == 3
            await asyncio.to_thread(seen.reached, 3)
            assert (await client.post(f"/v1/calls/{ids[1]}/cancel")).json()["status"] == "cancelled"
            seen.answers.set()
            for call_id, status in zip(ids, ("ok", "cancelled", "ok"), strict=True):
                assert (await ended(client, call_id)).json()["status"] == status
            again = await client.post("/v1/tool_calls?wait=100", json=calls)
            assert [one["status"] for one in again.json()] == ["success"] * 3
            for wrong in ("-1", "301", "1e2", "", "nan"):
                answer = await client.post(f"/v1/tool_calls?wait={wrong}", json=calls)
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "validation")
        assert endings(path) == ["ok"] * 5 + ["cancelled"]


def endings(path: Path, tool: str = "orders__get_health") -> list[str]:
    """How the calls to the API ended, as the record has it."""
    recorded = [one for one in entries(path.parent / "var" / "audit") if one["event"] == "outcome"]
    return sorted((one["status"] for one in recorded if one["tool"] == tool), reverse=True)


@pytest.mark.parametrize(("tool", "status"), [("orders__send_mail", "ok"), ("orders__get_health", "cancelled")])
async def test_writes_of_a_batch_are_made_to_their_end_if_its_client_leaves(
    tmp_path: Path, tool: str, status: str
) -> None:
    paths: list[Path] = []

    async with play(tmp_path, gateways=1) as (urls, seen, path):
        argument = "to" if tool == "orders__send_mail" else "order"
        calls = [{"type": "tool_call", "id": f"c{n}", "name": tool, "args": {argument: str(n)}} for n in range(2)]
        paths.append(path)
        seen.answers.clear()
        async with http(urls[0]) as client:
            asking = asyncio.create_task(client.post("/v1/tool_calls?wait=100", json=calls))
            await asyncio.to_thread(seen.reached, 2)
            asking.cancel()
            await asyncio.wait((asking,))
        seen.answers.set()
    assert endings(paths[0], tool) == [status] * 2


async def test_results_of_calls_that_were_left_are_kept_within_their_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One caller leaves call after call at two workers. Each ends on record and for its caller; only so many results are kept."""
    room = Room(each=12_000, total=30_000)
    for module in (background_calls, waiting_calls):
        monkeypatch.setattr(module, "ROOM", room)
    monkeypatch.setattr(background_calls, "_FRESH_S", 0.0)
    result = {"text": "x" * 3_000}

    async with play(tmp_path) as (urls, seen, path):
        seen.body = json.dumps(result).encode()
        async with http(urls[0]) as one, http(urls[1]) as two, http(urls[1], "ann") as ann:
            seen.answers.clear()
            bodies = [{"wait": 0, "arguments": {"to": str(number)}} for number in range(12)]
            made = [await client.post(MAIL, json=body) for client, body in zip((one, two) * 6, bodies, strict=True)]
            assert {answer.status_code for answer in made} == {202}
            await asyncio.to_thread(seen.reached, 12)
            seen.answers.set()
            said = [(await ended(one, answer.json()["call_id"])).json() for answer in made]
            assert {(answer["status"], "error" in answer) for answer in said} == {("ok", False)}
            whole = [answer for answer in said if answer["data"] == result]
            short = [answer for answer in said if answer["data"] != result]
            assert 1 <= len(whole) <= 3
            assert all("was not kept" in answer["data"] and answer["meta"]["truncated"] for answer in short)
            outcomes = [entry for entry in entries(path.parent / "var" / "audit") if entry["event"] == "outcome"]
            assert [entry["status"] for entry in outcomes] == ["ok"] * 12
            # There is no room left: what would be kept is not sent.
            for client in (one, two):
                refused = await client.post(MAIL, json={"wait": 0})
                assert (refused.status_code, refused.json()["error"]["rule"]) == (429, "kept_results")
                assert 3_000 < refused.json()["error"]["retry_after_s"] <= 3_600
                assert int(refused.headers["retry-after"]) >= refused.json()["error"]["retry_after_s"]
            assert len(seen.requests) == 12
            # Who waits is answered, and others have room of their own.
            assert (await one.post(MAIL, json={"wait": 60})).json()["data"] == result
            call_id = await left(ann, seen)
            seen.answers.set()
            assert (await ended(ann, call_id)).json()["data"] == result
