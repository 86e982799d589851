"""Traces, metrics and log lines as a collector receives them over OTLP/HTTP, and what happens while it does not."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.gateway.clients import BASE, JSON, bearer
from tests.gateway.test_traces import OTHER, PARENT, REST, SPAN, TRACE, api, key, mcp, project
from tests.projects import KEY
from tests.stream_servers import stream_server
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.core.tenant import working_for
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.telemetry.exporter import Telemetry
from toolgen.gateway.telemetry.messages import OtlpEncoder
from toolgen.gateway.telemetry.span_encoding import attribute, described, encoded_span, failure, trace_state
from toolgen.gateway.telemetry.spans import SpanQueue
from toolgen.model.trace_context import Trace

__all__ = ["api", "key"]  # the fixtures
CANARY = "canary-header"


class Collector:
    """Decodes what it is sent. `statuses` are what it answers, the last of them again and again."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses or (200,))
        self.heads: list[bytes] = []
        self.traces, self.metrics, self.logs = list[Any](), list[Any](), list[Any]()
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Collector]:
        async with stream_server(self._serve) as self.port:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"(?i)content-length: (\d+)", head)
        body = await reader.readexactly(int(found[1]) if found else 0)
        self.heads.append(head)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status == 200:
            self._take(head.split(b" ")[1], body)
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()

    def _take(self, path: bytes, body: bytes) -> None:
        match path:
            case b"/v1/traces":
                self.traces.append(ExportTraceServiceRequest.FromString(body))
            case b"/v1/metrics":
                self.metrics.append(ExportMetricsServiceRequest.FromString(body))
            case b"/v1/logs":
                self.logs.append(ExportLogsServiceRequest.FromString(body))

    def spans(self) -> list[Any]:
        return [
            span
            for one in self.traces
            for group in one.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]


def attributes(of: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in of.attributes}


