"""The page of a device, and the two routes of the gateway that it needs: the user's key stays here, and never reaches the browser.

A real application has sign-in in place of one key. What this server does of it: it listens on loopback alone, answers to its own name
alone, and takes an answer only from its own page.
"""

from __future__ import annotations

import http.client
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["DeviceServer"]

FOLDER = Path(__file__).parent
FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/device.js": ("device.js", "text/javascript; charset=utf-8"),
    "/device.css": ("device.css", "text/css; charset=utf-8"),
}
EVENTS, ANSWERS = "/v1/device/requests", "/v1/tool-messages"
MAX_BODY = 1_048_576
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Permissions-Policy": "geolocation=(self), clipboard-write=(self), clipboard-read=(self), camera=(), microphone=()",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class DeviceServer(ThreadingHTTPServer):
    """On a port of loopback, for the user whose key it has. `gateway` is the gateway's origin."""

    daemon_threads = True

    def __init__(self, gateway: str, key: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Page)
        parts = urlsplit(gateway)
        self.gateway = (parts.hostname or "", parts.port or 80)
        self.key = key
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.url = f"http://{self.host}"


class _Page(BaseHTTPRequestHandler):
    server: DeviceServer  # pyright: ignore[reportIncompatibleVariableOverride] - the server that made it
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not self._is_ours():
            return
        if self.path in FILES:
            name, kind = FILES[self.path]
            self._answer(200, kind, (FOLDER / name).read_bytes())
        elif self.path == EVENTS:
            self._pass_events()
        else:
            self._answer(404, "text/plain", b"there is nothing here\n")

    def do_POST(self) -> None:
        if not self._is_ours():
            return
        length = self.headers.get("content-length", "")
        own = self.headers.get("origin") == self.server.url
        if self.path != ANSWERS or not own or not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            self._answer(403, "text/plain", b"only the page itself answers\n")
            return
        body = self.rfile.read(int(length))
        link = http.client.HTTPConnection(*self.server.gateway, timeout=30)
        try:
            link.request("POST", ANSWERS, body, {**self._credential(), "content-type": "application/json"})
            answer = link.getresponse()
            self._answer(answer.status, "application/json", answer.read())
        except OSError:
            self._answer(502, "text/plain", b"the gateway cannot be reached\n")
        finally:
            link.close()

    def _pass_events(self) -> None:
        """Passes events on as they come, until either end leaves; the browser then connects again."""
        link = http.client.HTTPConnection(*self.server.gateway, timeout=30)
        self.close_connection = True
        try:
            link.request("GET", EVENTS, headers={**self._credential(), "accept": "text/event-stream"})
            answer = link.getresponse()
            if answer.status != 200:
                self._answer(answer.status, "application/json", answer.read())
                return
            self._head(200, "text/event-stream", None)
            self.wfile.write(b"retry: 200\n\n")
            while line := answer.readline():
                self.wfile.write(line)
                self.wfile.flush()
        except OSError:
            pass
        finally:
            link.close()

    def _credential(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.server.key}"}

    def _is_ours(self) -> bool:
        """Whether it was asked by its own name: a page elsewhere whose name leads here is told nothing."""
        if self.headers.get("host") == self.server.host:
            return True
        self.close_connection = True
        self._answer(403, "text/plain", b"this is another name\n")
        return False

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        with suppress(OSError):
            self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
        """Nothing: what is asked of a device is its user's."""
