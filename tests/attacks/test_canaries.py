"""No secret leaves: an upstream that echoes every credential it is shown, and a search through all that was written or said."""

from __future__ import annotations

import http.server
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolgen
from tests.projects import KEY, audit_entries, make_project
from tests.services.local import LocalServer, running
from toolgen.config.settings import load

SECRET = "canary-41c0ffee"


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the headers it was sent: as data, in a header, and in the text of an error."""

    protocol_version = "HTTP/1.1"
    seen: list[str] = []  # noqa: RUF012 - one list for the one server of this module

    def do_GET(self) -> None:
        Echo.seen.append(self.headers.get("X-Key", ""))
        key = self.headers.get("X-Key", "")
        long = [key + "x" * 100] * 2000 if self.path.endswith("/7") else []
        body = json.dumps({"headers": dict(self.headers), "twice": key * 2, "long": long}).encode()
        self.send_response(500 if self.path.endswith("/6") else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Echo", self.headers.get("X-Key", ""))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def upstream() -> Iterator[str]:
    server = LocalServer(("127.0.0.1", 0), Echo)
    with running(server):
        yield server.url


async def test_a_credential_the_upstream_echoes_reaches_nobody(
    tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    path = make_project(tmp_path / "project", server=upstream)
    said: list[object] = []

    gateway = toolgen.Gateway.load(path)
    async with gateway:
        for pet in (5, 6):
            envelope = await gateway.call("pets__get_pet", {"petId": pet}, principal="bot")
            said.extend([envelope.to_dict(), envelope, repr(envelope)])
        for _ in range(2):  # kept for its idempotency key, and the rest of it for whoever reads on
            envelope = await gateway.call("pets__get_pet", {"petId": 7}, principal="bot", idempotency_key="once")
            assert envelope.meta.next_cursor
            said.extend([envelope.to_dict(), repr(envelope)])
        reading = {"petId": 7, "answer": {"cursor": envelope.meta.next_cursor}}
        further = await gateway.call("pets__get_pet", reading, principal="bot")
        assert further.status == "ok"
        said.append(further.to_dict())
        said.append((await gateway.preview("pets__get_pet", {"petId": 5}, principal="bot")).to_dict())
        said.extend([repr(gateway.settings), repr(gateway.policy), gateway.manifest.to_dict(), vars(gateway)])
        said.extend(audit_entries(gateway))
    assert Echo.seen[-3:] == [SECRET] * 3
    kept = {item.name for item in (tmp_path / "project" / "var" / "state").iterdir()}
    assert {"keys.db", "answers.db"} <= kept
    assert SECRET not in json.dumps(said, default=repr)
    assert SECRET not in caplog.text
    assert KEY not in caplog.text
    for written in (tmp_path / "project").rglob("*"):
        if written.is_file():
            assert SECRET.encode() not in written.read_bytes(), written


async def test_sensitive_arguments_are_recorded_only_as_keyed_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_project(tmp_path / "project")
    document = json.loads((path.parent / "specs" / "pets.json").read_text(encoding="utf-8"))
    document["paths"]["/pets/{petId}"]["get"]["parameters"].append(
        {"name": "pin", "in": "query", "schema": {"type": "string", "format": "password"}}
    )
    (path.parent / "specs" / "pets.json").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setenv("TEST_PETS_KEY", "x")

    async with toolgen.Gateway.load(path) as gateway:
        for _ in range(2):
            await gateway.call("pets__get_pet", {"petId": 5, "pin": SECRET}, principal="bot")
        first, second = [entry["arguments"] for entry in audit_entries(gateway) if entry["event"] == "intent"]
    assert first == second
    assert str(first["pin"]).startswith("hmac-sha256:")
    assert all(SECRET.encode() not in item.read_bytes() for item in (path.parent / "var").rglob("*") if item.is_file())


def test_nothing_that_a_project_was_read_into_prints_what_it_was_literally_told(tmp_path: Path) -> None:
    """Against all advice, in every place that takes one."""
    oauth = {"client_id": "c", "client_secret": SECRET, "token_url": "http://127.0.0.1:1/t"}
    aws = {"access_key_id": "A", "secret_access_key": SECRET, "session_token": SECRET, "region": "r"}
    auth: dict[str, object] = {
        "value": SECRET,
        "basic": {"username": "u", "password": SECRET},
        "token": {"token": SECRET},
        "client": oauth,
        "refresh": {"client_id": "c", "refresh_token": SECRET},
        "exchange": {**oauth, "subject_token": "principal"},
        "amazon": {**aws, "service": "s"},
        "mutual": {"certificate": SECRET, "key": SECRET},
    }
    graph = {"graphql": "s.graphql", "endpoint": "http://127.0.0.1:1/g"}
    places = [
        {"post": "http://127.0.0.1:1/p", "headers": {"X-Key": SECRET}},
        {"put": "http://127.0.0.1:1/p", "aws": aws},
    ]
    written = {
        "sources": {
            "api": {"openapi": "s.json", "server": "http://127.0.0.1:1", "auth": auth},
            "located": {"sql": f"postgresql://u:{SECRET}@127.0.0.1:1/db"},
            "beside": {"sql": "mysql://u@127.0.0.1:1/db", "auth": {"password": SECRET}},
            "graph": {**graph, "auth": {"headers": {"X-Key": SECRET}, "bearer": SECRET}},
            "bridged": {"mcp": {"url": "http://127.0.0.1:1/mcp"}, "auth": {"bearer": SECRET}},
            "command": {"mcp": {"command": ["x"], "env": {"KEY": SECRET}}},
        },
        "state": f"redis://:{SECRET}@127.0.0.1:1/0",
        "audit": {"index": f"postgresql://u:{SECRET}@127.0.0.1:1/db", "checkpoints": {"to": places}},
    }
    (tmp_path / "s.json").write_text("{}", encoding="utf-8")
    (tmp_path / "s.graphql").write_text("type Query { a: Int }", encoding="utf-8")
    (tmp_path / "toolgen.yaml").write_text(json.dumps(written), encoding="utf-8")
    settings = load(tmp_path / "toolgen.yaml")
    assert len(settings.sources) == 6
    told = (repr(settings), str(settings), f"{settings}", *(repr(one) for one in settings.sources.values()))
    assert SECRET not in "".join([*told, repr(settings.audit), repr(settings.state), repr(settings.warnings)])
