"""A project of an API with notes and issues, and workflows over it; the API is real, keeps what it is told, and can be told to fail."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.gateway.governed import PRINCIPALS
from tests.services.local import LocalServer, running
from toolgen.frontends.python.gateway import Gateway
from toolgen.generator.build import build
from toolgen.model.manifest import Manifest

_TEXT = {"type": "string"}


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _operation(name: str, *parameters: dict[str, Any], body: dict[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": name,
        "summary": name,
        "parameters": list(parameters),
        "responses": {"200": {"description": "ok"}},
    }
    if body is not None:
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return made


_NOTE = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": _TEXT, "tags": {"type": "array", "items": _TEXT}},
}
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Notes", "version": "1"},
    "paths": {
        "/issues": {"get": _operation("searchIssues", _parameter("q", "query", _TEXT), _parameter("limit", "query", {"type": "integer"}))},
        "/issues/{id}": {"get": _operation("getIssue", _parameter("id", "path", {"type": "integer"}))},
        "/notes": {"post": _operation("createNote", body=_NOTE)},
        "/notes/{id}": {
            "put": _operation("replaceNote", _parameter("id", "path", {"type": "integer"}), body=_NOTE),
            "delete": _operation("deleteNote", _parameter("id", "path", {"type": "integer"})),
        },
        "/report": {"post": _operation("sendReport", body={"type": "object", "properties": {"text": _TEXT}})},
    },
}  # fmt: skip
ISSUES = [{"id": 1, "title": "It is slow", "open": True}, {"id": 2, "title": "It is wrong", "open": True}]


@dataclass
class Service:
    """What the API has and was asked. `fails` has the status that a path and method is answered with, so many times."""

    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    notes: dict[int, Any] = field(default_factory=dict)
    fails: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    held: dict[str, threading.Event] = field(default_factory=dict)  # by path, until when an answer is held back
    lock: threading.Lock = field(default_factory=threading.Lock)
    made: int = 0
    issues: list[Any] = field(default_factory=lambda: ISSUES)

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(target)
        if (event := self.held.get(parts.path)) is not None:
            event.wait(60)
        with self.lock:
            self.asked.append((method, target, body))
            if left := self.fails.get((method, parts.path)):
                return left.pop(0), {"detail": "told to"}
            kind, _, key = parts.path.strip("/").partition("/")
            if kind == "issues" and not key:
                limit = int(parse_qs(parts.query).get("limit", ["9"])[0])
                return 200, {"items": self.issues[:limit], "total": len(self.issues)}
            if kind == "issues":
                return 200, ISSUES[int(key) - 1]
            if kind == "report":
                return 200, {"sent": True, "text": body.get("text", "")}
            if method == "DELETE":
                return 200, {"gone": self.notes.pop(int(key), None) is not None}
            if method == "POST":
                self.made += 1
                key = str(self.made)
            self.notes[int(key)] = body
            return 201, {"id": int(key), **body}

    @property
    def paths(self) -> list[str]:
        """Method and path of everything it was asked, in order."""
        return [f"{method} {urlsplit(target).path}" for method, target, _ in self.asked]


@contextmanager
def serving() -> Iterator[tuple[Service, str]]:
    """The API on a port of its own, until the block ends."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length)
            status, body = service.answer(self.command, self.path, json.loads(raw) if raw else None)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield service, server.url


ALLOWED = {"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "write", "destructive"], "verdict": "allow"}


def project(root: Path, server: str, workflows: dict[str, Any] | str, **policy: Any) -> Path:
    """Writes the project; returns its toolgen.yaml. `workflows` is the file of workflows, or what stands under `workflows:` in it."""
    for folder in ("specs", "policies"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "specs/notes.json").write_text(json.dumps(API))
    text = workflows if isinstance(workflows, str) else json.dumps({"workflows": workflows})
    (root / "specs/flows.yaml").write_text(text)
    people = {**PRINCIPALS, "lead": {"roles": ["lead"]}}
    policy = {"rules": [ALLOWED], **policy}
    whole = {"principals": people, "egress": {"private_networks": "allow"}, **policy}
    (root / "policies/policy.yaml").write_text(json.dumps(whole, indent=1))
    sources = {
        "notes": {"openapi": "specs/notes.json", "server": server, "retries": "never", "breaker": "never"},
        "flows": {"workflow": "specs/flows.yaml"},
    }
    (root / "toolgen.yaml").write_text(json.dumps({"sources": sources}))
    return root / "toolgen.yaml"


def built(root: Path, workflows: dict[str, Any] | str) -> Manifest:
    """The manifest of such a project."""
    project(root, "http://127.0.0.1:9", workflows)
    sources = json.loads((root / "toolgen.yaml").read_text())["sources"]
    return build(sources, root=root)


def faults(root: Path, workflows: dict[str, Any] | str) -> list[str]:
    """What a build says is wrong with workflows."""
    return [one.message for one in built(root, workflows).problems if one.level == "error"]


@asynccontextmanager
async def served(root: Path, workflows: dict[str, Any] | str, **policy: Any) -> AsyncIterator[tuple[Gateway, Service]]:
    """Gateway of a project with workflows, and the API of its steps."""
    with serving() as (service, server):
        async with Gateway.load(project(root, server, workflows, **policy)) as gateway:
            yield gateway, service


def record(root: Path) -> list[dict[str, Any]]:
    """Every entry of the record."""
    lines = [line for path in sorted((root / "var/audit").glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]
