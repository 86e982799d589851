"""A client that cancels a request, or closes its connection, ends what only reads at the API: at once, and without a further attempt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.http.http2_upstream import Upstream
from tests.frontends.contract.leaving_clients import (
    AT_ONCE_S,
    FRONTS,
    Asked,
    over_mcp,
    over_mcp_by_notification,
    over_tool_calls,
    until,
)
from tests.gateway.clients import listening
from tests.gateway.governed import PRINCIPALS
from tests.gateway.operations.test_background_calls import ended, http
from tests.stream_servers import stream_server
from toolgen.audit.reader import entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.pipeline.middleware import CallerConnection

KEY = "key-of-bot"
_PAGED = {
    "name": "cursor",
    "in": "query",
    "schema": {"type": "string"},
}
_LIST = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "integer"}},
        "next_cursor": {"type": ["string", "null"]},
    },
}


def _operation(name: str, *parameters: Any, schema: Any = None) -> dict[str, Any]:
    answer = {"description": "ok", "content": {"application/json": {"schema": schema or {}}}}
    return {"operationId": name, "summary": name, "parameters": list(parameters), "responses": {"200": answer}}


API = {
    "openapi": "3.1.0",
    "info": {"title": "Slow", "version": "1"},
    "paths": {
        "/silent": {"get": _operation("getSilent"), "post": _operation("createSilent")},
        "/begun": {"get": _operation("getBegun")},
        "/busy": {"get": _operation("getBusy"), "post": _operation("createBusy"), "put": _operation("putBusy")},
        "/limited": {"get": _operation("getLimited")},
        "/pages": {"get": _operation("listPages", _PAGED, schema=_LIST)},
        "/job": {"get": _operation("getJob")},
        "/spare": {"get": _operation("getSpare")},
    },
}
SDL = "type Query { silent: Int }\ntype Mutation { change: Int }\n"


class SlowApi:
    """An API that answers as its paths say, and knows of each request whether its connection was closed before it was answered."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.open = 0
        self.closed = 0
        self.answers = asyncio.Event()
        self.status = "503 Service Unavailable"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *fields = head.split("\r\n")
            length = next((int(one[15:]) for one in fields if one.lower().startswith("content-length:")), 0)
            await reader.readexactly(length)
            method, target, _ = line.split(" ")
            self.requests.append(f"{method} {target}")
            answer = self.answer(method, target)
            if answer is None:
                if target == "/begun":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n[1,")
                if not await self._waits(reader):
                    return
                answer = _answer("200 OK", {"ok": True})
            writer.write(answer)

    def answer(self, method: str, target: str) -> bytes | None:
        """What is answered at once; None where the API is slow."""
        path, _, query = target.partition("?")
        match path:
            case "/busy":
                return _answer(self.status, {}, "Retry-After: 1\r\n")
            case "/limited":
                return _answer("429 Too Many Requests", {}, "Retry-After: 1\r\n")
            case "/pages" if not query:
                return _answer("200 OK", {"items": [1, 2], "next_cursor": "two"})
            case "/job":
                return _answer("202 Accepted", {}, "Location: /jobs/1\r\n")
            case "/jobs/1":
                return (
                    _answer("202 Accepted", {}, "Location: /jobs/1\r\n") if method == "GET" else _answer("200 OK", {})
                )
            case _:
                return None

    async def _waits(self, reader: asyncio.StreamReader) -> bool:
        """Whether the request may be answered by now; False where its connection was closed before."""
        self.open += 1
        closing, answering = asyncio.ensure_future(reader.read(1)), asyncio.ensure_future(self.answers.wait())
        try:
            await asyncio.wait((closing, answering), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.open -= 1
            answering.cancel()
        if closing.done():
            self.closed += 1
            return False
        closing.cancel()
        return True


def _answer(status: str, data: Any, headers: str = "") -> bytes:
    body = json.dumps(data).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def _project(root: Path, url: str, **source: Any) -> Path:
    (root / "specs").mkdir(parents=True)
    (root / "policies").mkdir()
    (root / "specs" / "slow.json").write_text(json.dumps(API), encoding="utf-8")
    (root / "specs" / "slow.graphql").write_text(SDL, encoding="utf-8")
    policy = {
        "principals": PRINCIPALS,
        "rules": [
            {
                "id": "all",
                "to": ["bot"],
                "tools": ["*"],
                "effects": ["read", "write", "destructive"],
                "verdict": "allow",
            }
        ],
        "egress": {"private_networks": "allow"},
    }
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    sources = {
        "slow": {"openapi": "specs/slow.json", "server": url, **source},
        "graph": {"graphql": "specs/slow.graphql", "endpoint": f"{url}/graphql", "queries": True},
    }
    tools = {
        "slow__get_job": {"poll": {"url": "Location", "interval": "200ms", "cancel": "DELETE"}},
        "slow__get_spare": {"cache": "1h"},
    }
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources, "tools": tools}), encoding="utf-8")
    return path


