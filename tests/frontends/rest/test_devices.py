"""The routes of devices: long polls, events, and every answer that is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.devices import HERE, Served, device_project, recorded
from toolgen.core.errors import AuditError
from toolgen.frontends.rest import devices

ID = "call_" + "0" * 24


@asynccontextmanager
async def play(root: Path) -> AsyncIterator[Served]:
    async with asyncio.timeout(120), Served(device_project(root / "p")) as served:
        yield served
    recorded(served.settings)  # it verifies


MALFORMED: list[tuple[object, str]] = [
    ({"jsonrpc": "2.0", "id": ID}, "body"),
    ({"jsonrpc": "2.0", "id": ID, "result": 1, "error": {"code": 1, "message": "m"}}, "body"),
    ({"jsonrpc": "1.0", "id": ID, "result": 1}, "/jsonrpc"),
    ({"id": ID, "result": 1}, "body"),
    ({"jsonrpc": "2.0", "result": 1}, "body"),
    ({"jsonrpc": "2.0", "id": 7, "result": 1}, "/id"),
    ({"jsonrpc": "2.0", "id": None, "result": 1}, "/id"),
    ({"jsonrpc": "2.0", "id": "", "result": 1}, "/id"),
    ({"jsonrpc": "2.0", "id": "x" * 129, "result": 1}, "/id"),
    ({"jsonrpc": "2.0", "id": ID, "result": 1, "method": "x"}, "/method"),
    ({"jsonrpc": "2.0", "id": ID, "error": "no"}, "/error"),
    ({"jsonrpc": "2.0", "id": ID, "error": {"code": "1", "message": "m"}}, "/error/code"),
    ({"jsonrpc": "2.0", "id": ID, "error": {"code": 1.5, "message": "m"}}, "/error/code"),
    ({"jsonrpc": "2.0", "id": ID, "error": {"code": 1}}, "/error"),
    ({"jsonrpc": "2.0", "id": ID, "error": {"code": 1, "message": "m", "more": 1}}, "/error/more"),
    ({"jsonrpc": "2.0", "id": ID, "error": {"code": 1, "message": "m" * 5000}}, "/error/message"),
    ([{"jsonrpc": "2.0", "id": ID, "result": 1}], "body"),
    ("text", "body"),
]


async def test_an_answer_that_is_none_is_refused_with_the_place_and_on_record(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        call_id = await served.asked()
        async with served.http("ann") as http:
            for body, place in MALFORMED:
                text = json.dumps(body).replace(ID, call_id)
                refused = await http.post(
                    "/v1/tool-messages", content=text, headers={"content-type": "application/json"}
                )
                assert refused.status_code == 400, (body, refused.text)
                error = refused.json()["error"]
                assert (error["code"], error["message"].partition(":")[0]) == ("validation", place), body
            for content in (b"{", b"\xff", b'{"jsonrpc":"2.0","jsonrpc":"2.0"}', b"[" * 100_000):
                headers = {"content-type": "application/json"}
                assert (await http.post("/v1/tool-messages", content=content, headers=headers)).status_code == 400
            assert (await http.post("/v1/tool-messages", content=b"{}")).status_code == 415
            large = await http.post(
                "/v1/tool-messages", json={"jsonrpc": "2.0", "id": call_id, "result": "x" * 2_000_000}
            )
            assert large.status_code == 413
            assert (await http.post("/v1/tool-messages?x=1", json={})).status_code == 400
            assert (await http.get("/v1/tool-messages")).status_code == 405
        assert len(await served.requests()) == 1

    record = recorded(served.settings)
    refusals = [entry for entry in record if entry["event"] == "refusal"]
    assert len(refusals) == len(MALFORMED) + 4
    assert {(entry["principal"], entry["code"], entry["status"]) for entry in refusals} == {
        ("ann", "validation", "refused")
    }


async def test_ids_that_nobody_was_given_are_not_found_whatever_they_look_like(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        mine = await served.asked()
        for call_id in (ID, mine[:-1], mine.upper(), mine + " ", "'; DROP TABLE invocations", "\u202e" * 20, "*"):
            refused = await served.answer(call_id, result=HERE)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
        for who, status in (("nobody", 401), ("eve", 404)):
            assert (await served.answer(mine, who, result=HERE)).status_code == status
        assert (await served.outcome(mine))["status"] == "pending"

    record = recorded(served.settings)
    not_found = [
        entry.get("call_id") for entry in record if entry["event"] == "refusal" and entry["code"] == "not_found"
    ]
    assert len(not_found) == 8
    assert not_found.count(ID) == 1


async def test_a_request_needs_a_credential_and_known_parameters(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        assert (await served.get("/v1/device/requests", "nobody")).status_code == 401
        for query in ("wait=0", "wait=61", "wait=x", "wait=1.5", "limit=1"):
            assert (await served.get(f"/v1/device/requests?{query}", "ann")).status_code == 400, query
        assert (await served.post("/v1/device/requests", "ann", {})).status_code == 405


async def test_a_long_poll_ends_when_what_is_asked_is_not_what_the_cursor_stands_for(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        empty = (await served.get("/v1/device/requests", "ann")).json()
        assert empty["requests"] == []
        async with asyncio.TaskGroup() as group:
            poll = group.create_task(served.get(f"/v1/device/requests?wait=60&cursor={empty['cursor']}", "ann"))
            call_id = await served.asked()
        first = poll.result().json()
        assert [one["request"]["id"] for one in first["requests"]] == [call_id]
        async with asyncio.TaskGroup() as group:
            poll = group.create_task(served.get(f"/v1/device/requests?wait=60&cursor={first['cursor']}", "ann"))
            await served.answer(call_id, result=HERE)
        assert poll.result().json() == empty
        over = await served.get(f"/v1/device/requests?wait=1&cursor={empty['cursor']}", "ann")
        assert over.json() == empty


@asynccontextmanager
async def events(served: Served, who: str = "ann") -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    headers = {"accept": "text/event-stream"}
    async with (
        served.http(who) as http,
        http.stream("GET", "/v1/device/requests?wait=60", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        yield _read(answer)


async def _read(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def test_events_tell_of_each_request_once_and_of_what_is_not_asked_any_more(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        before = await served.asked()
        async with events(served) as mine, events(served, "eve") as others:
            assert (await anext(mine))[1]["request"]["id"] == before
            other = await served.asked(who="eve")
            assert (await anext(others))[1]["request"]["id"] == other
            later = await served.asked("phone__copy_text")
            name, shown = await anext(mine)
            assert (name, shown["request"]["id"], shown["request"]["method"]) == ("request", later, "clipboard.write")
            await served.answer(before, result=HERE)
            assert await anext(mine) == ("withdrawn", {"id": before})
            await served.post(f"/v1/calls/{later}/cancel", "ann", {})
            assert await anext(mine) == ("withdrawn", {"id": later})
            served.app.end_streams()
            assert [one async for one in mine] == []


async def test_so_many_devices_of_a_user_wait_at_once_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_MAX_EACH", 1)

    async with play(tmp_path) as served, events(served) as mine:
        call_id = await served.asked()
        assert (await anext(mine))[1]["request"]["id"] == call_id
        crowded = await served.get("/v1/device/requests", "ann")
        assert (crowded.status_code, crowded.json()["error"]["code"]) == (429, "rate_limited")
        assert int(crowded.headers["retry-after"]) > 0
        assert (await served.get("/v1/device/requests", "eve")).status_code == 200


async def test_what_cannot_be_recorded_is_not_taken(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        call_id = await served.asked()
        log = served.gateway._log
        append = log.append

        async def full(*_: object) -> tuple[str, int]:
            raise AuditError("the disk is full")

        log.append = full  # type: ignore[method-assign,assignment]
        refused = await served.answer(call_id, result={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "audit_unavailable")
        refused = await served.answer(call_id, result=HERE)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "audit_unavailable")
        assert (await served.outcome(call_id))["status"] == "pending"
        written: list[object] = []

        async def once(fields: Any) -> tuple[str, int]:
            written.append(fields)
            return await append(fields) if len(written) == 1 else await full()

        log.append = once  # type: ignore[method-assign,assignment]
        taken = await served.answer(call_id, result=HERE)
        assert (taken.status_code, taken.json()["status"]) == (200, "error")
        log.append = append  # type: ignore[method-assign]
        told = await served.outcome(call_id)
        assert (told["error"]["code"], told.get("data")) == ("outcome_unknown", None)
