"""A webhook receiver of a test's own, over real HTTP: it says what came, and answers as it is told to, or not at all."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import msgspec

from tests.services.local import LocalServer, running


@dataclass
class Delivered:
    """One request, its headers in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


@dataclass
class Receiver:
    """`answers` are taken in order, and after the last it is 200: a status with headers, `hang` (until `release`), or `close`."""

    url: str = ""
    answers: list[Any] = field(default_factory=list)
    got: list[Delivered] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def take(self, request: Delivered) -> Any:
        """A request came; how it is answered."""
        with self._news:
            self.got.append(request)
            answer = self.answers.pop(0) if self.answers else (200, {})
            self._news.notify_all()
        return answer

    async def reached(self, count: int) -> list[Delivered]:
        """The requests, once so many have come."""

        def wait() -> list[Delivered]:
            with self._news:
                assert self._news.wait_for(lambda: len(self.got) >= count, 20), self.events()
                return list(self.got)

        return await asyncio.to_thread(wait)

    def events(self) -> list[tuple[str, str]]:
        """What it was told, in order: event and id of the call."""
        return [(one.json()["type"], one.json()["data"]["id"]) for one in self.got]


@contextmanager
def receiver(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """One on a port of its own, until the block ends; with `tls`, over https."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length") or 0))
            answer = made.take(Delivered(path=self.path, headers=headers, body=body))
            if answer == "hang":
                made.release.wait(60)
            if isinstance(answer, str):
                self.close_connection = True
                return
            status, more = answer
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with running(server):
        made.url = server.url if tls is None else f"https://localhost:{server.server_port}"
        try:
            yield made
        finally:
            made.release.set()
