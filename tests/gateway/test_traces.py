"""Trace context from a caller to the record and to the system behind a tool."""

from __future__ import annotations

import http.server
import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import BASE, JSON, bearer
from tests.projects import KEY, audit_entries, make_project
from tests.services.local import LocalServer, running
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.frontends.http.app import App
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.frontends.python.gateway import Gateway

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
OTHER = f"00-{'ab' * 16}-{'cd' * 8}-00"
REST = ("/v1/tools/pets__get_pet/call", {"arguments": {"petId": 5}})


class Api(http.server.BaseHTTPRequestHandler):
    """Keeps what it was told about traces."""

    told: list[dict[str, str]]

    def do_GET(self) -> None:
        self.told.append(
            {name.lower(): value for name, value in self.headers.items() if name.lower().startswith("trace")}
        )
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def api() -> Iterator[tuple[str, list[dict[str, str]]]]:
    told: list[dict[str, str]] = []
    server = LocalServer(("127.0.0.1", 0), type("Own", (Api,), {"told": told}))
    with running(server):
        yield server.url, told


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary-key")


def project(root: Path, server: str, *, trace: bool) -> Path:
    path = make_project(root / "project", server=server)
    document = json.loads(path.read_text())
    document["sources"]["pets"]["trace"] = trace
    path.write_text(json.dumps(document))
    return path


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer(KEY) | JSON) as client:
            yield gateway, client


def mcp(**meta: object) -> tuple[str, dict[str, Any]]:
    params = {"name": "pets__get_pet", "arguments": {"petId": 5}, "_meta": meta}
    return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def recorded(gateway: Gateway) -> list[object]:
    """What the intents have for their parent, oldest first."""
    return [entry.get("parent") for entry in reversed(audit_entries(gateway)) if entry["event"] == "intent"]


@pytest.mark.parametrize("trace", [True, False])
@pytest.mark.parametrize(
    ("sent", "headers"),
    [
        (REST, {"traceparent": PARENT, "tracestate": "rojo=1"}),
        (("/v1/tool_calls", [{"type": "tool_call", "id": "1", "name": "pets__get_pet", "args": {"petId": 5}}]),
         {"traceparent": PARENT, "tracestate": "rojo=1"}),
        (mcp(traceparent=PARENT, tracestate="rojo=1"), {}),
        (mcp(), {"traceparent": PARENT, "tracestate": "rojo=1"}),
        (mcp(traceparent=PARENT, tracestate="rojo=1"), {"traceparent": OTHER}),
        (mcp(traceparent="none"), {"traceparent": PARENT, "tracestate": "rojo=1"}),
    ],
)  # fmt: skip
async def test_the_trace_of_a_call_is_on_record_and_told_where_the_source_says_so(
    tmp_path: Path, api: tuple[str, list[dict[str, str]]], sent: Any, headers: dict[str, str], trace: bool
) -> None:
    url, told = api
    async with served(project(tmp_path, url, trace=trace)) as (gateway, client):
        answer = await client.post(sent[0], json=sent[1], headers=headers)
        assert answer.status_code == 200, answer.text
        assert recorded(gateway) == [PARENT]
    assert len(told) == 1
    if not trace:
        assert told == [{}]
        return
    version, trace_id, span, flags = told[0]["traceparent"].split("-")
    assert (version, trace_id, flags, told[0]["tracestate"]) == ("00", TRACE, "01", "rojo=1")
    assert span != SPAN


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("traceparent", "00-nothing")],
        [("traceparent", PARENT), ("traceparent", OTHER)],
        [("traceparent", PARENT + ", " + OTHER)],
        [("tracestate", "rojo=1")],
    ],
)
async def test_no_trace_or_a_broken_one_is_none(
    tmp_path: Path, api: tuple[str, list[dict[str, str]]], headers: list[tuple[str, str]]
) -> None:
    url, told = api
    async with served(project(tmp_path, url, trace=True)) as (gateway, client):
        answer = await client.post(REST[0], json=REST[1], headers=[*client.headers.items(), *headers])
        assert answer.status_code == 200
        assert recorded(gateway) == [None]
    assert told == [{}]


async def test_each_line_of_stdio_has_a_trace_of_its_own(tmp_path: Path, api: tuple[str, list[dict[str, str]]]) -> None:
    url, told = api
    lines = [json.dumps(mcp(**meta)[1]).encode() + b"\n" for meta in ({"traceparent": PARENT}, {})]
    async with Gateway.load(project(tmp_path, url, trace=True)) as gateway:
        for line in lines:
            sink = io.BytesIO()
            await serve_streams(gateway, gateway.principal("bot"), io.BytesIO(line), sink)
            assert b'"isError":false' in sink.getvalue()
        assert recorded(gateway) == [PARENT, None]
    assert ["traceparent" in one for one in told] == [True, False]


async def test_an_argument_never_speaks_for_the_gateways_trace(
    tmp_path: Path, api: tuple[str, list[dict[str, str]]]
) -> None:
    url, told = api
    path = project(tmp_path, url, trace=True)
    description = path.parent / "specs" / "pets.json"
    document = json.loads(description.read_text())
    parameter = {"name": "traceparent", "in": "header", "schema": {"type": "string"}}
    document["paths"]["/pets/{petId}"]["get"]["parameters"].append(parameter)
    description.write_text(json.dumps(document))
    async with served(path) as (_, client):
        body = {"arguments": {"petId": 5, "traceparent": OTHER}}
        assert (await client.post(REST[0], json=body, headers={"traceparent": PARENT})).status_code == 200
        assert (await client.post(REST[0], json=body)).status_code == 200
    assert [one["traceparent"].split("-")[1] for one in told] == [TRACE, OTHER.split("-")[1]]


@pytest.mark.parametrize("key", ["trace", "http2"])
def test_only_sources_over_http_are_told_and_others_refuse_the_word(key: str, tmp_path: Path) -> None:
    path = tmp_path / "toolgen.yaml"
    path.write_text(f"sources:\n  shop:\n    sql: 'sqlite:///shop.db'\n    {key}: true\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"{key}: belongs to openapi and graphql") as caught:
        load(path)
    assert "toolgen.yaml:4" in str(caught.value)
