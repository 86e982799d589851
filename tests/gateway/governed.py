"""A whole project of one small API with tenants, behind a policy of the test's own; the API is real, and says what reached it."""

from __future__ import annotations

import hashlib
import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.services.local import LocalServer, running
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.inner_calls import NestedCalls
from toolgen.gateway.operations.suspended_calls import SuspendedCalls

PRINCIPALS: dict[str, Any] = {
    name: {"api_key": "sha256:" + hashlib.sha256(f"key-of-{name}".encode()).hexdigest(), **rest}
    for name, rest in {
        "bot": {"roles": ["bot"], "attributes": {"tenant": "acme", "limit": 500}, "acts_for": ["ann", "eve"]},
        "ann": {"roles": ["user"], "attributes": {"tenant": "acme"}},
        "eve": {"roles": ["user"], "attributes": {"tenant": "globex"}},
        "bare": {"roles": ["bot"]},
    }.items()
}
_QUERY = {"in": "query", "schema": {"type": "string"}}


def _operation(name: str, *parameters: dict[str, Any], body: dict[str, Any] | None = None) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": name,
        "parameters": list(parameters),
        "responses": {"200": {"description": "ok"}},
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


_TENANT = {"name": "tenant_id", "required": True, **_QUERY}
_ORDER = {
    "type": "object",
    "required": ["tenant_id", "amount_cents"],
    "properties": {
        "tenant_id": {"type": "string"},
        "amount_cents": {"type": "integer"},
        "note": {"type": "string"},
    },
}
_WRAPPED = {
    "type": "array",
    "items": {"type": "object", "properties": {"tenant_id": {"type": "string"}}},
}
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "version": "1"},
    "paths": {
        "/orders": {
            "get": _operation(
                "listOrders",
                _TENANT,
                {"name": "status", **_QUERY},
                {
                    "name": "filter",
                    "in": "query",
                    "style": "form",
                    "explode": True,
                    "schema": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            ),
            "post": _operation("createOrder", body=_ORDER),
        },
        "/open": {"post": _operation("createOpenOrder", body={**_ORDER, "additionalProperties": True})},
        "/batch": {"post": _operation("createOrders", body=_WRAPPED)},
        "/health": {"get": _operation("getHealth")},
        "/check": {"get": _operation("checkFraud", {"name": "order", **_QUERY})},
        "/mail": {"post": _operation("sendMail", body={"type": "object", "properties": {"to": {"type": "string"}}})},
        "/pet/{id}": {"delete": _operation("deleteOrder", {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})},
    },
}  # fmt: skip


class Upstream:
    """The API: every request that reached it as (method, path with query, body). It answers while `answers` is set."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.status = 200
        self.body = b'{"ok":true}'
        self.faults: dict[str, int] = {}  # the status of a path that has one of its own
        self.answers = threading.Event()
        self.answers.set()
        self._news = threading.Condition()
        self._closed = threading.Event()

    def wait(self, connection: socket.socket) -> bool:
        """Whether it may answer by now; False where the client closed the connection first."""
        while not self.answers.wait(0.02):
            if select.select([connection], [], [], 0)[0] and not connection.recv(1, socket.MSG_PEEK):
                self._closed.set()
                return False
        return True

    def closed(self) -> bool:
        """Whether a client closed its connection before it was answered; waits for that, in a thread."""
        return self._closed.wait(120)

    def take(self, method: str, path: str, body: str) -> None:
        """A request that reached it."""
        with self._news:
            self.requests.append((method, path, body))
            self._news.notify_all()

    def reached(self, count: int) -> None:
        """Returns once so many requests have come; asked in a thread."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.requests) >= count, 120), self.requests


@contextmanager
def upstream() -> Iterator[tuple[Upstream, str]]:
    """The API on a port of its own, until the block ends."""
    seen = Upstream()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            seen.take(self.command, self.path, body)
            if not seen.wait(self.connection):
                return
            data = seen.body
            self.send_response(seen.faults.get(self.path.partition("?")[0], seen.status))
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield seen, server.url


def project(root: Path, server: str, policy: dict[str, Any], **settings: Any) -> Path:
    """Writes the project with `policy` beside the principals above; returns its toolgen.yaml."""
    (root / "specs").mkdir(parents=True)
    (root / "policies").mkdir()
    (root / "specs" / "orders.json").write_text(json.dumps(API))
    write_policy(root, policy)
    path = root / "toolgen.yaml"
    sources = {"orders": {"openapi": "specs/orders.json", "server": server}}
    path.write_text(json.dumps({"sources": sources, **settings}))
    return path


def write_policy(root: Path, policy: dict[str, Any]) -> None:
    """Writes the policy of a project again."""
    whole = {"principals": PRINCIPALS, "egress": {"private_networks": "allow"}, **policy}
    (root / "policies" / "policy.yaml").write_text(json.dumps(whole, indent=1))


def nested(gateway: Gateway) -> NestedCalls:
    """The inner calls of a gateway, as its executors have them."""
    suspended = SuspendedCalls(gateway.approvals.calls, gateway.current, gateway.accounts)
    return NestedCalls(gateway.current, gateway.tool_calls._preparation, gateway.tool_calls, suspended)
