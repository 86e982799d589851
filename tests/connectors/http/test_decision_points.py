"""Decision points that are really asked: over HTTP through the egress guard, and Cedar by its library. Whatever is no yes is a no."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import project, upstream
from tests.projects import audit_entries
from tests.services.local import LocalServer, running
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway

RULES = {"rules": [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}]}
SECRET = "canary-of-the-decision-point"


class DecisionServer:
    """Answers every POST with `answer`, and keeps what it was sent."""

    def __init__(self) -> None:
        self.status, self.answer = 200, b"{}"
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.open = threading.Event()
        self.open.set()
        self.url = ""


@pytest.fixture
def point() -> Iterator[DecisionServer]:
    made = DecisionServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            made.asked.append((self.path, self.headers.get("authorization") or "", json.loads(body)))
            made.open.wait(120)
            self.send_response(made.status)
            self.send_header("content-length", str(len(made.answer)))
            self.end_headers()
            self.wfile.write(made.answer)

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    made.url = server.url
    with running(server):
        yield made


async def outcomes(
    root: Path, entry: dict[str, Any], calls: int = 1, policy: dict[str, Any] | None = None
) -> list[str]:
    """The codes of calls to an API behind a decision point, and "sent" for each that reached it."""

    async def run(server: str, requests: list[Any]) -> list[str]:
        path = project(root, server, policy or RULES, middleware=[entry])
        found: list[str] = []
        async with Gateway.load(path) as gateway:
            for _ in range(calls):
                before = len(requests)
                envelope = await gateway.call("orders__list_orders", {"tenant_id": "acme"}, principal="bot")
                found.append(envelope.error.code if envelope.error is not None else envelope.status)
                found += ["sent"] * (len(requests) - before)
            assert SECRET not in json.dumps(audit_entries(gateway))
        return found

    with upstream() as (seen, server):
        return await run(server, seen.requests)


@pytest.mark.parametrize(
    ("kind", "status", "answer", "outcome"),
    [
        ("authzen", 200, {"decision": True}, ["ok", "sent"]),
        ("authzen", 200, {"decision": False}, ["forbidden"]),
        ("authzen", 200, {"decision": "true"}, ["middleware_failed"]),
        ("authzen", 200, {"decision": 1}, ["middleware_failed"]),
        ("authzen", 200, {}, ["middleware_failed"]),
        ("authzen", 200, [], ["middleware_failed"]),
        ("authzen", 201, {"decision": True}, ["middleware_failed"]),
        ("authzen", 500, {"decision": True}, ["middleware_failed"]),
        ("authzen", 302, {"decision": True}, ["middleware_failed"]),
        ("opa", 200, {"result": True}, ["ok", "sent"]),
        ("opa", 200, {"result": {"allow": True}}, ["ok", "sent"]),
        ("opa", 200, {"result": False}, ["forbidden"]),
        ("opa", 200, {"result": {"allow": False, "reason": "too late"}}, ["forbidden"]),
        ("opa", 200, {}, ["forbidden"]),
        ("opa", 200, {"result": {}}, ["forbidden"]),
        ("opa", 200, {"result": "yes"}, ["middleware_failed"]),
        ("opa", 200, {"result": {"allow": "yes"}}, ["middleware_failed"]),
        ("opa", 404, {"result": True}, ["middleware_failed"]),
    ],
)
async def test_only_a_plain_yes_lets_a_call_on(
    tmp_path: Path, point: DecisionServer, kind: str, status: int, answer: Any, outcome: list[str]
) -> None:
    point.status, point.answer = status, json.dumps(answer).encode()
    assert await outcomes(tmp_path / "p", {kind: {"url": f"{point.url}/decide"}, "timeout": "10s"}) == outcome


@pytest.mark.parametrize("kind", ["authzen", "opa"])
@pytest.mark.parametrize(
    "answer",
    [
        b'{"decision": false, "decision": true, "result": false, "result": true}',
        b'{"decision": true, "result": true} {"decision": false, "result": false}',
        b'{"decision": true, "result": true, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"decision": true, "result": true, "x": "' + b"a" * 5_000_000 + b'"}',
        b'{"decision": true\x00, "result": true}',
        b"<p>true</p>",
        b"[true]",
        b"",
    ],
    ids=["twice", "two", "deep", "long", "nul", "html", "list", "nothing"],
)
async def test_an_answer_of_another_form_is_a_no(
    tmp_path: Path, point: DecisionServer, kind: str, answer: bytes
) -> None:
    point.answer = answer
    assert await outcomes(tmp_path / "p", {kind: {"url": point.url}, "timeout": "10s"}) == ["middleware_failed"]


async def test_authzen_is_asked_in_the_words_of_its_standard(
    tmp_path: Path, point: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDP_TOKEN", SECRET)
    point.answer = b'{"decision": true}'
    entry = {"authzen": {"url": f"{point.url}/access/v1/evaluation", "token": "${env:PDP_TOKEN}"}, "timeout": "10s"}
    assert await outcomes(tmp_path / "p", entry) == ["ok", "sent"]
    ((path, authorization, body),) = point.asked
    assert (path, authorization) == ("/access/v1/evaluation", f"Bearer {SECRET}")
    assert body["subject"]["id"] == "bot"
    assert body["subject"]["properties"]["roles"] == ["bot"]
    assert body["action"] == {"name": "call", "properties": {"effect": "read"}}
    assert (body["resource"]["type"], body["resource"]["id"]) == ("tool", "orders__list_orders")
    assert body["resource"]["properties"]["arguments"] == {"tenant_id": "acme"}


async def test_the_reason_is_told_and_bounded(tmp_path: Path, point: DecisionServer) -> None:
    point.answer = json.dumps({"decision": False, "context": {"reason_user": {"en": "closed\n" * 200}}}).encode()

    with upstream() as (_, server):
        path = project(tmp_path / "p", server, RULES, middleware=[{"authzen": {"url": point.url}, "timeout": "10s"}])
        async with Gateway.load(path) as gateway:
            envelope = await gateway.call("orders__list_orders", {"tenant_id": "acme"}, principal="bot")
        assert envelope.error is not None
        assert "decision point" in envelope.error.message
        assert ": closed closed" in envelope.error.message
        assert len(envelope.error.message) < 400


async def test_the_same_question_is_asked_once_in_a_while(tmp_path: Path, point: DecisionServer) -> None:
    point.answer = b'{"result": true}'
    assert (await outcomes(tmp_path / "a", {"opa": {"url": point.url, "cache": "1h"}, "timeout": "10s"}, 3)).count(
        "sent"
    ) == 3
    assert len(point.asked) == 1
    await outcomes(tmp_path / "b", {"opa": {"url": point.url, "cache": "0s"}, "timeout": "10s"}, 2)
    assert len(point.asked) == 3


async def test_one_that_does_not_answer_in_time_is_a_no(tmp_path: Path, point: DecisionServer) -> None:
    point.open.clear()
    try:
        assert await outcomes(tmp_path / "p", {"opa": {"url": point.url}, "timeout": "50ms"}) == ["middleware_failed"]
    finally:
        point.open.set()


async def test_it_is_reached_through_the_egress_rules_of_the_policy(tmp_path: Path, point: DecisionServer) -> None:
    point.answer = b'{"result": true}'
    metadata = {"opa": {"url": "http://169.254.169.254/v1/data"}, "timeout": "10s"}
    assert await outcomes(tmp_path / "a", metadata) == ["middleware_failed"]

    async def run(seen: list[Any], server: str) -> None:
        port = server.rpartition(":")[2]
        closed = {**RULES, "egress": {"private_networks": "deny", "allow": [f"127.0.0.1:{port}"]}}
        path = project(tmp_path / "b", server, closed, middleware=[{"opa": {"url": point.url}, "timeout": "10s"}])
        async with Gateway.load(path) as gateway:
            envelope = await gateway.call("orders__list_orders", {"tenant_id": "acme"}, principal="bot")
        assert envelope.error is not None
        assert envelope.error.code == "middleware_failed"
        assert seen == []

    with upstream() as (seen, server):
        await run(seen.requests, server)
    assert point.asked == []


CEDAR = """
permit(principal in Role::"bot", action == Action::"call:read", resource in Source::"orders")
when { context.arguments.tenant_id == "acme" };
"""


@pytest.mark.parametrize(
    ("policies", "outcome"),
    [
        (CEDAR, ["ok", "sent"]),
        (CEDAR.replace("acme", "globex"), ["forbidden"]),
        (CEDAR.replace('"bot"', '"other"'), ["forbidden"]),
        (CEDAR.replace("read", "write"), ["forbidden"]),
        (
            CEDAR + 'forbid(principal, action, resource) when { context.arguments.nothing == "x" };',
            ["middleware_failed"],
        ),
        (CEDAR + 'forbid(principal == Principal::"bot", action, resource);', ["forbidden"]),
        ("permit(", ["middleware_failed"]),
        ("", ["forbidden"]),
    ],
)
async def test_cedar_decides_by_its_own_library(tmp_path: Path, policies: str, outcome: list[str]) -> None:
    pytest.importorskip("cedarpy")
    file = tmp_path / "checks.cedar"
    file.write_text(policies)
    assert await outcomes(tmp_path / "p", {"cedar": {"policies": str(file)}, "timeout": "10s"}) == outcome


async def test_cedar_without_its_library_or_file_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.gateway.policies.middleware.find_spec", lambda name: None)
    file = tmp_path / "checks.cedar"
    file.write_text(CEDAR)
    with pytest.raises(ConfigError, match="needs its library"):
        await outcomes(tmp_path / "p", {"cedar": {"policies": str(file)}})
