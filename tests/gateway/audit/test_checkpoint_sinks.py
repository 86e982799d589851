"""Checkpoints brought to real servers, as toolgen.yaml says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from msgspec.structs import replace

from tests.audit.logs import PLAIN, add, opened, with_key
from tests.messages import line_names
from tests.services.local import LocalServer, running
from toolgen.audit.config import AuditPlan
from toolgen.audit.verify import verify
from toolgen.config.audit import AuditSettings, CheckpointPlace
from toolgen.connectors.executor import Destination
from toolgen.connectors.secrets import parse_reference
from toolgen.core.clock import SystemClock
from toolgen.gateway.audit.checkpoint_sinks import plan_of
from toolgen.model.verdict import Allow, Verdict
from toolgen.policy.egress import Egress

Seen = tuple[str, str, str, bytes]


class Server(LocalServer):
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.status = 201
        self.headers: dict[str, str] = {}
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = ("host", "content-type", "x-amz-date", "x-amz-content-sha256")
        self.server.headers = {name: self.headers[name] for name in signed if name in self.headers}
        self.server.seen.append((self.command, self.path, self.headers.get("authorization", ""), body))
        self.send_response(self.server.status)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    do_PUT = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    with running(found):
        yield found


def allowed(destination: Destination) -> Verdict:
    return Allow(rule="test")


def plan(*places: CheckpointPlace, permit: object = allowed) -> AuditPlan:
    return plan_of(AuditSettings(plan=PLAIN, places=places), permit, SystemClock())  # type: ignore[arg-type]


def place(kind: str, location: str, **headers: str) -> CheckpointPlace:
    references = {name: parse_reference(text) for name, text in headers.items()}
    return CheckpointPlace(kind=kind, location=location, headers=MappingProxyType(references))  # type: ignore[arg-type]


async def sign_once(directory: Path, given: AuditPlan) -> tuple[str, ...]:
    with_key(directory)

    log = opened(directory, given)
    await add(log, 1, 2)
    maintenance = log._maintenance
    await log.close()
    assert maintenance is not None
    return maintenance.faults()


async def test_checkpoints_are_posted_and_put(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WITNESS", "canary-1")
    given = plan(
        place("post", f"{server.url}/v1?tenant=a", authorization="Bearer ${env:WITNESS}"),
        place("put", f"{server.url}/bucket/gateway-a/"),
    )
    assert await sign_once(tmp_path, given) == ()
    line = (tmp_path / "gateway-1.checkpoints").read_bytes()
    assert sorted(server.seen) == [
        ("POST", "/v1?tenant=a", "Bearer canary-1", line),
        ("PUT", "/bucket/gateway-a/gateway-1-000000000004.checkpoint", "", line),
    ]
    assert verify(tmp_path).ok


async def test_what_is_put_into_a_bucket_is_signed_as_s3_asks(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another signer, AWS's own, comes to the same signature over what arrived."""
    monkeypatch.setenv("BUCKET_KEY", "canary-4")
    aws = {"access_key_id": parse_reference("AKIA1"), "secret_access_key": parse_reference("${env:BUCKET_KEY}")}
    given = replace(place("put", f"{server.url}/bucket/a%20b"), region="eu-central-1", aws=MappingProxyType(aws))
    assert await sign_once(tmp_path, plan(given)) == ()
    method, path, authorization, body = server.seen[0]
    sent = AWSRequest(method=method, url=server.url + path, data=body, headers=server.headers)
    sent.context["timestamp"] = server.headers["x-amz-date"]
    judge = S3SigV4Auth(Credentials("AKIA1", "canary-4"), "s3", "eu-central-1")
    expected = judge.signature(judge.string_to_sign(sent, judge.canonical_request(sent)), sent)
    assert authorization.endswith(f"Signature={expected}")
    assert server.headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("status", [503, 302])
async def test_only_a_success_is_one_and_nothing_is_followed(tmp_path: Path, server: Server, status: int) -> None:
    server.status = status
    (fault,) = await sign_once(tmp_path, plan(place("put", f"{server.url}/bucket")))
    assert line_names(fault, "checkpoints", f"{server.url}/bucket: ", str(status))
    assert {path for _, path, _, _ in server.seen} == {"/bucket/gateway-1-000000000004.checkpoint"}
    assert verify(tmp_path).ok


async def test_what_is_said_of_a_failure_holds_no_secret(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WITNESS", "canary-2")
    server.status = 401
    faults = await sign_once(
        tmp_path, plan(place("post", f"{server.url}/v1?key=canary-3", authorization="Bearer ${env:WITNESS}"))
    )
    assert "401" in faults[0]
    assert "canary" not in faults[0]
    monkeypatch.delenv("WITNESS")
    assert (
        "WITNESS is not"
        in (
            await sign_once(
                tmp_path / "b", replace(plan(place("post", f"{server.url}/v1", authorization="Bearer ${env:WITNESS}")))
            )
        )[0]
    )


async def test_cloud_metadata_is_no_place_for_checkpoints(tmp_path: Path) -> None:
    egress = Egress(allow=frozenset(), private_networks=False)

    def permit(destination: Destination) -> Verdict:
        assert destination.service == "keys"
        return egress.check_keys(destination.host, destination.port, destination.address)

    faults = await sign_once(tmp_path, plan(place("put", "http://169.254.169.254/latest"), permit=permit))
    assert "link-local" in faults[0]
