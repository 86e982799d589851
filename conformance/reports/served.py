"""A gateway and an upstream on loopback, for one check."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

import toolgen
from toolgen.frontends.http.app import App
from toolgen.frontends.http.connection import HttpConnection
from toolgen.frontends.http.connections import Connections, HttpServer
from toolgen.frontends.http.cross_origin import CrossOrigin
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.sockets import bind

KEY = "reports-key"
VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
_POLICY = {
    "principals": {"agent": {"api_key": f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}", "roles": ["agent"]}},
    "rules": [
        {
            "id": "all",
            "to": ["agent"],
            "tools": ["*"],
            "effects": ["read", "write", "destructive"],
            "verdict": "allow",
        }
    ],
    "egress": {"private_networks": "allow"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an upstream answers."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as an upstream received it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Upstream:
    """An HTTP service that answers as it is told, and what it received."""

    def __init__(self, answer: Callable[[Received], Answer]) -> None:
        self.received: list[Received] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                one = Received(method=self.command, target=self.path, headers=headers, body=body)
                outer.received.append(one)
                said = answer(one)
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                if said.status not in {204, 304}:
                    self.send_header("Content-Length", str(len(said.body)))
                self.end_headers()
                if said.status not in {204, 304}:
                    self.wfile.write(said.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - names of http.server

            def log_message(self, *_: object) -> None:
                """Say nothing on standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[Upstream]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class Client:
    """A client of a gateway, over REST and MCP."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self._ids = 0

    async def rest(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        answer = await self.http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})
        return answer.json()

    async def mcp(
        self, method: str, params: Mapping[str, Any], *, path: str = "/mcp", version: str = "2025-06-18"
    ) -> Any:
        """The result of one request, or the error."""
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        answer = await self.post(message, path=path, version=version)
        found = parsed(answer)
        return found.get("result", found)

    async def post(self, message: Any, *, path: str = "/mcp", version: str = "2025-06-18") -> httpx.Response:
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
        return await self.http.post(path, json=message, headers=headers)


def parsed(answer: httpx.Response) -> Any:
    """The message of an answer, in JSON or as the last event of a stream."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        data = [line[5:].strip() for line in answer.text.splitlines() if line.startswith("data:") and line[5:].strip()]
        return json.loads(data[-1])
    return answer.json()


@asynccontextmanager
async def serving(
    sources: Mapping[str, Any], *, root: Path | None = None, gateway: Mapping[str, Any] | None = None, **policy: Any
) -> AsyncIterator[Client]:
    """A client of a gateway with these sources. `policy` are sections beside a rule that allows everything."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) if root is None else root
        (project / "policies").mkdir(exist_ok=True)
        (project / "policies" / "policy.yaml").write_text(json.dumps({**_POLICY, **policy}), encoding="utf-8")
        settings = {"sources": sources, "audit": {"dir": str(Path(folder) / "audit")}, "gateway": dict(gateway or {})}
        (project / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
        listener = bind("127.0.0.1", 0)
        async with Gateway.load(project / "toolgen.yaml") as one:
            origins = frozenset(origin.encode("ascii") for origin in one.settings.cors_origins)
            app = App(one, cross_origin=CrossOrigin(origins=origins))
            server = HttpServer(app, Connections())
            loop = asyncio.get_running_loop()
            running = await loop.create_server(partial(HttpConnection, server), sock=listener)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            headers = {"Authorization": f"Bearer {KEY}"}
            try:
                async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
                    yield Client(http)
            finally:
                app.end_streams()
                running.close()
                await server.drain(5)


def described(folder: Path, paths: Mapping[str, Any], url: str = "http://127.0.0.1:9", **more: Any) -> Path:
    """A description of a service at a URL, written into a folder."""
    document = {
        "openapi": "3.0.3",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": url}],
        "paths": paths,
        **more,
    }
    path = folder / "described.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def built(path: Path) -> Any:
    """The manifest of a description as the source `t`."""
    return toolgen.build({"t": {"openapi": str(path.resolve())}}, root=path.parent)
