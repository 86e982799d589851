"""Operations that go on behind an answer, through the whole gateway: followed at another worker, called off, paused, on record."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx

from tests.gateway.governed import project
from tests.gateway.operations.test_background_calls import ended, two_gateways
from tests.gateway.test_call_events import read
from tests.services.local import LocalServer, running
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway

POLICY: dict[str, Any] = {"rules": [{"id": "mails", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow"}]}
POLL = {
    "url": "Operation-Location",
    "state": "$.status",
    "done": "Succeeded",
    "failed": "Failed",
    "result": "$.result",
    "percent": "$.percent",
    "message": "$.stage",
    "interval": "100ms",
    "cancel": "DELETE",
}
CALL = "/v1/tools/orders__send_mail/call"


class Jobs:
    """An API whose one job runs until `done` is set; what it was asked."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.asked: list[str] = []
        self.polled = threading.Event()
        self.deleted = threading.Event()

    def answer(self, method: str, path: str) -> tuple[int, dict[str, str], Any]:
        self.asked.append(f"{method} {path}")
        match method:
            case "POST":
                return 202, {"Operation-Location": "/jobs/1"}, {}
            case "DELETE":
                self.deleted.set()
                return 204, {}, None
            case _:
                self.polled.set()
                if self.done.is_set():
                    return 200, {}, {"status": "Succeeded", "result": {"sent": True}}
                return 200, {}, {"status": "Running", "percent": 40, "stage": "secret stage"}


@contextmanager
def jobs() -> Iterator[tuple[Jobs, str]]:
    seen = Jobs()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, headers, body = seen.answer(self.command, self.path)
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {
                **headers,
                "content-type": "application/json",
                "content-length": str(len(data)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield seen, server.url


def recorded_outcome(gateway: Gateway) -> dict[str, Any]:
    """The only outcome on record."""
    (found,) = (entry for entry in entries(gateway.settings.audit_dir) if entry["event"] == "outcome")
    return dict(found)


@asynccontextmanager
async def play(
    root: Path, tools: dict[str, Any] | None = None, **policy: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient, Jobs, Gateway]]:
    """Clients of two gateways of one project of that API, the API, and the first gateway."""
    with jobs() as (seen, url):
        path = project(root / "p", url, POLICY | policy)
        settings = json.loads(path.read_text())
        settings["sources"]["orders"]["poll"] = POLL
        path.write_text(json.dumps({**settings, "tools": tools or {}}))
        async with two_gateways(path) as (first, second, gateway):
            yield first, second, seen, gateway


async def test_an_operation_is_one_call_that_is_followed_anywhere(tmp_path: Path) -> None:
    counts: list[int] = []
    async with play(tmp_path) as (one, two, seen, gateway):
        call_id = (await one.post(CALL, json={"wait": 0})).json()["call_id"]
        told = []
        async with two.stream("GET", f"/v1/calls/{call_id}/events?wait=120") as answer:
            async for name, data in read(answer):
                if name == "progress" and "percent" in data:
                    told.append((data["percent"], data["message"]))
                    seen.done.set()
                elif name == "done":
                    assert (data["status"], data["data"]) == ("ok", {"sent": True})
        assert set(told) == {(40.0, "secret stage")}
        assert seen.asked[0] == "POST /mail"
        assert set(seen.asked[1:]) == {"GET /jobs/1"}
        counts.append(len(seen.asked))
    outcome = recorded_outcome(gateway)
    assert (outcome["status"], outcome["attempts"]) == ("ok", counts[0])


async def test_a_call_that_is_waited_for_is_followed_too(tmp_path: Path) -> None:
    async with play(tmp_path) as (one, _, seen, _):
        seen.done.set()
        answer = await one.post(CALL, json={})
        assert (answer.status_code, answer.json()["data"]) == (200, {"sent": True})


async def test_calling_off_ends_the_operation_where_that_is_declared(tmp_path: Path) -> None:
    async with play(tmp_path) as (one, two, seen, gateway):
        call_id = (await one.post(CALL, json={"wait": 0})).json()["call_id"]
        await asyncio.to_thread(seen.polled.wait, 60)
        answer = await two.post(f"/v1/calls/{call_id}/cancel")
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, "outcome_unknown")
        assert await asyncio.to_thread(seen.deleted.wait, 60)
        assert seen.asked.count("DELETE /jobs/1") == 1
    assert recorded_outcome(gateway)["code"] == "outcome_unknown"


async def test_a_pause_ends_the_following(tmp_path: Path) -> None:
    async with play(tmp_path) as (one, two, seen, gateway):
        call_id = (await one.post(CALL, json={"wait": 0})).json()["call_id"]
        await asyncio.to_thread(seen.polled.wait, 60)
        await gateway.pausing.pause(principal="", source="", tool="orders__send_mail", reason="hold", by="ann")
        answer = (await ended(two, call_id)).json()
        assert answer["error"]["code"] == "outcome_unknown"
        assert not seen.deleted.is_set()


async def test_where_something_is_hidden_progress_has_no_words(tmp_path: Path) -> None:
    async with play(tmp_path, redact=[{"tools": ["*"], "fields": ["$..x"], "with": "…"}]) as (one, two, seen, _):
        call_id = (await one.post(CALL, json={"wait": 0})).json()["call_id"]
        async with two.stream("GET", f"/v1/calls/{call_id}/events?wait=120") as answer:
            async for name, data in read(answer):
                assert "secret" not in json.dumps(data)
                if name == "progress" and "percent" in data:
                    seen.done.set()


async def test_a_tool_may_be_left_as_it_answers(tmp_path: Path) -> None:
    async with play(tmp_path, {"orders__send_mail": {"poll": "never"}}) as (one, _, seen, _):
        answer = await one.post(CALL, json={})
        assert (answer.status_code, answer.json()["data"], seen.asked) == (200, {}, ["POST /mail"])
