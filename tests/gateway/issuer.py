"""An identity provider for tests: keys of its own, tokens of any shape, and its key set over real HTTP."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

from tests.services.local import LocalServer, running

ISSUER = "https://login.example"
AUDIENCE = "toolgen"
_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE: dict[str, Any] = {
    "rsa": _RSA,
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ed": ed25519.Ed25519PrivateKey.generate(),
}
ALGORITHM = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA"}
PEM = _RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
DER = _RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def encoded(part: object) -> str:
    """base64url of bytes, of text, or of anything else as JSON."""
    data = part if isinstance(part, bytes) else part.encode() if isinstance(part, str) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def now() -> int:
    """Seconds since the epoch; a test may set it."""
    return int(time.time())


def claims(**changes: Any) -> dict[str, Any]:
    """Good claims; a change to None takes one away."""
    whole = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "iat": now(), "exp": now() + 600} | changes
    return {name: value for name, value in whole.items() if value is not None}


def signed(header: object, payload: object, key: str = "rsa", algorithm: str = "") -> str:
    """A token with a good signature, whatever its header and payload are."""
    text = f"{encoded(header)}.{encoded(payload)}"
    maker = get_default_algorithms()[algorithm or ALGORITHM[key]]
    return f"{text}.{encoded(maker.sign(text.encode(), PRIVATE[key]))}"


def token(key: str = "rsa", *, header: dict[str, Any] | None = None, **changes: Any) -> str:
    """A good token, with these changes."""
    return signed({"alg": ALGORITHM[key], "typ": "JWT", "kid": key} | (header or {}), claims(**changes), key)


def hs256(secret: bytes, **header: Any) -> str:
    """A token signed with a secret, as one who takes a public key for a secret would."""
    text = f"{encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': 'rsa'} | header)}.{encoded(claims())}"
    return f"{text}.{encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def jwk(name: str, **changes: Any) -> dict[str, Any]:
    """A public key as the set has it."""
    maker = get_default_algorithms()[ALGORITHM[name]]
    return {**maker.to_jwk(PRIVATE[name].public_key(), as_dict=True), "kid": name, "use": "sig"} | changes


@dataclass
class Provider:
    """Serves `body` with `status`; `asked` counts how often."""

    body: bytes = field(default_factory=lambda: json.dumps({"keys": [jwk(name) for name in PRIVATE]}).encode())
    status: int = 200
    asked: int = 0
    url: str = ""


@contextlib.contextmanager
def provider() -> Iterator[Provider]:
    """The key set at a loopback URL."""
    state = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked += 1
            self.send_response(state.status)
            if state.status == 302:
                self.send_header("location", "/elsewhere")
            self.send_header("content-length", str(len(state.body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(state.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = LocalServer(("127.0.0.1", 0), Handler)
    state.url = f"{server.url}/jwks"
    with running(server):
        yield state
