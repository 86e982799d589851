"""Entries of the record at a receiver of syslog over TLS: each at least once, in order, whatever fails between."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.authorities import Authority
from tests.projects import make_project
from tests.stream_servers import stream_server
from toolgen.audit.entry_stream import RecordedEntry, SentEntries
from toolgen.audit.reader import entries
from toolgen.config.settings import load
from toolgen.core.background import Background
from toolgen.core.clock import SystemClock
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.audit.entry_shipper import EntryShipper, syslog_message

HEAD = re.compile(
    rb'<(\d+)>1 (\S+) \S+ toolgen \d+ (\S+) \[toolgen@32473 stream="([^"]+)" seq="(\d+)"\] (\{.*\})\Z', re.DOTALL
)


class Receiver:
    """Keeps the messages of its frames."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder, "logs-ca")
        certificate, key = self.authority.issue("logs")
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(certificate, key)
        self.messages: list[tuple[str, int, dict[str, Any]]] = []
        self.port = 0
        self.news = asyncio.Event()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Receiver]:
        async with stream_server(self._serve, tls=self.tls) as self.port:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := (await reader.readuntil(b" "))[:-1]:
            message = await reader.readexactly(int(size))
            found = HEAD.match(message)
            assert found is not None, message
            self.messages.append((found[4].decode(), int(found[5]), json.loads(found[6])))
            self.news.set()


def configured(root: Path, port: int, ca: Path, **more: Any) -> Path:
    path = make_project(root / "project")
    document = json.loads(path.read_text())
    receiver = {"syslog": f"tls://localhost:{port}", "ca": str(ca), **more}
    document["audit"] = {**document.get("audit", {}), "stream": {"siem": receiver}}
    path.write_text(json.dumps(document))
    return path


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "canary-key")


def shipper(gateway: Gateway) -> EntryShipper:
    """One besides that of the gateway, with places of its own."""
    settings = gateway.settings
    (destination,) = settings.audit.streams
    return EntryShipper(
        destination,
        directory=settings.audit_dir,
        folder=settings.state_dir,
        permit=gateway.current.permit,
        clock=SystemClock(),
        background=Background(),
    )


def place(gateway: Gateway) -> Path:
    return gateway.settings.state_dir / "own-place.json"


def again(gateway: Gateway) -> SentEntries:
    """What a worker reads that takes over."""
    return SentEntries(gateway.settings.audit_dir, place(gateway))


async def called(gateway: Gateway, times: int = 1) -> None:
    for number in range(times):
        await gateway.call("pets__get_pet", {"petId": number}, principal="bot")


async def test_every_entry_arrives_in_the_order_of_its_stream_and_as_it_was_recorded(tmp_path: Path) -> None:
    async with Receiver(tmp_path).serving() as receiver:
        path = configured(tmp_path, receiver.port, receiver.authority.path)
        async with Gateway.load(path) as gateway:
            await called(gateway, 3)
            recorded = list(entries(gateway.settings.audit_dir))
            assert len(recorded) >= 6
            while len({seq for _, seq, _ in receiver.messages}) < len(recorded):
                receiver.news.clear()
                await receiver.news.wait()
        firsts = {seq: entry for _, seq, entry in receiver.messages}
        assert [firsts[entry["seq"]] for entry in recorded] == recorded
        assert {stream for stream, _, _ in receiver.messages} == {entry["stream"] for entry in recorded}
    assert b"canary-key" not in json.dumps(receiver.messages).encode()


async def test_entries_wait_for_a_receiver_that_is_down_and_calls_do_not(tmp_path: Path) -> None:
    receiver = Receiver(tmp_path)
    async with receiver.serving():
        pass  # its port is free again
    path = configured(tmp_path, receiver.port, receiver.authority.path)
    async with Gateway.load(path) as gateway:
        await called(gateway, 2)
        own = shipper(gateway)
        await own.ship(again(gateway), forever=False)
        assert own.failed >= 1
        assert own.lag_s >= 0.0
        text = (await gateway.operations.measured()).decode()
        assert 'toolgen_audit_stream_lag_seconds{receiver="siem"' in text
    assert not receiver.messages


async def test_a_receiver_with_a_certificate_of_another_authority_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "logs-ca")
    async with (
        Receiver(tmp_path).serving() as receiver,
        Gateway.load(configured(tmp_path, receiver.port, other.path)) as gateway,
    ):
        await called(gateway)
        own = shipper(gateway)
        await own.ship(again(gateway), forever=False)
        assert own.failed >= 1
    assert not receiver.messages


async def test_entries_between_sending_and_noting_the_place_come_twice_and_are_known_by_their_number(
    tmp_path: Path,
) -> None:
    async with Receiver(tmp_path).serving() as receiver:
        path = configured(tmp_path, receiver.port, receiver.authority.path)
        async with Gateway.load(path) as gateway:
            await called(gateway, 2)
            own = shipper(gateway)
            await own.ship(again(gateway), forever=False)
            shutil.copy(place(gateway), tmp_path / "before.json")
            await called(gateway)
            last = list(entries(gateway.settings.audit_dir))[-1]
            await own.ship(again(gateway), forever=False)
            shutil.copy(tmp_path / "before.json", place(gateway))  # as after a kill before it was written
            await own.ship(again(gateway), forever=False)
            assert [*again(gateway).due()] == []
            assert own.lag_s == 0.0
            while [seq for _, seq, _ in receiver.messages].count(last["seq"]) < 3:  # the gateway's own among them
                receiver.news.clear()
                await receiver.news.wait()
            own._client.close()
        assert all(entry == last for _, seq, entry in receiver.messages if seq == last["seq"])


async def test_a_damaged_place_means_that_all_entries_are_due(tmp_path: Path) -> None:
    async with Receiver(tmp_path).serving() as receiver:
        path = configured(tmp_path, receiver.port, receiver.authority.path)
        async with Gateway.load(path) as gateway:
            await called(gateway)
            file = tmp_path / "place.json"
            file.write_text("{")
            (batch,) = SentEntries(gateway.settings.audit_dir, file).due()
            assert batch.entries[0].seq == 1


def test_a_message_holds_what_receivers_sort_by_and_escapes_it() -> None:
    entry = RecordedEntry(
        line=b'{"a":1}', seq=7, time="2026-01-01T00:00:00.000001Z", event="outcome é", status="refused"
    )
    message = syslog_message('a"]\\', entry)
    assert message.startswith(b"<108>1 2026-01-01T00:00:00.000001Z ")
    assert message.endswith(b' outcome [toolgen@32473 stream="a\\"\\]\\\\" seq="7"] {"a":1}')


@pytest.mark.parametrize(
    "stream",
    [
        {"siem": {"syslog": "udp://127.0.0.1:514"}},
        {"siem": {"syslog": "tls://user:canary@127.0.0.1:6514"}},
        {"siem": {"syslog": "tls://127.0.0.1:0"}},
        {"siem": {"syslog": "tls://127.0.0.1:6514", "ca": "missing.pem"}},
        {"siem": {"syslog": "tls://127.0.0.1:6514", "verify": False}},
        {"SIEM": {"syslog": "tls://127.0.0.1:6514"}},
        {"siem": {}},
    ],
)
def test_a_receiver_that_cannot_be_is_refused(tmp_path: Path, stream: dict[str, Any]) -> None:
    path = make_project(tmp_path / "project")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"audit": {"stream": stream}}))
    with pytest.raises(ConfigError):
        load(path)
