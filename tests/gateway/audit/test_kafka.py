"""Entries in Kafka as librdkafka's own broker takes them and its consumer reads them; SASL by the vectors of its RFCs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.audit.logs import PLAIN, write
from tests.gateway.audit.sinks.base import made_entry, recorded
from tests.gateway.audit.test_destinations import permitted, read
from toolgen.audit.entry_stream import SentEntries
from toolgen.connectors.executor import Destination
from toolgen.connectors.kafka_client import ScramExchange
from toolgen.core.background import Background
from toolgen.core.clock import SystemClock
from toolgen.gateway.audit.destinations.base import OutgoingEntry
from toolgen.gateway.audit.destinations.registry import make_destination
from toolgen.gateway.audit.entry_shipper import EntryShipper
from toolgen.model.verdict import Allow, Deny, Verdict


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """The broker that librdkafka has for tests: its address."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    found = producer.list_topics(timeout=20)
    (one,) = found.brokers.values()
    for topic in ("audit", "other"):
        producer.list_topics(topic, timeout=20)  # makes it
    yield f"{one.host}:{one.port}"
    producer.flush(1)


def consumed(client: dict[str, str], topic: str, number: int) -> list[Any]:
    """So many records of a topic, of all partitions."""
    consumer = Consumer({**client, "group.id": "g", "check.crcs": True})
    try:
        parts = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, part, 0) for part in parts])
        found: list[Any] = []
        while len(found) < number:
            records = consumer.consume(number - len(found), timeout=20)
            assert records
            found += records
        return found
    finally:
        consumer.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with 40 entries."""
    (tmp_path / "audit").mkdir()
    write(tmp_path / "audit", 20, PLAIN)
    return tmp_path / "audit"


async def test_a_broker_of_another_maker_takes_entries_and_gives_them_back(
    broker: str, directory: Path, tmp_path: Path
) -> None:
    destination, warnings = read({"kafka": f"{broker}/audit", "tls": False})
    assert not warnings
    shipper = EntryShipper(
        "bus",
        make_destination(destination, permit=permitted, clock=SystemClock()),
        directory=directory,
        folder=tmp_path,
        clock=SystemClock(),
        background=Background(),
    )
    await shipper.ship(SentEntries(directory, tmp_path / "bus.json"), forever=False)
    assert (shipper.sent, shipper.failed, shipper.warning) == (40, 0, "")
    await shipper.stop()
    found = consumed({"bootstrap.servers": broker}, "audit", 40)
    known = recorded(directory)
    assert [json.loads(one.value()) for one in found] == known
    assert {(one.partition(), one.key()) for one in found} == {(found[0].partition(), b"gateway-1")}
    headers = [[("seq", str(entry["seq"]).encode()), ("hash", entry["hash"][:16].encode())] for entry in known]
    assert [one.headers() for one in found] == headers


async def test_an_advertised_broker_needs_a_place_in_the_egress_rules(broker: str) -> None:
    asked: list[Destination] = []

    def permit(to: Destination) -> Verdict:
        asked.append(to)
        if to.service == "database":
            return Allow(rule="test")
        return Deny(rule="egress", code="egress_refused", reason="not listed")

    port = broker.rpartition(":")[2]
    destination, _ = read({"kafka": f"localhost:{port}/other", "tls": False})  # it advertises itself as 127.0.0.1
    made = make_destination(destination, permit=permit, clock=SystemClock())
    entry = OutgoingEntry(entry=made_entry(1), body=b"{}")
    with pytest.raises(OSError, match="not listed"):
        await made.send("gateway-1", (entry,))
    assert [(one.host, one.service) for one in asked][-1] == ("127.0.0.1", "http")


VECTORS = [
    (
        "sha256",  # RFC 7677, section 3
        "rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    )
]


@pytest.mark.parametrize(("algorithm", "nonce", "challenge", "answer", "last"), VECTORS)
def test_scram_is_that_of_its_rfc(algorithm: str, nonce: str, challenge: bytes, answer: bytes, last: bytes) -> None:
    exchange = ScramExchange("user", "pencil", algorithm, nonce)
    assert exchange.first() == b"n,,n=user,r=" + nonce.encode()
    assert exchange.final(challenge) == answer
    exchange.verify(last)
    assert "pencil" not in repr(exchange)
    for wrong in (b"", b"v=", last[:-4] + b"AAA=", b"e=other-error"):
        with pytest.raises(ValueError, match="server"):
            exchange.verify(wrong)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=nonce,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=nonce2,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"r=nonce2,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999",
        b"r=nonce2,s=*,i=4096",
        b"",
        b"\xff",
    ],
)
def test_a_challenge_that_weakens_the_exchange_is_refused(challenge: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of several makers
        ScramExchange("user", "pencil", "sha256", "nonce").final(challenge)
