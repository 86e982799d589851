"""Streams of a gateway: its record at a destination, from toolgen.yaml to the metrics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.audit.logs import write
from tests.gateway.audit.sinks.base import Entry, Sink
from tests.gateway.audit.sinks.http import LinesSink
from tests.projects import make_project
from toolgen.audit.entry_stream import BatchSize, SentEntries
from toolgen.audit.reader import entries
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway


def configured(root: Path, sink: Sink) -> Path:
    path = make_project(root / "project")
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
        assert 'toolgen_audit_stream_lag_seconds{receiver="siem"' in text
    assert "canary-key" not in json.dumps(sink.received)


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
