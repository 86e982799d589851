"""Answers of APIs that come in pieces, followed at any worker and over MCP; the answer itself is what it would be without."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.governed import project
from tests.gateway.operations.test_background_calls import ended, two_gateways
from tests.gateway.test_call_events import read
from tests.services.local import LocalServer, running

RULES: dict[str, Any] = {"rules": [{"id": "reads", "to": ["bot"], "tools": ["orders__get_health"], "verdict": "allow"}]}
CALL = "/v1/tools/orders__get_health/call"
BODIES = {
    "text/event-stream": [b'data: {"n": 1}\n\n', b'data: {"n": 2}\n\n'],
    "application/x-ndjson": [b'{"n": 1}\n', b'{"n": 2}\n'],
}


@contextmanager
def streaming(kind: str) -> Iterator[tuple[str, threading.Event]]:
    """An API that sends a piece, waits to be told to go on, and sends the next."""
    go = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for piece in BODIES[kind]:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.flush()
                go.wait(60)
                go.clear()
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield server.url, go


@asynccontextmanager
async def play(
    root: Path, kind: str, **policy: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient, threading.Event]]:
    """Two gateways of one project of that API."""

    with streaming(kind) as (url, go):
        path = project(root / "p", url, RULES | policy)
        async with two_gateways(path) as (first, second, _):
            yield first, second, go


@pytest.mark.parametrize("kind", BODIES)
async def test_pieces_reach_who_follows_at_another_worker(tmp_path: Path, kind: str) -> None:
    async with play(tmp_path, kind) as (one, two, go):
        call_id = (await one.post(CALL, json={"wait": 0})).json()["call_id"]
        pieces, done = [], []
        async with two.stream("GET", f"/v1/calls/{call_id}/events?wait=120") as answer:
            async for name, data in read(answer):
                if name == "partial":
                    pieces.append((data["number"], data["data"]))
                    go.set()
                elif name == "progress" and "done" in data:
                    done.append(data["done"])
        assert (pieces, done) == ([(1, {"n": 1}), (2, {"n": 2})], [1, 2])
        whole = (await one.get(f"/v1/calls/{call_id}")).json()
        assert (whole["status"], whole["data"]) == ("ok", [{"n": 1}, {"n": 2}])


async def test_where_something_is_hidden_pieces_are_only_counted(tmp_path: Path) -> None:
    async with play(tmp_path, "application/x-ndjson", redact=[{"tools": ["*"], "fields": ["$..x"], "with": "…"}]) as (
        one,
        two,
        go,
    ):
        call_id = (await one.post(CALL, json={"wait": 0})).json()["call_id"]
        seen = []
        async with two.stream("GET", f"/v1/calls/{call_id}/events?wait=120") as answer:
            async for name, data in read(answer):
                seen.append((name, data.get("done")))
                if name == "progress" and "done" in data:
                    go.set()
        assert [one for one in seen if one[1] is not None] == [("progress", 1), ("progress", 2)]
        assert "partial" not in [name for name, _ in seen]


async def test_an_mcp_client_is_told_how_many_have_come(tmp_path: Path) -> None:
    async with play(tmp_path, "text/event-stream") as (one, _, go):
        params = {"name": "orders__get_health", "_meta": {"progressToken": 7}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        told = []
        async with one.stream("POST", "/mcp", json=message, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if not line.startswith("data:"):
                    continue
                said = json.loads(line[5:])
                if said.get("method") == "notifications/progress":
                    told.append(said["params"])
                    go.set()
                elif "result" in said:
                    assert said["result"]["content"][0]["text"] == '[{"n":1},{"n":2}]'
        assert told == [{"progressToken": 7, "progress": n} for n in (1, 2)]


async def test_a_call_that_is_called_off_ends_the_stream(tmp_path: Path) -> None:
    async with play(tmp_path, "text/event-stream") as (one, two, go):
        call_id = (await one.post(CALL, json={"wait": 0})).json()["call_id"]
        async with two.stream("GET", f"/v1/calls/{call_id}/events?wait=120") as answer:
            async for name, _ in read(answer):
                if name == "partial":
                    break
        answer = await two.post(f"/v1/calls/{call_id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        assert (await ended(one, call_id)).json()["status"] == "cancelled"
        go.set()
