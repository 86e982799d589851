"""A gateway with call plans and one without them, before the same drawn policy, calls and upstream behaviours: equal in all they do."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from tests.exhaustive import size
from tests.gateway.clients import listening
from tests.stream_servers import stream_server
from tests.without_plans import switch_off_plans
from toolgen.audit.reader import entries
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import PolicyError
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

pytestmark = pytest.mark.usefixtures("sql_processes")
WORLDS = size("TOOLGEN_PLAN_WORLDS", 25, 400)
CALLS_EACH = 8
"""200 calls by default, and 3,200 in an exhaustive run."""
SECRET = "upstream-key-4711"
KEYS = {name: f"key-of-{name}" for name in ("bot", "other")}
_PATH_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
_TEXTS = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 20}, "amount": {"type": "integer"}},
    "required": ["text"],
}


def _operation(name: str, *parameters: Any, body: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": name,
        "summary": name,
        "parameters": list(parameters),
        "security": [{"key": []}],
        "responses": {"200": {"description": "ok"}},
    }
    if body:
        made["requestBody"] = {"required": True, "content": {body: {"schema": _TEXTS}}}
    return made


API = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {
        "/items/{id}": {
            "get": _operation("get", _PATH_ID, {"name": "view", "in": "query", "schema": {"type": "string"}}),
            "delete": _operation("remove", _PATH_ID),
            "put": _operation("replace", _PATH_ID, body="application/json"),
        },
        "/items": {
            "get": _operation("list", {"name": "limit", "in": "query", "schema": {"type": "integer"}}),
            "post": _operation("add", body="application/json"),
        },
        "/forms": {"post": _operation("send", body="application/x-www-form-urlencoded")},
    },
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}
SCHEMA = "type Query { thing(id: Int!): Thing } type Thing { id: Int name: String }"
QUERY = """-- name: one
-- description: The name of one customer.
-- parameter: id integer  The customer's id.
SELECT name FROM customers WHERE id = :id;
"""
ROWS = """CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT);
INSERT INTO customers VALUES (1, 'Ada', 'a@example.com');
"""
STATEMENTS = ("SELECT id, name FROM customers WHERE id = 1", "SELECT email FROM customers", "DELETE FROM customers")
USUAL: dict[str, tuple[dict[str, Any], ...]] = {
    "api__get_item": ({"id": 5}, {"id": 1}, {"id": 5, "view": "short"}),
    "api__list_items": ({}, {"limit": 3}),
    "api__add": ({"text": "hello"}, {"text": "a b&c", "amount": 7}),
    "api__send": ({"text": "hello"}, {"text": "a b&c", "amount": 7}),
    "api__remove": ({"id": 5},),
    "api__replace": ({"id": 5, "text": "hello"},),
    "graph__get_thing": ({"id": 5},),
    "shop__query": tuple({"sql": sql} for sql in STATEMENTS),
    "shop__one": ({"id": 1}, {"id": 2}),
    "api__nothing": ({},),
}
"""Arguments that the tools take."""


def _http(status: str, body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in headers)
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


_JSON = "Content-Type: application/json"
_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWERS: dict[str, bytes] = {
    "plain": _http("200 OK", b'{"id": 5, "name": "one", "email": "a@example.com"}', _JSON),
    "list": _http("200 OK", json.dumps([{"id": n, "name": "x" * 30} for n in range(300)]).encode(), _JSON),
    "long": _http("200 OK", json.dumps([{"id": n, "name": "é\n" * 40} for n in range(1500)]).encode(), _JSON),
    "escapes": _http("200 OK", b'{"name": "a\\u0041\\n\\"q\\""}', _JSON),
    "echo": _http("200 OK", json.dumps({"header": SECRET}).encode(), _JSON),
    "graph": _http("200 OK", b'{"data": {"thing": {"id": 5, "name": "one"}}}', _JSON),
    "graph errors": _http("200 OK", b'{"data": null, "errors": [{"message": "no"}]}', _JSON),
    "rejected": _http("200 OK", b'{"success": false, "error": "not now"}', _JSON),
    "text": _http("200 OK", b"just text", "Content-Type: text/plain"),
    "bytes": _http("200 OK", b"\x89PNG\r\n\x1a\n" + bytes(50), "Content-Type: image/png"),
    "empty": b"HTTP/1.1 204 No Content\r\n\r\n",
    "not JSON": _http("200 OK", b'{"half', _JSON),
    "deep": _http("200 OK", b"[" * 90 + b"]" * 90, _JSON),
    "chunked": _CHUNKED + b'8\r\n{"id": 1\r\n1\r\n}\r\n0\r\n\r\n',
    "cut": b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"id": 5,',
    "cut chunk": _CHUNKED + b'20\r\n{"id"',
    "no HTTP": b"SSH-2.0-nothing\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "nothing": b"",
    "missing": _http("404 Not Found", b'{"detail": "no such item"}', "Content-Type: application/problem+json"),
    "unauthorized": _http("401 Unauthorized", b"{}", _JSON),
    "conflict": _http("409 Conflict", b'{"error": {"message": "taken"}}', _JSON),
    "broken": _http("500 Internal Server Error", b"oops", "Content-Type: text/plain"),
    "busy": _http("503 Service Unavailable", b"", "Retry-After: 0"),
    "too many": _http("429 Too Many Requests", b"{}", _JSON, "Retry-After: 0"),
    "moved": _http("302 Found", b"", "Location: /items/7"),
    "away": _http("302 Found", b"", "Location: http://192.0.2.1/x"),
    "rates": _http("200 OK", b'{"id": 5}', _JSON, "RateLimit-Remaining: 900", "RateLimit-Reset: 9"),
    "kept": _http("200 OK", b'{"id": 5}', _JSON, "Cache-Control: max-age=60", 'ETag: "a"', 'Link: </items?p=2>; rel="next"'),
}  # fmt: skip
HANGS = "hangs"
"""Behaviour of an upstream that never answers: the call ends by its timeout."""
FRONTS = ("mcp 2025", "mcp 2026", "rest", "python")


@dataclass(frozen=True)
class Made:
    """A call of a caller, the front end it comes in by, and how the upstream answers each request of it."""

    tool: str
    arguments: dict[str, Any]
    caller: str
    front: str
    behaviour: str
    key: str


@dataclass
class Seen:
    """All that a gateway did: answers, requests as they came, entries, counters, and open places."""

    answers: list[Any] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    record: list[dict[str, Any]] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)


VALUES = st.sampled_from([1, 5, 0, "5", "x", "", None, True, 5.0, [1], "y" * 30, "ü", "\ud800", {"a": 1}])
ARGUMENTS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "view", "limit", "text", "amount", "more", "answer", "_x"), VALUES)
)


@st.composite
def made_calls(draw: st.DrawFn) -> Made:
    tool = draw(st.sampled_from([*USUAL, *list(USUAL)[:4]]))
    usual = draw(st.integers(0, 4))
    return Made(
        tool=tool,
        arguments=draw(st.sampled_from(USUAL[tool]) if usual else ARGUMENTS),
        caller=draw(st.sampled_from(["bot", "bot", "bot", "other"])),
        front=draw(st.sampled_from(FRONTS)),
        behaviour=draw(st.sampled_from([*ANSWERS, *["plain"] * 12, *["graph"] * 6, HANGS])),
        key=draw(st.sampled_from(["", "", "", "", "once"])),
    )


CONDITIONS = st.sampled_from(
    ["", "", "", "args.id == 5", "args.text == 'hello'", "principal.id == 'bot'", "args.id < 3"]
)
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {},
        {},
        {"properties": {"id": {"maximum": 3}}},
        {"properties": {"text": {"enum": ["hello"]}}, "required": ["text"]},
    ]
)


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    rules = []
    for number in range(draw(st.integers(1, 3))):
        one: dict[str, Any] = {
            "id": f"r{number}",
            "to": draw(st.sampled_from([["bot"], ["bot", "other"]])),
            "tools": draw(st.sampled_from([["*"], ["*"], ["api__*"], ["api__get_item", "shop__*", "graph__*"]])),
            "verdict": draw(st.sampled_from(["allow", "deny", "ask"])) if number else "allow",
        }
        if draw(st.booleans()) and number:
            one["effects"] = draw(st.sampled_from([["read"], ["write", "destructive"]]))
        if when := draw(CONDITIONS):
            one["when"] = when
        if schema := draw(SCHEMAS):
            one["arguments"] = schema
        rules.append(one)
    policy: dict[str, Any] = {
        "principals": {
            name: {"api_key": "sha256:" + hashlib.sha256(key.encode()).hexdigest(), "roles": [name]}
            for name, key in KEYS.items()
        },
        "rules": rules,
        "approvals": {"approvers": ["other"]},
        "sql": {"shop": {"tables": {"customers": {"columns": ["id", "name"]}}, "max_rows": 10}},
        "egress": {"private_networks": "allow"},
    }
    if draw(st.booleans()):
        burst = draw(st.integers(1, 5))
        policy["limits"] = [
            {"id": "few", "per": ["principal"], "rate": "1/day", "burst": burst},
            {"id": "many", "per": ["tool"], "rate": "9000/s"},
        ]
    if draw(st.integers(0, 2)) == 0:
        policy["redact"] = [{"tools": ["api__*"], "fields": ["$..email"], "with": "***"}]
    if draw(st.integers(0, 2)) == 0:
        rules[0] |= {"tools": ["api__get_item"], "bind": {"view": "principal.id"}}
    return policy


class Upstream:
    """Answers each request as the call in progress says, and keeps what it was sent."""

    def __init__(self) -> None:
        self.behaviour = "plain"
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                self.requests.append(head + await reader.readexactly(int(length[1]) if length else 0))
                if self.behaviour == HANGS:
                    await reader.read()
                    return
                # A redirect leads to a plain answer.
                again = self.behaviour == "moved" and head.startswith(b"GET /items/7")
                writer.write(ANSWERS["plain" if again else self.behaviour])
                if self.behaviour in {"cut", "cut chunk", "no HTTP", "two lengths", "nothing"}:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _project(root: Path, port: int, policy: dict[str, Any]) -> Path:
    for folder in ("specs", "policies"):
        (root / folder).mkdir(parents=True)
    (root / "specs" / "api.json").write_text(json.dumps(API))
    (root / "specs" / "graph.graphql").write_text(SCHEMA)
    (root / "specs" / "one.sql").write_text(QUERY)
    connection = sqlite3.connect(root / "specs" / "shop.db")
    connection.executescript(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT); INSERT INTO customers VALUES (1, 'Ada', 'a@example.com');"
    )
    connection.close()
    server = f"http://127.0.0.1:{port}"
    waits = {"timeouts": {"connect": "5s", "first_byte": "300ms"}, "retries": {"attempts": 2, "longest_wait": "10ms"}}
    sources = {
        "api": {"openapi": "specs/api.json", "server": server, "auth": {"key": SECRET_REFERENCE}, **waits},
        "graph": {"graphql": "specs/graph.graphql", "endpoint": f"{server}/graphql", "auth": "none", **waits},
        "shop": {"sql": "sqlite:///specs/shop.db", "queries": "specs/one.sql"},
    }
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources, "state": "memory"}))
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy))
    return path


SECRET_REFERENCE = "${env:TEST_DIFFERENTIAL_KEY}"
_VOLATILE = frozenset(
    {"seq", "time", "hash", "prev", "call_id", "duration_ms", "stream", "approval_id", "policy_digest", "id"}
)
_COUNTER = re.compile(r"(?!process_|toolgen_audit_)\w+_(?:total|count)\b(?<!seconds_total)")
_IDS = re.compile(r"(?:call|appr)_[0-9a-f]{8,}|[0-9a-f]{32,}|127\.0\.0\.1:\d+|\d+(?:\.\d+)? m?s\b")
_TIMES = re.compile(
    r'"(?:duration_ms|audit_seq|age_s|retry_after_s|expires_at|retryAfter|pollInterval|next_cursor|cursor)":\s*("[^"]*"|[\d.]+)'
)


def _settled(value: Any) -> str:
    """An answer or entry as text without ids, times and ports."""
    return _IDS.sub("*", _TIMES.sub("", json.dumps(value, sort_keys=True)))


async def _called(gateway: Gateway, client: httpx.AsyncClient, made: Made) -> Any:
    headers = {"authorization": f"Bearer {KEYS[made.caller]}", "accept": "application/json, text/event-stream"}
    headers["content-type"] = "application/json"
    if made.key:
        headers["idempotency-key"] = made.key
    if made.front == "python":
        envelope = await gateway.call(made.tool, made.arguments, principal=made.caller, idempotency_key=made.key)
        return envelope.to_dict()
    if made.front == "rest":
        body = json.dumps({"arguments": made.arguments, "wait": 0})
        response = await client.post(f"/v1/tools/{made.tool}/call", content=body, headers=headers)
        while b'"deferred"' in response.content:  # the next call begins when this one has ended
            await asyncio.sleep(0.01)
            response = await client.get(f"/v1/calls/{response.json()['call_id']}", headers=headers)
        return [response.status_code, response.json() if response.content else None]
    params: dict[str, Any] = {"name": made.tool, "arguments": made.arguments}
    if made.front == "mcp 2026":
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": made.tool}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    else:
        headers["mcp-protocol-version"] = "2025-11-25"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    response = await client.post("/mcp", content=json.dumps(message), headers=headers)
    return [
        response.status_code,
        response.text if "event-stream" in response.headers.get("content-type", "") else response.json(),
    ]


async def _world(root: Path, policy: dict[str, Any], calls: Sequence[Made]) -> Seen:
    """What a gateway made of this policy does with these calls, one after the other."""
    seen, upstream = Seen(), Upstream()
    async with stream_server(upstream.serve) as port:
        path = _project(root, port, policy)
        async with (
            Gateway.load(path) as gateway,
            listening(App(gateway)) as url,
            httpx.AsyncClient(base_url=url, timeout=60) as client,
        ):
            for made in calls:
                upstream.behaviour = made.behaviour
                seen.answers.append(_settled(await _called(gateway, client, made)))
            metrics = await client.get("/metrics", headers={"authorization": f"Bearer {KEYS['other']}"})
        counters = filter(_COUNTER.match, metrics.text.splitlines())
        seen.counters = sorted(one for one in counters if '"202"' not in one)  # answers while a call runs on
    seen.requests = [_IDS.sub("*", one.decode("latin-1")).encode("latin-1") for one in upstream.requests]
    found = entries(load_settings(path).audit_dir)
    seen.record = [
        {name: _settled(value) for name, value in entry.items() if name not in _VOLATILE} for entry in map(dict, found)
    ]
    return seen


@pytest.mark.sweep
@settings(max_examples=WORLDS, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(policies(), st.lists(made_calls(), min_size=CALLS_EACH, max_size=CALLS_EACH))
async def test_a_gateway_without_plans_does_the_same(policy: dict[str, Any], calls: list[Made]) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("TEST_DIFFERENTIAL_KEY", SECRET)
        try:
            planned = await _world(Path(folder) / "planned", policy, calls)
        except PolicyError:
            reject()
        switch_off_plans(patch)
        general = await _world(Path(folder) / "general", policy, calls)
    for made, one, other in zip(calls, planned.answers, general.answers, strict=True):
        assert one == other, made
    assert planned.requests == general.requests
    assert planned.record == general.record
    assert planned.counters == general.counters