@asynccontextmanager
async def gateway_of(root: Path, **source: Any) -> AsyncIterator[tuple[Gateway, SlowApi]]:
    api = SlowApi()
    async with (
        stream_server(api.serve) as port,
        Gateway.load(_project(root, f"http://127.0.0.1:{port}", **source)) as gateway,
    ):
        yield gateway, api
        api.answers.set()


def recorded(root: Path) -> list[tuple[str, str, str]]:
    """The calls that ended, as the record has them: tool, status and code."""
    found = [one for one in entries(root / "var" / "audit") if one["event"] == "outcome"]
    return [(str(one["tool"]), str(one["status"]), str(one.get("code", ""))) for one in found]


def called(name: str, **arguments: Any) -> Asked:
    return Asked(name=name, arguments=arguments, key=KEY)


SILENT = called("slow__get_silent")
QUERY = called("graph__run_query", query="{ silent }")
HELD = [
    pytest.param(SILENT, 1, id="no answer yet"),
    pytest.param(called("slow__get_begun"), 1, id="an answer that has begun"),
    pytest.param(called("slow__list_pages", _answer={"pages": 5}), 2, id="the second page"),
    pytest.param(called("graph__get_silent"), 1, id="a tool of GraphQL"),
    pytest.param(QUERY, 1, id="a document of GraphQL"),
]

# Every way to leave is tried with one of these, and each of these by two ways to leave; `make exhaustive` tries all.
SOME = {over_mcp, over_mcp_by_notification}


@pytest.mark.parametrize(
    ("front", "asked", "requests"),
    [
        pytest.param(
            front,
            *held.values,
            id=f"{front.__name__}: {held.id}",
            marks=[] if held is HELD[0] or front in SOME else [pytest.mark.exhaustive],
        )
        for held in HELD
        for front in FRONTS
    ],
)
async def test_what_reads_at_the_api_is_broken_off_at_once_and_not_sent_again(
    tmp_path: Path, front: Any, asked: Asked, requests: int
) -> None:
    calls = 2 if front is over_tool_calls else 1

    async with gateway_of(tmp_path) as (gateway, api):
        async with front(gateway, asked) as leave:
            await until(lambda: api.open == calls)
            await leave()
            async with asyncio.timeout(AT_ONCE_S):
                await until(lambda: api.closed == calls)
            await until(lambda: not gateway._running._tasks)
        assert len(api.requests) == requests * calls, api.requests
    outcomes = recorded(tmp_path)
    assert outcomes[-calls:] == [(asked.name, "cancelled", "cancelled")] * calls, outcomes


