"""Streams of a gateway: its record at a destination, from toolgen.yaml to the metrics."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import patient
from tests.audit.logs import write
from tests.cli.commands import served
from tests.gateway.audit.sinks.base import Entry, Sink
from tests.gateway.audit.sinks.http import LinesSink
from tests.projects import KEY, POLICY, make_project
from toolgen.audit.entry_stream import BatchSize, SentEntries
from toolgen.audit.reader import entries
from toolgen.config.settings import load
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.core.errors import ConfigError
from toolgen.frontends.console.log_verifier import Verification
from toolgen.frontends.python.gateway import Gateway
from toolgen.quality.doctor.streams import stream_faults

HEADERS = {"authorization": f"Bearer {KEY}"}


def configured(root: Path, sink: Sink, policy: dict[str, Any] | None = None) -> Path:
    path = make_project(root / "project", policy=POLICY | (policy or {}))
    document = json.loads(path.read_text())
    document["audit"] = {"stream": {"siem": sink.settings() | {"ca": str(sink.authority.path)}}}
    path.write_text(json.dumps(document))
    return path


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary-key")
    monkeypatch.setenv("SINK_SECRET", "right-secret")


async def called(gateway: Gateway, times: int = 1) -> None:
    for number in range(times):
        await gateway.call("pets__get_pet", {"petId": number}, principal="bot")


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - the sink is a task of this loop
            await asyncio.sleep(0.01)


def recorded(gateway: Gateway) -> list[Entry]:
    return [dict(entry) for entry in entries(gateway.settings.audit_dir)]


async def test_every_entry_of_a_gateway_arrives_without_a_secret(tmp_path: Path) -> None:
    sink = LinesSink(tmp_path)
    async with sink.serving(), Gateway.load(configured(tmp_path, sink)) as gateway:
        await called(gateway, 3)
        known = recorded(gateway)
        assert len(known) >= 6
        await until(lambda: len(sink.received) >= len(known))
        assert sink.received[: len(known)] == known
        text = (await gateway.operations.measured()).decode()
        for name in ("lag_seconds", "lag_entries", "set_aside_total"):
            assert re.search(rf'toolgen_audit_stream_{name}{{receiver="siem",worker="[^"]+"}} \d', text)
        assert not gateway.operations.warnings()
    assert "canary-key" not in json.dumps(sink.received)


async def test_a_gateway_whose_entries_do_not_arrive_says_so_and_takes_calls(tmp_path: Path) -> None:
    sink = LinesSink(tmp_path)
    sink.failing = "401"
    async with sink.serving(), Gateway.load(configured(tmp_path, sink)) as gateway:
        await called(gateway, 3)
        await until(lambda: bool(gateway.operations.warnings()))
        assert not gateway.operations.ready()
        (warning,) = gateway.operations.warnings()
        assert re.search(r"siem: .*\b401; \d+ ", warning)
        later = FixedClock(SystemClock().now() + 3600)
        (told,) = stream_faults(gateway.settings, later)
        assert re.fullmatch(r"stream siem: \d+ entries .*\b1 h old", told)
        assert not stream_faults(gateway.settings)  # a few seconds are no fault
    assert not sink.received


async def test_security_events_are_streamed(tmp_path: Path) -> None:
    sink = LinesSink(tmp_path)
    limits = [{"id": "slow", "per": ["principal"], "rate": "1/h", "tools": ["shop__query"]}]
    async with sink.serving(), Gateway.load(configured(tmp_path, sink, {"limits": limits})) as gateway:
        await gateway.callers.note_refusal("unauthenticated", "192.0.2.7")
        await gateway.callers.note_session("sign_in_refused", "ann", "192.0.2.7")
        await gateway.call("pets__delete_pet", {"petId": 1}, principal="bot")
        for _ in range(2):
            await gateway.call("shop__query", {"sql": "SELECT id FROM customers"}, principal="bot")
        verification = Verification(gateway.settings.audit_dir, SystemClock(), gateway.callers.note_verification)
        await _verified(verification)
        assert not verification.broken
        await _break(gateway.settings.audit_dir)
        await _verified(verification)
        assert verification.broken
        told = [(one["event"], one.get("code", ""), one["status"]) for one in recorded(gateway) if "status" in one]
        expected = [
            ("refusal", "unauthenticated", "refused"),
            ("session", "sign_in_refused", "refused"),
            ("outcome", "unknown_tool", "refused"),
            ("outcome", "rate_limited", "refused"),
            ("verification", "record_broken", "error"),
        ]
        assert [one for one in told if one in expected] == expected
        await until(lambda: any(one["event"] == "verification" for one in sink.received))
    streamed = [(one["event"], one.get("code", ""), one.get("status", "")) for one in sink.received]
    assert [one for one in streamed if one in expected] == expected


async def _verified(verification: Verification) -> None:
    assert verification.begin()
    await verification.ended(30)


async def _break(directory: Path) -> None:
    """A statement that no key signed, beside the log."""
    (directory / "gateway-9.checkpoints").write_text("{}\n", encoding="utf-8")


async def test_a_gateway_that_is_killed_while_it_streams_goes_on_where_it_stopped(tmp_path: Path) -> None:
    sink = LinesSink(tmp_path)
    query = {"arguments": {"sql": "SELECT 1"}}

    def call(url: str) -> None:
        answer = patient.post(f"{url}/v1/tools/shop__query/call", json=query, headers=HEADERS)
        assert answer.json()["status"] == "ok"

    async with sink.serving():
        path = configured(tmp_path, sink)
        directory = path.parent / "var" / "audit"
        place = path.parent / "var" / "state" / "streams" / "siem.json"
        with served(path.parent) as (process, url):
            await asyncio.to_thread(call, url)
            await until(lambda: len(sink.received) >= 2 and place.exists())
            noted = max(json.loads(place.read_text()).values(), key=lambda one: one["seq"])["seq"]
            sink.failing, before = "hangs", sink.requests
            await asyncio.to_thread(call, url)
            await until(lambda: sink.requests > before)  # a batch is under way, and nobody has confirmed it
            process.send_signal(signal.SIGKILL)
            process.wait()
        sink.failing = ""
        killed = [dict(entry) for entry in entries(directory)]
        with served(path.parent) as (_, url):
            await asyncio.to_thread(call, url)
            await until(lambda: {one["seq"] for one in killed} < set(sink.seqs()))
    first = {one["seq"]: one for one in sink.received}
    assert [first[one["seq"]] for one in killed] == killed
    assert list(dict.fromkeys(sink.seqs())) == sorted(first)  # in order, without a gap
    assert sorted(first) == list(range(1, len(first) + 1))
    assert [seq for seq in sink.seqs() if seq <= noted] == list(range(1, noted + 1))  # what was confirmed came once


def test_a_damaged_place_means_that_all_entries_are_due(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    directory.mkdir()
    write(directory, 2)
    file = tmp_path / "place.json"
    sent = SentEntries(directory, file)
    (batch,) = sent.due(BatchSize())
    sent.arrived(batch)
    assert not [*SentEntries(directory, file).due(BatchSize())]
    file.write_text("{")
    (batch,) = SentEntries(directory, file).due(BatchSize())
    assert batch.entries[0].seq == 1


@pytest.mark.parametrize(
    "stream", [{"siem": {"syslog": "tls://127.0.0.1:6514", "verify": False}}, {"SIEM": {"syslog": "tls://127.0.0.1"}}]
)
def test_unknown_keys_and_names_are_refused(tmp_path: Path, stream: dict[str, Any]) -> None:
    path = make_project(tmp_path / "project")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"audit": {"stream": stream}}))
    with pytest.raises(ConfigError):
        load(path)
