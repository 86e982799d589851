"""/metrics: what a scraper reads, that it adds up, and that it names nobody and nothing."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import client
from tests.gateway.gateways import FakeGateway
from tests.gateway.governed import project, upstream
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.prometheus import Snapshot, rendered
from toolgen.model.call import Call, Principal
from toolgen.model.result import Error, Failed, Refused, Success
from toolgen.model.tool import absent

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"},
        {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "when": "args.to == 'eve'", "verdict": "deny"},
    ]
}
CALL = Call(id="call_1", tool=absent("shop__x"), arguments={}, principal=Principal(id="bot"))
_NAME, _LABEL = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*"'
_SAMPLE = re.compile(rf"({_NAME})\{{({_LABEL}(?:,{_LABEL})*)?\}} (\S+)")


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample, read as strictly as the format is written down: a type before the samples of a family, no sample twice."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    families: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in families
            families[name] = kind
            continue
        if line.startswith("# HELP "):
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample is not None, line
        family = re.sub(r"_(?:bucket|sum|count)$", "", sample[1])
        assert sample[1] in families or families.get(family) == "histogram", line
        labels = frozenset((label, value) for label, value in re.findall(r'([a-zA-Z_]+)="([^"]*)"', sample[2] or ""))
        assert (sample[1], labels) not in found, line
        found[sample[1], labels] = float(sample[3])
    return found


def value(samples: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    """The sum of a metric's samples with these labels."""
    return sum(number for (found, others), number in samples.items() if found == name and labels.items() <= set(others))


async def test_calls_are_counted_by_how_they_ended_and_name_nobody(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        path = project(tmp_path / "p", server, POLICY)
        async with asyncio.timeout(120), Gateway.load(path) as gateway:
            transport = httpx.ASGITransport(App(gateway))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                key = {"authorization": "Bearer key-of-bot", "x-conversation-id": "canary-talk", "user-agent": "canary"}
                for tool, body in (
                    ("orders__get_health", {}),
                    ("orders__check_fraud", {"arguments": {"order": "canary-argument"}}),
                    ("orders__send_mail", {"arguments": {"to": "eve"}}),
                    ("orders__canary_tool", {}),
                ):
                    await http.post(f"/v1/tools/{tool}/call", json=body, headers=key)
                await http.get("/v1/tools", headers={"authorization": "Bearer canary-key"})
                seen.answers.clear()
                waiting = asyncio.create_task(gateway.call("orders__get_health", {}, principal="bot"))
                await asyncio.to_thread(seen.reached, 3)
                answer = await http.get("/metrics")
                seen.answers.set()
                await waiting
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples = read(answer.text)
        assert value(samples, "toolgen_calls_total") == 4
        assert value(samples, "toolgen_calls_total", status="ok", code="") == 2
        assert value(samples, "toolgen_calls_total", status="refused", code="forbidden") == 1
        assert value(samples, "toolgen_calls_total", status="refused", code="unknown_tool") == 1
        assert value(samples, "toolgen_calls_in_flight") == 1
        assert value(samples, "toolgen_call_duration_seconds_count", status="ok") == 2
        assert value(samples, "toolgen_call_duration_seconds_bucket", status="refused", le="+Inf") == 2
        assert value(samples, "toolgen_http_responses_total", status="401") == 1
        assert value(samples, "toolgen_http_responses_total", status="200") == 2
        assert value(samples, "toolgen_ready") == 1
        assert value(samples, "process_resident_memory_bytes") > 1_000_000
        told = answer.text.lower()
        assert [word for word in ("canary", "orders", "bot", "127.0.0.1", "mail", "acme") if word in told] == []


async def test_a_gateway_that_takes_no_calls_says_so() -> None:
    async with client(FakeGateway(reasons=("the disk is full",)), key=None) as http:
        answer = await http.get("/metrics")
        assert value(read(answer.text), "toolgen_ready") == 0
        assert "disk" not in answer.text
        assert (await http.post("/metrics")).status_code == 405


def test_a_histogram_adds_up() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.3, 100.0):
        metrics.begin()
        metrics.end(CALL, Success(data=None), seconds)
    samples = read(rendered(metrics, Snapshot(), labels={"worker": "w"}).decode())
    counts = {
        bound: value(samples, "toolgen_call_duration_seconds_bucket", le=bound)
        for bound in ("0.001", "0.25", "0.5", "60", "+Inf")
    }
    assert counts == {"0.001": 2, "0.25": 2, "0.5": 3, "60": 3, "+Inf": 4}
    assert value(samples, "toolgen_call_duration_seconds_sum") == pytest.approx(100.3015)
    assert value(samples, "toolgen_calls_in_flight") == 0


def test_labels_cannot_grow_without_end_or_break_the_format() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.begin()
        metrics.end(CALL, Failed(error=Error(code=f"x{number}", message="")), 0.1)
    metrics.begin()
    metrics.end(CALL, Refused(error=Error(code='a"\n\\', message="")), 0.1)
    text = rendered(metrics, Snapshot(), labels={"worker": 'w"\n\\'}).decode()
    samples = read(text)
    assert len([1 for name, _ in samples if name == "toolgen_calls_total"]) <= 70
    assert value(samples, "toolgen_calls_total") == 1001
