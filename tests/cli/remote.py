"""Descriptions that are somewhere else, and projects that name them."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import graphql

from tests.projects import PETS
from tests.services.local import LocalServer
from toolgen.connectors.pins import LOCK


class Descriptions:
    """A server on loopback whose answers a test sets, by path. An empty answer is a 500."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {"/pets.json": json.dumps(PETS).encode()}
        self.redirects: dict[str, str] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if self.path in outer.redirects:
                    self.send_response(302)
                    self.send_header("Location", outer.redirects[self.path])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self._answer(outer.answers.get(self.path, b""))

            def do_POST(self) -> None:
                outer.asked.append(self.path)
                query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                schema = graphql.build_schema(outer.answers[self.path].decode())
                found = graphql.graphql_sync(schema, query["query"])
                self._answer(json.dumps(found.formatted).encode())

            def _answer(self, body: bytes) -> None:
                self.send_response(200 if body else 500)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = LocalServer(("127.0.0.1", 0), Handler)
        self.url = self.server.url

    def change(self, old: str, new: str) -> None:
        self.answers["/pets.json"] = self.answers["/pets.json"].replace(old.encode(), new.encode())


def configure(root: Path, **sources: Any) -> None:
    (root / "toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")


def lock() -> Any:
    return json.loads(Path(LOCK).read_text(encoding="utf-8"))["descriptions"]
