"""An authorization server for tests: metadata, registration, a code for whoever asks, and signed tokens for the resource they name."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.gateway.issuer import PRIVATE, jwk, token


@dataclass
class AuthorizationServer:
    """`asked` are the requests it had, as (path, parameters). It gives the scopes that it is asked for, or `gives` where that is set."""

    url: str = ""
    gives: str | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def get(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        match path:
            case "/.well-known/oauth-authorization-server":
                return 200, {
                    "issuer": self.url,
                    "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token",
                    "registration_endpoint": f"{self.url}/register",
                    "jwks_uri": f"{self.url}/jwks",
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["authorization_code"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                }
            case "/jwks":
                return 200, {"keys": [jwk(name) for name in PRIVATE]}
            case "/authorize":
                code = secrets.token_hex(8)
                self.codes[code] = query
                back = urlencode({"code": code, "state": query["state"]})
                return 302, {"location": f"{query['redirect_uri']}?{back}"}
        return 404, {}

    def post(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if path == "/register":
            return 201, {**json.loads(body), "client_id": "client-1", "token_endpoint_auth_method": "none"}
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        asked = self.codes.pop(form.get("code", ""), None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        if asked is None or asked["code_challenge"] != proof.decode() or asked.get("resource") != form.get("resource"):
            return 400, {"error": "invalid_grant"}
        scope = asked.get("scope", "") if self.gives is None else self.gives
        self.gives = None
        made = token(iss=self.url, aud=form.get("resource"), scope=scope or None)
        return 200, {"access_token": made, "token_type": "Bearer", "expires_in": 600, "scope": scope}


@contextlib.contextmanager
def authorization_server() -> Iterator[AuthorizationServer]:
    """One on a free loopback port, which is its issuer too."""
    state = AuthorizationServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            state.asked.append((parts.path, query))
            self._answer(*state.get(parts.path, query))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            form = {} if self.path == "/register" else {name: v[0] for name, v in parse_qs(body.decode()).items()}
            state.asked.append((self.path, form))
            self._answer(*state.post(self.path, body))

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            data = json.dumps(document).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("location", document["location"])
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
