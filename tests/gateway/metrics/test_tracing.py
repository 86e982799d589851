"""Spans of MCP requests as OpenTelemetry is told of them: their names, their place, and nothing that a caller or a system said."""

from __future__ import annotations

import io
import json
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace as otel
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags

from tests.gateway.clients import BASE, JSON, bearer
from tests.gateway.test_traces import PARENT, SPAN, TRACE, api, key, mcp, project, recorded
from tests.projects import KEY
from toolgen.core.errors import ConfigError
from toolgen.frontends.http.app import App
from toolgen.frontends.mcp.stdio import serve_streams
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.metrics.opentelemetry import OpenTelemetry

__all__ = ["api", "key"]  # the fixtures
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


class Kept(otel.Span):
    """A span that keeps everything it is told."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self.options = name, options
        self.attributes = dict(options.get("attributes") or {})
        self.parent = otel.get_current_span(options.get("context")).get_span_context()
        self.said: list[Any] = []
        self.ended = 0
        trace_id = self.parent.trace_id or secrets.randbits(127) + 1
        self.place = SpanContext(
            trace_id,
            secrets.randbits(63) + 1,
            is_remote=False,
            trace_flags=TraceFlags(1),
            trace_state=self.parent.trace_state,
        )

    def end(self, end_time: int | None = None) -> None:
        self.ended += 1

    def get_span_context(self) -> SpanContext:
        return self.place

    def set_attributes(self, attributes: Any) -> None:
        self.attributes |= attributes

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def add_event(self, name: str, attributes: Any = None, timestamp: Any = None) -> None:
        self.said.append((name, attributes))

    def update_name(self, name: str) -> None:
        self.name = name

    def is_recording(self) -> bool:
        return True

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.said.append((status.status_code, status.description, description))

    def record_exception(self, exception: BaseException, *args: Any, **options: Any) -> None:
        self.said.append(repr(exception))


@dataclass
class Provider(otel.TracerProvider):
    """The spans that were begun."""

    spans: list[Kept] = field(default_factory=list)

    def get_tracer(self, *_: Any, **__: Any) -> otel.Tracer:
        spans = self.spans

        class Tracer(otel.Tracer):
            def start_span(self, name: str, **options: Any) -> otel.Span:  # type: ignore[override]
                spans.append(Kept(name, options))
                return spans[-1]

            def start_as_current_span(self, *_: Any, **__: Any) -> Any:
                raise AssertionError("spans of requests that overlap have no current one")

        return Tracer()


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient, list[Kept]]]:
    provider = Provider()
    gateway = Gateway.load(path)
    gateway.operations.spans = OpenTelemetry(provider)
    async with gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer(KEY) | JSON) as client:
            yield gateway, client, provider.spans


def message(method: str, params: dict[str, Any] | None = None, request: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request, "method": method, "params": params or {}}


async def test_a_call_has_a_span_between_its_callers_and_the_systems(tmp_path: Path, api: Any) -> None:
    url, told = api
    async with served(project(tmp_path, url, trace=True)) as (gateway, client, spans):
        call = mcp(**META, traceparent=PARENT, tracestate="rojo=1")[1]
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "pets__get_pet"}
        assert (await client.post("/mcp", json=call, headers=headers)).status_code == 200
        (span,) = spans
        assert (span.name, span.options["kind"], span.ended) == ("tools/call pets__get_pet", SpanKind.SERVER, 1)
        assert span.attributes == {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": "2026-07-28",
            "jsonrpc.request.id": "1",
            "gen_ai.tool.name": "pets__get_pet",
            "gen_ai.operation.name": "execute_tool",
        }
        assert span.said == []
        assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
        assert span.parent.is_remote
        assert recorded(gateway) == [PARENT]
    assert told == [{"traceparent": f"00-{TRACE}-{span.place.span_id:016x}-01", "tracestate": "rojo=1"}]


async def test_a_request_without_a_trace_begins_one_that_is_on_record(tmp_path: Path, api: Any) -> None:
    url, told = api
    async with served(project(tmp_path, url, trace=True)) as (gateway, client, spans):
        headers = {"mcp-protocol-version": "2025-11-25"}
        assert (await client.post("/mcp", json=mcp()[1], headers=headers)).status_code == 200
        (span,) = spans
        assert not span.parent.is_valid
        assert span.attributes["mcp.protocol.version"] == "2025-11-25"
        own = f"00-{span.place.trace_id:032x}-{span.place.span_id:016x}-01"
        assert recorded(gateway) == [own]
    assert told == [{"traceparent": own}]


@pytest.mark.parametrize(
    ("sent", "name", "error"),
    [
        (message("tools/list"), "tools/list", ""),
        (message("ping"), "ping", ""),
        (message("tools/list", {"cursor": "made up"}), "tools/list", "-32602"),
        (message("canary-of-the-caller"), "other", "-32601"),
        (message("tools/call", {"name": "canary-of-the-caller"}), "tools/call", "tool_error"),
        (message("tools/call", {"name": "pets__delete_pet", "arguments": {"petId": 1}}), "tools/call", "tool_error"),
        (message("tools/call", {"name": "pets__get_pet"}), "tools/call pets__get_pet", "tool_error"),
    ],
)
async def test_what_went_wrong_is_said_by_its_code_and_in_the_metric_too(
    tmp_path: Path, api: Any, sent: dict[str, Any], name: str, error: str
) -> None:
    async with served(project(tmp_path, api[0], trace=True)) as (gateway, client, spans):
        await client.post("/mcp", json=sent)
        (span,) = spans
        assert (span.name, span.attributes.get("error.type", ""), span.ended) == (name, error, 1)
        assert [said[0] for said in span.said] == ([StatusCode.ERROR] if error else [])
        method = name.partition(" ")[0]
        labels = f'mcp_method_name="{method}",error_type="{error}"'
        counted = [
            line
            for line in (await gateway.operations.measured()).decode().splitlines()
            if labels in line and "_count" in line
        ]
        assert [line.rsplit(" ", 1)[1] for line in counted] == ["1"]
        assert "canary" not in (await gateway.operations.measured()).decode()


async def test_nothing_that_was_sent_or_answered_is_in_a_span(
    tmp_path: Path, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path, api[0], trace=True)
    monkeypatch.setenv("TEST_PETS_KEY", "canary-of-the-source")
    async with served(path) as (gateway, client, spans):
        headers = {"x-conversation-id": "canary-of-the-caller", "user-agent": "canary-of-the-caller"}
        calls = [
            message("tools/call", {"name": "pets__get_pet", "arguments": {"petId": 5, "note": "canary-of-the-caller"}}),
            message("tools/call", {"name": "pets__get_pet", "arguments": {"petId": "canary-of-the-caller"}}),
            message("tools/call", {"name": "shop__query", "arguments": {"sql": "SELECT 'canary' FROM canary"}}),
            message("tools/call", {"name": "shop__query", "arguments": {"sql": "SELECT email FROM customers"}}),
            message("resources/read", {"uri": "toolgen://canary-of-the-caller"}),
        ]
        for call in calls:
            await client.post("/mcp", json=call, headers=headers)
        await client.post("/mcp", json=calls[0], headers={"authorization": "Bearer canary-of-the-caller"})
        lines = b"".join(json.dumps(call).encode() + b"\n" for call in calls)
        await serve_streams(gateway, gateway.principal("bot"), io.BytesIO(lines), io.BytesIO())
    assert len(spans) == 2 * len(calls)
    told = repr([(span.name, span.options, span.attributes, span.said) for span in spans])
    assert "canary" not in told
    assert KEY not in told
    assert "example.com" not in told


def written(path: Path, spans: object) -> Path:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "gateway": {"spans": spans}}))
    return path


def test_spans_are_begun_only_where_the_project_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(tmp_path, "http://127.0.0.1:9", trace=False)
    assert Gateway.load(path).operations.spans is None
    assert isinstance(Gateway.load(written(path, True)).operations.spans, OpenTelemetry)
    monkeypatch.delitem(sys.modules, "toolgen.gateway.metrics.opentelemetry")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"install toolgen\[otel\]"):
        Gateway.load(path)


async def test_without_a_library_that_keeps_spans_the_callers_trace_is_passed_on(tmp_path: Path, api: Any) -> None:
    url, told = api
    async with Gateway.load(written(project(tmp_path, url, trace=True), True)) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer(KEY) | JSON) as client:
            assert (await client.post(*mcp(traceparent=PARENT)[:1], json=mcp(traceparent=PARENT)[1])).is_success
            assert (await client.post("/mcp", json=mcp()[1])).is_success
        assert recorded(gateway) == [PARENT, None]
    assert [one.get("traceparent", "--").split("-")[1] for one in told] == [TRACE, ""]
