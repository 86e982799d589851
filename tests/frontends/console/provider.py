"""An OpenID provider for tests, over real HTTP: it signs in whoever comes, and looks at everything the gateway says."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.gateway.issuer import jwk, token
from tests.services.local import LocalServer, running

CLIENT, SECRET = "toolgen-console", "s3cret of the console"


@dataclass
class Issuer:
    """What it does: `claims` and `changes` go into the id token, `authorization` into what the browser comes back with."""

    url: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "ann", "groups": ["leads"]})
    changes: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] | None = None
    authorization: dict[str, str] = field(default_factory=dict)
    described: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def keys(self) -> str:
        """Its public keys."""
        return json.dumps({"keys": [jwk("rsa")]})


@contextlib.contextmanager
def issuer() -> Iterator[Issuer]:
    """The provider on a port of its own, under another name than the gateway, so that browsers take it for another site."""
    state = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path == "/.well-known/openid-configuration":
                described = {
                    "issuer": state.url,
                    "authorization_endpoint": f"{state.url}/authorize",
                    "token_endpoint": f"{state.url}/token",
                    **state.described,
                }
                self._send(200, described)
            elif parts.path == "/authorize":
                state.asked.append(query)
                code = secrets.token_urlsafe(8)
                state.codes[code] = query
                back = {"code": code, "state": query["state"], "iss": state.url} | state.authorization
                self.send_response(302)
                self.send_header("location", f"{query['redirect_uri']}?{urlencode(back)}")
                self.send_header("content-length", "0")
                self.end_headers()
            else:
                self._send(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            known = state.codes.pop(form.get("code", ""), None)
            pair = urlencode({"": CLIENT})[1:] + ":" + urlencode({"": SECRET})[1:]
            basic = "Basic " + base64.b64encode(pair.encode()).decode()
            if known is None or self.headers.get("authorization") != basic or not _proven(known, form):
                self._send(400, {"error": "invalid_grant"})
                return
            whole = {"iss": state.url, "aud": CLIENT, "nonce": known["nonce"], **state.claims, **state.changes}
            self._send(200, state.answer or {"id_token": token(**whole), "token_type": "Bearer", "access_token": "x"})

        def _send(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    state.url = f"http://localhost:{server.server_port}"
    with running(server):
        yield state


def _proven(asked: dict[str, str], form: dict[str, str]) -> bool:
    """RFC 7636, section 4.6; and the same place to come back to, for the same client (RFC 6749, section 4.1.3)."""
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return (
        asked.get("code_challenge") == challenge
        and asked.get("code_challenge_method") == "S256"
        and len(form.get("code_verifier", "")) >= 43
        and form.get("redirect_uri") == asked["redirect_uri"]
        and form.get("client_id") == asked["client_id"] == CLIENT
        and form.get("grant_type") == "authorization_code"
    )