@asynccontextmanager
async def served(
    tmp_path: Path, url: str, port: int, **telemetry: Any
) -> AsyncIterator[tuple[Gateway, Telemetry, httpx.AsyncClient]]:
    path = project(tmp_path, url, trace=True)
    document = json.loads(path.read_text())
    document["telemetry"] = {"otlp": f"http://127.0.0.1:{port}", **telemetry}
    path.write_text(json.dumps(document))
    async with Gateway.load(path) as gateway:
        exporter = gateway.monitoring._telemetry
        assert exporter is not None
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer(KEY) | JSON) as client:
            yield gateway, exporter, client


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes more than 3 s to import the client of the last request."""
    monkeypatch.setattr("toolgen.gateway.telemetry.exporter._LAST_S", 60.0)


async def test_a_call_over_mcp_has_spans_of_the_request_and_of_its_execution(tmp_path: Path, api: Any) -> None:
    url, told = api
    async with Collector().serving() as collector:
        async with served(tmp_path, url, collector.port) as (_, _exporter, client):
            call = mcp(traceparent=PARENT, tracestate="rojo=1")[1]
            assert (await client.post("/mcp", json=call)).status_code == 200
        request, execution = sorted(collector.spans(), key=lambda one: one.kind)
    assert (request.name, request.kind) == ("tools/call pets__get_pet", 2)
    assert (request.trace_id.hex(), request.parent_span_id.hex(), request.trace_state) == (TRACE, SPAN, "rojo=1")
    assert attributes(request)["gen_ai.operation.name"] == "execute_tool"
    assert (execution.name, execution.kind) == ("execute_tool pets__get_pet", 3)
    assert (execution.trace_id, execution.parent_span_id) == (request.trace_id, request.span_id)
    assert attributes(execution) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pets__get_pet",
        "toolgen.source": "pets",
        "http.response.status_code": 200,
    }
    assert request.start_time_unix_nano <= execution.start_time_unix_nano <= execution.end_time_unix_nano
    assert told == [{"traceparent": f"00-{TRACE}-{execution.span_id.hex()}-01", "tracestate": "rojo=1"}]
    resource = attributes(collector.traces[0].resource_spans[0].resource)
    assert resource["service.name"] == "toolgen"
    assert resource["service.instance.id"]


async def test_a_call_over_rest_has_them_too_and_a_trace_that_is_not_kept_has_none(tmp_path: Path, api: Any) -> None:
    url, told = api
    async with Collector().serving() as collector:
        async with served(tmp_path, url, collector.port) as (_, _exporter, client):
            for headers in ({}, {"traceparent": OTHER}):
                assert (await client.post(REST[0], json=REST[1], headers=headers)).status_code == 200
        request, execution = sorted(collector.spans(), key=lambda one: one.kind)
    assert request.name == "POST /v1/tools/{name}/call"
    assert not request.parent_span_id
    assert execution.parent_span_id == request.span_id
    assert told[1]["traceparent"].startswith(OTHER[:36])
    assert told[1]["traceparent"].endswith("-00")


async def test_metrics_and_log_lines_are_sent_and_nothing_that_was_said(
    tmp_path: Path, api: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLLECTOR_TOKEN", CANARY)
    headers = {"Authorization": "Bearer ${env:COLLECTOR_TOKEN}"}
    async with (
        Collector().serving() as collector,
        served(tmp_path, api[0], collector.port, headers=headers) as (_, _exporter, client),
    ):
        await client.post(REST[0], json={"arguments": {"petId": 1234567}})
        logging.getLogger("toolgen.trial").warning("one %s", "line")
    metrics = {one.name: one for one in collector.metrics[-1].resource_metrics[0].scope_metrics[0].metrics}
    calls = {
        (attributes(one)["status"], attributes(one)["code"]): one.as_double
        for one in metrics["toolgen_calls_total"].sum.data_points
    }
    assert calls["ok", 0] == 1
    histogram = metrics["toolgen_call_duration_seconds"].histogram.data_points[0]
    assert len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1
    lines = [
        one.body.string_value
        for request in collector.logs
        for one in request.resource_logs[0].scope_logs[0].log_records
    ]
    assert "one line" in lines
    everything = b"".join(one.SerializeToString() for one in (*collector.traces, *collector.metrics, *collector.logs))
    assert b"1234567" not in everything
    assert CANARY.encode() not in everything
    assert all(f"Bearer {CANARY}".encode() in head for head in collector.heads)


async def test_a_collector_that_is_down_costs_no_call_and_gets_the_rest_later(tmp_path: Path, api: Any) -> None:
    async with Collector(503, 503, 200).serving() as collector:
        async with served(tmp_path, api[0], collector.port, signals=["traces"]) as (gateway, exporter, client):
            assert (await client.post(REST[0], json=REST[1])).status_code == 200
            assert not await exporter.flush(measure=False)
            assert not await exporter.flush(measure=False)
            assert await exporter.flush(measure=False)
            assert exporter.counts.failed["traces"] == 2
            assert exporter.counts.sent["traces"] == 2
            text = (await gateway.operations.measured()).decode()
        assert len(collector.spans()) == 2
    assert re.search(r'toolgen_telemetry_failed_total\{signal="traces",worker="[^"]+"\} 2\n', text)


async def test_what_a_collector_does_not_understand_is_not_sent_again(tmp_path: Path, api: Any) -> None:
    async with (
        Collector(400).serving() as collector,
        served(tmp_path, api[0], collector.port, signals=["traces"]) as (_, exporter, client),
    ):
        await client.post(REST[0], json=REST[1])
        assert await exporter.flush(measure=False)
        assert await exporter.flush(measure=False)
        assert len(collector.heads) == 1
        assert exporter.counts.failed["traces"] == 2


async def test_traces_that_are_left_out_have_no_spans_and_the_traces_of_callers_have(tmp_path: Path, api: Any) -> None:
    url, told = api
    async with Collector().serving() as collector:
        async with served(tmp_path, url, collector.port, sample=0.0) as (_, _exporter, client):
            assert (await client.post(REST[0], json=REST[1])).status_code == 200
            assert (await client.post("/mcp", json=mcp()[1])).status_code == 200
            assert (await client.post("/mcp", json=mcp(traceparent=PARENT)[1])).status_code == 200
        assert sorted(span.trace_id.hex() for span in collector.spans()) == [TRACE, TRACE]
    assert [TRACE in one.get("traceparent", "") for one in told] == [False, False, True]


async def test_stages_have_spans_below_the_request_and_say_which_one_refused(tmp_path: Path, api: Any) -> None:
    url, _ = api
    async with (
        Collector().serving() as collector,
        served(tmp_path, url, collector.port, stages=True) as (_, _exporter, client),
    ):
        assert (await client.post(REST[0], json=REST[1])).status_code == 200
        refused = await client.post(REST[0], json={"arguments": {"petId": "no number"}})
        assert refused.status_code == 400
        assert (await client.post(REST[0], json=REST[1], headers={"traceparent": OTHER})).status_code == 200
    requests = [one for one in collector.spans() if one.kind == 2]
    assert len(requests) == 2
    for request in requests:
        below = [one for one in collector.spans() if one.parent_span_id == request.span_id]
        stages = {attributes(one)["toolgen.stage"]: one for one in below if one.kind == 1}
        assert {"record", "limit", "access", "arguments"} <= set(stages)
        assert all(one.name == f"stage {name}" for name, one in stages.items())
        ended = {name: attributes(one).get("error.type", "") for name, one in stages.items()}
        executed = [one.name for one in below if one.kind == 3]
        if executed:
            assert (executed, set(ended.values())) == (["execute_tool pets__get_pet"], {""})
            assert "redact" in stages
        else:
            assert {ended[name] for name in ("record", "limit", "access", "arguments")} == {"validation"}
            assert {"inspect", "deliver"}.isdisjoint(stages)


def test_a_share_of_the_traces_has_spans() -> None:
    queue = SpanQueue(sample=0.25)
    for _ in range(4000):
        queue.of_rest_call(None).end("")
    assert 800 < queue.waiting < 1200  # six standard deviations


def test_spans_are_read_back_by_the_messages_of_opentelemetry() -> None:
    trace = Trace(trace_id="ab" * 16, span_id="cd" * 8, parent_id="ef" * 8, flags=1, state="rojo=1")
    long, odd = "é" * 300, "\ud800 😀"
    values: tuple[tuple[str, str | int], ...] = ((long, long), ("n", -1), ("z", 0), ("b", 2**62), ("o", odd), ("", ""))
    alone = Trace(trace_id="00" * 15 + "01", span_id="01" * 8, flags=0x101)
    more = trace_state("rojo=1") + failure("upstream")
    given = [
        encoded_span(trace, 1, 2**63, described("a", 2, values) + more),
        encoded_span(alone, 1, 2**63, described(long, 3, ())),
    ]
    request = ExportTraceServiceRequest.FromString(OtlpEncoder("worker", 1.0).spans(given))
    (resource,) = request.resource_spans
    (group,) = resource.scope_spans
    first, second = group.spans
    assert (attributes(resource.resource)["service.instance.id"], group.scope.name) == ("worker", "toolgen")
    assert (first.trace_id.hex(), first.span_id.hex(), first.parent_span_id.hex()) == ("ab" * 16, "cd" * 8, "ef" * 8)
    assert (first.trace_state, first.name, first.kind, first.flags) == ("rojo=1", "a", 2, 1)
    assert (first.start_time_unix_nano, first.end_time_unix_nano, first.status.code) == (1, 2**63, 2)
    read = [
        (one.key, one.value.string_value if one.value.HasField("string_value") else one.value.int_value)
        for one in first.attributes
    ]
    assert read == [
        (long, long),
        ("n", -1),
        ("z", 0),
        ("b", 2**62),
        ("o", "? 😀"),
        ("", ""),
        ("error.type", "upstream"),
    ]
    assert (second.parent_span_id, second.trace_state, second.name, second.kind) == (b"", "", long, 3)
    assert (second.status.code, second.flags) == (0, 0x101)


def test_spans_and_attributes_of_every_length_are_read_back() -> None:
    trace = Trace(trace_id="ab" * 16, span_id="cd" * 8, flags=1)
    lengths = [*range(200), *range(16_200, 16_400)]
    given = [encoded_span(trace, 1, 2, attribute("name", "x" * length)) for length in lengths]
    request = ExportTraceServiceRequest.FromString(OtlpEncoder("worker", 1.0).spans(given))
    (group,) = request.resource_spans[0].scope_spans
    assert [attributes(one) for one in group.spans] == [{"name": "x" * length or 0} for length in lengths]
    size = group.ByteSize()
    group.ClearField("spans")
    assert size - group.ByteSize() == sum(map(len, given))  # no length takes more bytes than needed


async def test_a_collector_of_a_tenant_gets_no_line_of_another(tmp_path: Path, api: Any) -> None:
    url, _ = api
    async with Collector().serving() as collector:
        path = project(tmp_path, url, trace=True)
        document = json.loads(path.read_text())
        document["telemetry"] = {"otlp": f"http://127.0.0.1:{collector.port}"}
        path.write_text(json.dumps(document))
        with working_for("acme"):
            async with Gateway.load(path, tenant="acme") as gateway:
                exporter = gateway.monitoring._telemetry
                assert exporter is not None
                for name in ("acme", "globex", ""):
                    with working_for(name):
                        logging.getLogger("toolgen.somewhere").warning("a line of %s", name or "nobody")
                await exporter.flush(measure=False)
        (group, *_) = [one for request in collector.logs for one in request.resource_logs]
        assert attributes(group.resource)["toolgen.tenant"] == "acme"
        said = [one.body.string_value for scope in group.scope_logs for one in scope.log_records]
        assert [one for one in said if one.startswith("a line")] == ["a line of acme"]


def test_the_oldest_spans_are_dropped_and_counted_when_there_is_no_room() -> None:
    queue = SpanQueue(size=3)
    trace = Trace(trace_id="ab" * 16, span_id="cd" * 8, flags=1)
    for _ in range(5):
        queue.of_rest_call(trace).end("")
    taken = queue.take(10)
    assert (len(taken), queue.dropped) == (3, 2)
    queue.of_rest_call(trace).end("500")
    queue.put_back(taken)
    kept = queue.take(10)
    assert [b"error.type" in fields for *_, fields in kept] == [False, False, True]
    assert queue.dropped == 3


async def test_spans_are_kept_when_the_gateway_stops_while_they_are_sent(tmp_path: Path, api: Any) -> None:
    url, _ = api
    held = asyncio.Event()

    async def hold(*_: object) -> bool:
        held.set()
        await asyncio.Event().wait()
        return True

    async with Collector().serving() as collector:
        path = project(tmp_path, url, trace=True)
        document = json.loads(path.read_text())
        document["telemetry"] = {"otlp": f"http://127.0.0.1:{collector.port}", "signals": ["traces"]}
        path.write_text(json.dumps(document))
        async with Gateway.load(path) as gateway:
            exporter = gateway.monitoring._telemetry
            assert exporter is not None
            for _ in range(1000):
                exporter.spans.of_rest_call(None).end("")
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(exporter, "_sent", hold)
                flushing = asyncio.create_task(exporter.flush(measure=False))
                await held.wait()
                flushing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await flushing
            assert exporter.spans.waiting == 1000
        sent = [
            span for request in collector.traces for one in request.resource_spans for span in one.scope_spans[0].spans
        ]
        assert len({span.span_id for span in sent}) == 1000


@pytest.mark.parametrize(
    "telemetry",
    [
        {},
        {"otlp": ""},
        {"otlp": "http://127.0.0.1:4318", "sample": 1.5},
        {"otlp": "127.0.0.1:4318"},
        {"otlp": "http://user:canary@127.0.0.1:4318"},
        {"otlp": "http://127.0.0.1:4318?key=canary"},
        {"otlp": "grpc://127.0.0.1:4317"},
        {"otlp": "http://127.0.0.1:4318", "signals": []},
        {"otlp": "http://127.0.0.1:4318", "signals": ["profiles"]},
        {"otlp": "http://127.0.0.1:4318", "headers": {"a b": "${env:A}"}},
        {"otlp": "http://127.0.0.1:4318", "headers": {"A": "${canary:A}"}},
        {"otlp": "http://127.0.0.1:4318", "agent": True},
    ],
)
def test_a_section_that_names_no_collector_is_refused(tmp_path: Path, telemetry: dict[str, Any]) -> None:
    path = project(tmp_path, "http://127.0.0.1:9", trace=False)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"telemetry": telemetry}))
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert "user:canary" not in str(caught.value)
