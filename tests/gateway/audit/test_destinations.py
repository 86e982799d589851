"""Contract of destinations of the record, for each kind: every entry at least once and in order, whatever fails between."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.audit.logs import PLAIN, add, opened
from tests.authorities import Authority
from tests.gateway.audit.sinks.base import Entry, HttpSink, Sink, made_entry, recorded
from tests.gateway.audit.sinks.http import LinesSink
from tests.gateway.audit.sinks.kafka import BrokerSink
from tests.gateway.audit.sinks.otlp import CollectorSink
from tests.gateway.audit.sinks.s3 import BucketSink
from tests.gateway.audit.sinks.syslog import SyslogSink
from toolgen.audit.entry_stream import BatchSize, SentEntries
from toolgen.audit.log import AuditLog
from toolgen.config.audit_stream import GivenStream, StreamDestination, read_streams
from toolgen.connectors.executor import Destination
from toolgen.core.background import Background
from toolgen.core.clock import SystemClock
from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import parse
from toolgen.gateway.audit.destinations import base
from toolgen.gateway.audit.destinations.base import BusyError, OutgoingEntry, RefusedEntriesError, Rhythm
from toolgen.gateway.audit.destinations.registry import make_destination
from toolgen.gateway.audit.destinations.s3 import S3Bucket
from toolgen.gateway.audit.destinations.syslog import syslog_message
from toolgen.gateway.audit.entry_shipper import EntryShipper, OcsfEncoder
from toolgen.model.verdict import Allow, Deny, Verdict

SINKS: list[type[Sink]] = [SyslogSink, LinesSink, CollectorSink, BrokerSink, BucketSink]
SMALL = Rhythm(size=BatchSize(entries=3))


def of_sinks(holds: Callable[[type[Sink]], bool]) -> pytest.MarkDecorator:
    """Run a test with the kinds of destinations for which `holds`."""
    return pytest.mark.parametrize(
        "sink", [made for made in SINKS if holds(made)], ids=lambda made: made.kind, indirect=True
    )


def permitted(_: Destination) -> Verdict:
    return Allow(rule="test")


@pytest.fixture(params=SINKS, ids=lambda made: made.kind)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return request.param(tmp_path)  # type: ignore[no-any-return]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AuditLog]:
    """A log with six entries."""
    (tmp_path / "audit").mkdir()
    made = opened(tmp_path / "audit", PLAIN)
    asyncio.run(add(made, 1, 3))
    yield made
    asyncio.run(made.close())


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINK_SECRET", "right-secret")


def read(settings: dict[str, Any], ca: Path | None = None) -> tuple[StreamDestination, list[str]]:
    """A destination as it is read from toolgen.yaml, and the warnings."""
    document = parse(json.dumps({"audit": {"stream": {"sink": settings}}}), "toolgen.yaml", ConfigError)
    given = msgspec.convert(settings | ({"ca": str(ca)} if ca else {}), GivenStream)
    warnings: list[str] = []
    (found,) = read_streams({"sink": given}, document, Path("/"), warnings)
    return found, warnings


class Trial:
    """A shipper to a sink, which starts anew as a worker does that takes over."""

    def __init__(self, sink: Sink, log: AuditLog, tmp_path: Path, ca: Path | None = None, permit: Any = permitted):
        self.place = tmp_path / "sink.json"
        self.directory = tmp_path / "audit"
        destination, _ = read(sink.settings(), ca or sink.authority.path)
        made = make_destination(destination, permit=permit, clock=SystemClock())
        made.rhythm = SMALL  # type: ignore[misc]
        self.destination = made
        self.shipper = EntryShipper(
            "sink", made, directory=self.directory, folder=tmp_path, clock=SystemClock(), background=Background()
        )

    async def once(self) -> EntryShipper:
        await self.shipper.ship(SentEntries(self.directory, self.place), forever=False)
        return self.shipper


async def arrived(sink: Sink, number: int) -> None:
    """Waits for so many entries: a receiver of syslog reads them after its system has acknowledged them."""
    async with asyncio.timeout(20):
        while len(sink.received) < number:  # noqa: ASYNC110 - the sink is a task of this loop
            await asyncio.sleep(0.002)


async def test_entries_arrive_in_order_as_they_were_recorded(sink: Sink, log: AuditLog, tmp_path: Path) -> None:
    async with sink.serving():
        trial = Trial(sink, log, tmp_path)
        shipper = await trial.once()
        await arrived(sink, 6)
        await add(log, 4, 4)
        await trial.once()
        await arrived(sink, 8)
        await shipper.stop()
    assert sink.received == recorded(trial.directory)
    assert (shipper.sent, shipper.failed, shipper.lag_s, shipper.entries_behind, shipper.warning) == (8, 0, 0, 0, "")


async def test_logs_of_two_gateways_or_tenants_are_told_apart_where_they_arrive(
    sink: Sink, log: AuditLog, tmp_path: Path
) -> None:
    """Both write a stream of the same name: a receiver that drops what arrives twice must not drop the entries of one of them."""
    other = tmp_path / "other"
    (other / "audit").mkdir(parents=True)
    second = opened(other / "audit", PLAIN)
    await add(second, 11, 13)
    async with sink.serving():
        trials = [Trial(sink, log, tmp_path), Trial(sink, log, other, ca=sink.authority.path)]
        for trial in trials:
            await trial.once()
        await arrived(sink, 12)
        sent = list(sink.identities)
        for trial in trials:  # a gateway that did not note what arrived sends it again
            trial.place.unlink()
            await trial.once()
            await trial.shipper.stop()
        await arrived(sink, 24)
    await second.close()
    assert len(set(sent)) == len(sent) > 1
    assert sink.identities == sent * 2


async def test_entries_wait_while_a_destination_is_down_and_are_sent_from_where_it_stopped(
    sink: Sink, log: AuditLog, tmp_path: Path
) -> None:
    async with sink.serving():
        trial = Trial(sink, log, tmp_path)
        await trial.once()
        await arrived(sink, 6)
        await trial.shipper.stop()
    await add(log, 4, 6)
    trial = Trial(sink, log, tmp_path)  # nothing listens on its port
    shipper = await trial.once()
    assert (shipper.failed, shipper.entries_behind, shipper.lag_s > 0) == (1, 6, True)
    assert "6 wait" in shipper.warning
    async with sink.serving():
        trial = Trial(sink, log, tmp_path)
        shipper = await trial.once()
        await arrived(sink, 12)
        assert (shipper.entries_behind, shipper.lag_s, shipper.warning) == (0, 0.0, "")
        await shipper.stop()
    assert sink.received == recorded(trial.directory)


async def test_entries_that_arrived_before_their_place_was_noted_come_twice(
    sink: Sink, log: AuditLog, tmp_path: Path
) -> None:
    async with sink.serving():
        trial = Trial(sink, log, tmp_path)
        await trial.once()
        await arrived(sink, 6)
        await trial.shipper.stop()
        trial.place.unlink()  # as after a kill
        trial = Trial(sink, log, tmp_path)
        await trial.once()
        await arrived(sink, 12)
        await trial.shipper.stop()
    assert sink.received == 2 * recorded(trial.directory)


async def test_the_log_is_written_while_a_destination_hangs(sink: Sink, log: AuditLog, tmp_path: Path) -> None:
    sink.failing = "hangs"
    async with sink.serving():
        trial = Trial(sink, log, tmp_path)
        shipping = asyncio.create_task(trial.once())
        async with asyncio.timeout(10):
            await add(log, 4, 20)
        assert not shipping.done()
        shipping.cancel()
        await asyncio.gather(shipping, return_exceptions=True)
        await trial.shipper.stop()
    assert not sink.received


async def test_a_certificate_of_another_authority_gets_nothing(sink: Sink, log: AuditLog, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other-ca")
    async with sink.serving():
        trial = Trial(sink, log, tmp_path, ca=other.path)
        shipper = await trial.once()
        await shipper.stop()
    assert (shipper.sent, shipper.failed, sink.received, sink.requests) == (0, 1, [], 0)


async def test_a_place_that_the_policy_does_not_open_gets_nothing(sink: Sink, log: AuditLog, tmp_path: Path) -> None:
    async with sink.serving():
        trial = Trial(sink, log, tmp_path, permit=lambda _: Deny(rule="egress", code="egress_refused", reason="closed"))
        shipper = await trial.once()
        await shipper.stop()
    assert (shipper.sent, shipper.failed, sink.received, sink.requests) == (0, 1, [], 0)
    assert "closed" in shipper.warning


@of_sinks(lambda made: made.has_credentials)
async def test_wrong_credentials_hold_entries_back_and_appear_nowhere(
    sink: Sink, log: AuditLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SINK_SECRET", "canary-of-a-secret")
    async with sink.serving():
        with caplog.at_level(logging.DEBUG):
            trial = Trial(sink, log, tmp_path)
            shipper = await trial.once()
        assert (shipper.sent, shipper.failed, shipper.set_aside, sink.received) == (0, 1, 0, [])
        assert (shipper.entries_behind, shipper.lag_s > 0) == (6, True)
        shown = [caplog.text, shipper.warning, repr(shipper.__dict__), repr(trial.destination.__dict__)]
        assert not [one for one in shown if "canary" in one]
        monkeypatch.setenv("SINK_SECRET", "right-secret")
        await trial.once()
        await arrived(sink, 6)
        await shipper.stop()
    assert sink.received == recorded(trial.directory)


@of_sinks(lambda made: made.refuses_content)
async def test_an_entry_that_is_refused_is_set_aside_and_holds_up_no_other(
    sink: Sink, log: AuditLog, tmp_path: Path
) -> None:
    sink.poison = 2
    async with sink.serving():
        trial = Trial(sink, log, tmp_path)
        shipper = await trial.once()
        await shipper.stop()
    assert list(dict.fromkeys(sink.seqs())) == [1, 3, 4, 5, 6]
    assert shipper.set_aside == 1
    (aside,) = (tmp_path / "sink.refused.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(aside) == {"stream": "gateway-1", "seq": 2, "entry": recorded(trial.directory)[1]}


@of_sinks(lambda made: issubclass(made, HttpSink))
async def test_a_destination_that_refuses_everything_has_nothing_set_aside(
    sink: Sink, log: AuditLog, tmp_path: Path
) -> None:
    sink.failing = "400"
    async with sink.serving():
        trial = Trial(sink, log, tmp_path)
        shipper = await trial.once()
        assert (shipper.failed, shipper.set_aside, shipper.entries_behind) == (1, 0, 6)
        assert "canary" not in shipper.warning
        sink.failing = ""
        await trial.once()
        await shipper.stop()
    assert sink.received == recorded(trial.directory)


async def test_entries_are_sent_as_events_of_ocsf_and_those_without_that_form_are_set_aside(
    log: AuditLog, tmp_path: Path
) -> None:
    sent: list[Entry] = []

    class Taking:
        rhythm = SMALL

        async def send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
            sent.extend(msgspec.json.decode(one.body) for one in entries)

        async def close(self) -> None: ...

    directory = tmp_path / "audit"
    odd = {"seq": 1, "time": "no time", "event": "x", "stream": "gateway-2", "hash": "00", "prev": ""}
    (directory / "gateway-2.jsonl").write_bytes(msgspec.json.encode(odd) + b"\n")
    shipper = EntryShipper(
        "sink",
        Taking(),
        directory=directory,
        folder=tmp_path,
        clock=SystemClock(),
        background=Background(),
        encode=OcsfEncoder({"pets__get_pet": "read"}),
    )
    await shipper.ship(SentEntries(directory, tmp_path / "sink.json"), forever=False)
    assert [one["metadata"]["uid"] for one in sent] == [
        f"gateway-1:{entry['seq']}:{entry['hash'][:16]}" for entry in recorded(directory)[:6]
    ]
    assert {(one["class_uid"], one["activity_name"]) for one in sent} == {(6003, "Read")}
    assert [json.loads(one["raw_data"]) for one in sent] == recorded(directory)[:6]
    assert (shipper.sent, shipper.set_aside, shipper.failed) == (7, 1, 0)
    assert '"seq":1,"time":"no time"' in (tmp_path / "sink.refused.jsonl").read_text(encoding="utf-8")
    destination, _ = read({"syslog": "tls://logs.example.com", "format": "ocsf"})
    assert destination.format == "ocsf"


async def test_the_pause_that_a_busy_receiver_asks_for_is_kept(
    log: AuditLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = LinesSink(tmp_path)
    sink.failing = "busy"
    pauses: list[float] = []

    async def paused(seconds: float) -> None:
        pauses.append(seconds)
        sink.failing = ""
        if len(pauses) == 2:
            raise asyncio.CancelledError

    async with sink.serving():
        trial = Trial(sink, log, tmp_path)
        monkeypatch.setattr("toolgen.gateway.audit.entry_shipper.asyncio.sleep", paused)
        with pytest.raises(asyncio.CancelledError):
            await trial.shipper.ship(SentEntries(trial.directory, trial.place), forever=True)
        monkeypatch.undo()
    assert (pauses, trial.shipper.failed) == ([7.0, 1.0], 1)
    assert sink.received == recorded(trial.directory)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("999999999", 600.0),
        ("-1", 0.0),
        ("soon", 0.0),
        ("Wed, 01 Jan 2020 00:00:00 GMT", 0),
    ],
)
def test_a_pause_is_read_as_seconds_or_as_a_date(text: str, seconds: float) -> None:
    assert base._seconds(text) == seconds
    assert 590 < base._seconds("Fri, 01 Jan 2100 00:00:00 GMT") <= 600


async def test_entries_behind_are_counted_to_the_end_of_a_log_that_is_written(log: AuditLog, tmp_path: Path) -> None:
    class Refusing:
        rhythm = SMALL

        async def send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
            raise BusyError("it is busy", 1) if stream else RefusedEntriesError()

        async def close(self) -> None: ...

    shipper = EntryShipper(
        "sink",
        Refusing(),
        directory=tmp_path / "audit",
        folder=tmp_path,
        clock=SystemClock(),
        background=Background(),
    )
    await add(log, 4, 50)
    await shipper.ship(SentEntries(tmp_path / "audit", tmp_path / "sink.json"), forever=False)
    assert shipper.entries_behind == 100


@pytest.mark.parametrize(
    ("bucket", "url"),
    [
        ("records", "https://records.s3.eu-west-1.amazonaws.com/a/b"),
        ("my.records", "https://s3.eu-west-1.amazonaws.com/my.records/a/b"),
    ],
)
async def test_a_bucket_of_aws_has_its_host_and_the_credentials_of_the_environment(
    bucket: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination, _ = read({"s3": {"bucket": bucket, "retention": {"mode": "governance", "days": 1}}})
    made = make_destination(destination, permit=permitted, clock=SystemClock())
    assert isinstance(made, S3Bucket)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OSError, match="AWS_REGION is not set"):
        await made.send("gateway-1", (OutgoingEntry(entry=made_entry(1), body=b"{}"),))
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert made._url("a/b") == url
    with pytest.raises(OSError, match="AWS_SECRET_ACCESS_KEY is not set"):
        await made.send("gateway-1", (OutgoingEntry(entry=made_entry(1), body=b"{}"),))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    assert (await made._key()).region == "eu-west-1"
    assert made.rhythm.every_s == 60


def test_a_message_of_syslog_holds_what_receivers_sort_by_and_escapes_it() -> None:
    entry = made_entry(7, status="refused")
    message = syslog_message('a"]\\', OutgoingEntry(entry=entry, body=b'{"a":1}'))
    assert message.startswith(b"<108>1 2026-01-01T00:00:00.000001Z ")
    assert message.endswith(b' outcome [toolgen@32473 stream="a\\"\\]\\\\" seq="7" hash="0000000000000000"] {"a":1}')


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        ({}, "takes one of"),
        ({"syslog": "tls://logs.example.com", "http": "https://logs.example.com"}, "takes one of"),
        ({"syslog": "udp://127.0.0.1:514"}, "syslog:"),
        ({"syslog": "tls://user:canary@127.0.0.1:6514"}, "syslog:"),
        ({"syslog": "tls://127.0.0.1:0"}, "syslog:"),
        ({"syslog": "tls://127.0.0.1:6514", "ca": "missing.pem"}, "ca:"),
        ({"syslog": "tls://127.0.0.1:6514", "headers": {"A": "b"}}, "headers:"),
        ({"http": "https://user:canary@logs.example.com/"}, "http:"),
        ({"http": "ftp://logs.example.com/"}, "http:"),
        ({"otlp": "https://logs.example.com/#canary"}, "otlp:"),
        ({"otlp": "https://logs.example.com/v1/logs", "headers": {"Host": "canary"}}, "headers:"),
        ({"http": "https://logs.example.com/", "headers": {"A": "${env:}"}}, "headers:"),
        ({"kafka": "broker.example.com:9092"}, "kafka:"),
        ({"kafka": "canary@broker.example.com/audit"}, "kafka:"),
        ({"kafka": "broker.example.com:0/audit"}, "kafka:"),
        ({"kafka": "broker.example.com/.."}, "kafka:"),
        (
            {"kafka": "127.0.0.1/t", "tls": False, "sasl": {"user": "u", "password": "canary", "mechanism": "PLAIN"}},
            "sasl:",
        ),
        ({"kafka": "127.0.0.1/t", "sasl": {"user": "", "password": "canary"}}, "sasl:"),
        ({"http": "https://logs.example.com/", "tls": False}, "are for kafka"),
        ({"s3": {"bucket": "Canary/.."}}, "s3: bucket or prefix"),
        ({"s3": {"bucket": "records", "prefix": "a b?"}}, "s3: bucket or prefix"),
        ({"s3": {"bucket": "records", "retention": {"mode": "compliance", "days": 0}}}, "s3: days"),
        ({"s3": {"bucket": "records", "every": "1d"}}, "s3: every"),
        ({"s3": {"bucket": "records", "endpoint": "https://u:canary@s3.example.com"}}, "s3: takes"),
        ({"s3": {"bucket": "records", "aws": {"region": "r", "access_key_id": "canary"}}}, "belong together"),
    ],
)
def test_a_destination_that_cannot_be_is_refused(stream: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(stream)
    assert told in str(refused.value)
    assert "toolgen.yaml:1" in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        ({"http": "https://logs.example.com/"}, ""),
        ({"http": "http://127.0.0.1:8080/"}, ""),
        ({"http": "http://logs.example.com/"}, "without TLS"),
        (
            {"http": "https://logs.example.com/", "headers": {"Authorization": "Bearer canary"}},
            "a secret is written out",
        ),
    ],
)
def test_what_endangers_entries_is_a_warning(stream: dict[str, Any], told: str) -> None:
    _, warnings = read(stream)
    assert [told in one and "canary" not in one for one in warnings] == ([True] if told else [])