@pytest.mark.parametrize("front", [over_mcp, over_mcp_by_notification], ids=lambda one: one.__name__)
async def test_a_read_over_http2_is_reset_alone(tmp_path: Path, front: Any) -> None:
    upstream = Upstream()
    async with (
        upstream.serving(),
        Gateway.load(_project(tmp_path, f"http://127.0.0.1:{upstream.port}", http2=True)) as gateway,
    ):
        other = asyncio.create_task(gateway.call("slow__get_spare", {}, principal="bot"))
        await upstream.until(lambda: upstream.requests == ["/spare"])
        async with front(gateway, SILENT) as leave:
            await upstream.until(lambda: upstream.requests == ["/spare", "/silent"])
            await leave()
            await upstream.until(lambda: bool(upstream.resets), AT_ONCE_S)
        (connection,) = upstream.connections
        assert upstream.resets == [("/silent", 8)]
        connection.answer(1, b"{}", ("content-type", "application/json"))
        connection.flush()
        assert (await other).status == "ok"
    ended = recorded(tmp_path)
    assert sorted(one[:2] for one in ended) == [(SILENT.name, "cancelled"), ("slow__get_spare", "ok")]


@pytest.mark.parametrize("front", [over_mcp, over_mcp_by_notification], ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", ["slow__get_busy", "slow__get_limited"])
async def test_a_read_that_waits_to_be_sent_again_is_not(tmp_path: Path, front: Any, name: str) -> None:
    async with gateway_of(tmp_path) as (gateway, api), front(gateway, called(name)) as leave:
        await until(lambda: len(api.requests) == 1)
        await leave()
        async with asyncio.timeout(AT_ONCE_S):
            await until(lambda: not gateway._running._tasks)
        assert len(api.requests) == 1
    assert recorded(tmp_path) == [(name, "cancelled", "cancelled")]


@pytest.mark.parametrize("front", [over_mcp, over_mcp_by_notification], ids=lambda one: one.__name__)
async def test_a_read_that_took_too_long_is_not_sent_again_for_a_client_that_left(tmp_path: Path, front: Any) -> None:
    """The gateway itself gives the first attempt up; the client leaves during the second."""
    retried = {"timeouts": {"first_byte": "200ms", "total": "60s"}, "retries": {"attempts": 10, "budget": "100%"}}

    async with gateway_of(tmp_path, **retried) as (gateway, api), front(gateway, SILENT) as leave:
        await until(lambda: len(api.requests) >= 2)
        await leave()
        await until(lambda: not gateway._running._tasks)
        sent = len(api.requests)
        await asyncio.sleep(0.5)  # more than an attempt and its pause
        assert (len(api.requests), api.open) == (sent, 0)
    assert recorded(tmp_path) == [(SILENT.name, "cancelled", "cancelled")]


async def test_an_operation_that_is_followed_is_called_off_at_the_service(tmp_path: Path) -> None:
    async with gateway_of(tmp_path) as (gateway, api), over_mcp(gateway, called("slow__get_job")) as leave:
        await until(lambda: api.requests.count("GET /jobs/1") > 1)
        await leave()
        async with asyncio.timeout(AT_ONCE_S):
            await until(lambda: "DELETE /jobs/1" in api.requests)
        await until(lambda: not gateway._running._tasks)
        assert api.requests[-1] == "DELETE /jobs/1"
    assert recorded(tmp_path) == [("slow__get_job", "cancelled", "cancelled")]


@pytest.mark.parametrize("name", ["slow__create_silent", "graph__change"])
@pytest.mark.parametrize("front", [over_mcp, over_mcp_by_notification, over_tool_calls], ids=lambda one: one.__name__)
async def test_a_write_goes_to_its_end(tmp_path: Path, front: Any, name: str) -> None:
    calls = 2 if front is over_tool_calls else 1

    async with gateway_of(tmp_path) as (gateway, api), front(gateway, called(name)) as leave:
        await until(lambda: api.open == calls)
        await leave()
        await asyncio.sleep(0.2)
        assert (api.open, api.closed) == (calls, 0)
        api.answers.set()
        await until(lambda: not gateway._running._tasks)
        assert len(api.requests) == calls
    statuses = {status for _, status, _ in recorded(tmp_path)}
    assert statuses == ({"ok"} if name == "slow__create_silent" else {"error"})


async def test_a_write_whose_client_left_is_not_sent_again(tmp_path: Path) -> None:
    """503 says that nothing was done, and PUT may be repeated; but the client may be doing that itself by now."""

    async with gateway_of(tmp_path) as (gateway, api), over_mcp(gateway, called("slow__put_busy")) as leave:
        await until(lambda: len(api.requests) == 1)
        await leave()
        await until(lambda: not gateway._running._tasks)
        assert len(api.requests) == 1
    assert recorded(tmp_path) == [("slow__put_busy", "error", "upstream_error")]


async def test_a_call_whose_client_left_before_it_was_sent_is_not_sent(tmp_path: Path) -> None:
    async with gateway_of(tmp_path) as (gateway, api):
        for name in ("slow__create_silent", SILENT.name):
            caller_connection = CallerConnection()
            caller_connection.leave()
            envelope = await gateway.call(name, {}, principal="bot", caller_connection=caller_connection)
            assert envelope.error is not None
            assert (envelope.status, envelope.error.code) == ("cancelled", "cancelled")
        assert not api.requests


@pytest.mark.parametrize(("name", "status"), [(SILENT.name, "cancelled"), ("slow__create_silent", "error")])
async def test_a_call_that_is_cancelled_by_its_id_is_broken_off(tmp_path: Path, name: str, status: str) -> None:
    """REST. A write may have taken effect."""

    async with (
        gateway_of(tmp_path) as (gateway, api),
        listening(App(gateway)) as url,
        http(url) as client,
    ):
        made = (await client.post(f"/v1/tools/{name}/call", json={"wait": 0})).json()
        await until(lambda: api.open == 1)
        async with asyncio.timeout(AT_ONCE_S):
            told = (await client.post(f"/v1/calls/{made['call_id']}/cancel")).json()
            await until(lambda: api.closed == 1)
        kept = (await ended(client, made["call_id"])).json()
        assert told["status"] == kept["status"] == status
        assert kept["error"]["code"] == ("cancelled" if status == "cancelled" else "outcome_unknown")
    code = "cancelled" if status == "cancelled" else "outcome_unknown"
    assert recorded(tmp_path) == [(name, status, code)]


async def test_pages_are_read_no_further_for_a_call_that_is_cancelled_by_its_id(tmp_path: Path) -> None:
    async with (
        gateway_of(tmp_path) as (gateway, api),
        listening(App(gateway)) as url,
        http(url) as client,
    ):
        body = {"wait": 0, "arguments": {"_answer": {"pages": 5}}}
        made = (await client.post("/v1/tools/slow__list_pages/call", json=body)).json()
        await until(lambda: api.open == 1)
        async with asyncio.timeout(AT_ONCE_S):
            told = (await client.post(f"/v1/calls/{made['call_id']}/cancel")).json()
            await until(lambda: api.closed == 1)
        assert (told["status"], told["data"]["items"], told["meta"]["truncated"]) == ("ok", [1, 2], True)
        assert len(api.requests) == 2
    page = "slow__list_pages"
    assert recorded(tmp_path) == [(page, "ok", ""), (page, "cancelled", "cancelled")]


async def test_those_who_share_an_answer_wait_for_it_only_as_long_as_their_clients_do(tmp_path: Path) -> None:
    """Two clients ask the same of a tool whose answers are kept. The one that asked first leaves, and then the other."""

    async with gateway_of(tmp_path) as (gateway, api):
        presences = [CallerConnection(), CallerConnection()]
        asking = [
            asyncio.create_task(gateway.call("slow__get_spare", {}, principal="bot", caller_connection=one))
            for one in presences
        ]
        await until(lambda: api.open == 1)
        for number, caller_connection in enumerate(presences, 1):
            await until(lambda: len(api.requests) == number and api.open == 1)  # noqa: B023 - it is awaited here
            caller_connection.leave()
            envelope = await asking[number - 1]
            assert envelope.status == "cancelled"
        assert len(api.requests) == 2  # the second asked for itself once the first had left
    assert recorded(tmp_path) == [("slow__get_spare", "cancelled", "cancelled")] * 2
