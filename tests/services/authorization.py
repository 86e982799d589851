"""An authorization server and a Vault on local ports: they answer as they were told to, and remember everything they were asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

from tests.services.local import LocalServer, running


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass
class Answered:
    """One answer. `body` may be chunks without an end."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, status: int = 200, **fields: Any) -> Answered:
        return cls(status, json.dumps(fields).encode(), {"Content-Type": "application/json"})


@dataclass
class Service:
    """A local service. `answer` decides; `gate`, when it is cleared, holds every answer back."""

    answer: Callable[[Asked], Answered]
    asked: list[Asked] = field(default_factory=list)
    origin: str = ""
    gate: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Event = field(default_factory=threading.Event)


def token(value: str, **more: Any) -> Answered:
    return Answered.json(**{"access_token": value, "token_type": "Bearer", "expires_in": 3600, **more})


@contextmanager
def serving(answer: Callable[[Asked], Answered]) -> Iterator[Service]:
    service = Service(answer)
    service.gate.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, dict(self.headers), body)
            service.asked.append(asked)
            service.arrived.set()
            service.gate.wait(120)
            answered = service.answer(asked)
            self.send_response(answered.status)
            for name, value in answered.headers.items():
                self.send_header(name, value)
            if isinstance(answered.body, bytes):
                self.send_header("Content-Length", str(len(answered.body)))
                self.end_headers()
                self.wfile.write(answered.body)
                return
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                for chunk in answered.body:
                    self.wfile.write(chunk)
            except OSError:
                pass  # whoever asked has had enough

        do_GET = do_POST = do_PUT = do_DELETE = _any

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    server = LocalServer(("127.0.0.1", 0), Handler)
    service.origin = server.url
    with running(server):
        try:
            yield service
        finally:
            service.gate.set()
