"""DPoP (RFC 9449): a key pair that tokens are bound to, and the proof of possession that is sent with each request."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets as randomness
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from msgspec.structs import replace

from toolgen.connectors.http.oauth.bearer_challenge import challenge_error
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, OutboundResponse, Via
from toolgen.core.clock import Clock
from toolgen.core.errors import SecretError

__all__ = ["DPOP_HEADER", "NONCE_HEADER", "ProofKey", "ask_with_proof", "check_binding"]

DPOP_HEADER: Final = "DPoP"
NONCE_HEADER: Final = "dpop-nonce"
_MAX_ORIGINS = 16
_MAX_NONCE_LENGTH = 1024
_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+\Z")  # section 8.1
_COORDINATE_SIZE = 32
_NEEDS_NONCE = "use_dpop_nonce"


class ProofKey:
    """Key pair (P-256) that signs a proof for each request, and the newest nonce of each server that gave one.

    A nonce is sent to the origin that gave it, and to no other. The private key is never printed.
    """

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private
        numbers = private.public_key().public_numbers()
        self._jwk = {"crv": "P-256", "kty": "EC", "x": _coordinate(numbers.x), "y": _coordinate(numbers.y)}
        canonical = json.dumps(self._jwk, sort_keys=True, separators=(",", ":"))
        self.thumbprint = _encoded(hashlib.sha256(canonical.encode()).digest())
        """Thumbprint of the public key (RFC 7638), which tokens of the key have as `cnf.jkt`."""
        self._nonces: OrderedDict[str, str] = OrderedDict()

    @classmethod
    def generate(cls) -> ProofKey:
        """Return a new key."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def read(cls, pem: str) -> ProofKey:
        """Return the key of a PEM text. Raises `SecretError` for anything but a private P-256 key."""
        try:
            key = load_pem_private_key(pem.encode(), None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise SecretError("the stored DPoP key of an account cannot be read")
        return cls(key)

    def __repr__(self) -> str:
        return "ProofKey(***)"

    def pem(self) -> str:
        """Return the private key, for an encrypted store."""
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def proof(self, method: str, url: str, now: float, token: str = "") -> str:
        """Return a new proof for one request to a URL, with its token if it has one (section 4.2). No proof is ever used twice."""
        import jwt  # noqa: PLC0415 - for sources with such a credential

        parts = urlsplit(url)
        claims: dict[str, str | int] = {
            "jti": randomness.token_urlsafe(16),
            "htm": method,
            "htu": f"{parts.scheme}://{parts.netloc}{parts.path or '/'}",
            "iat": int(now),
        }
        if token:
            claims["ath"] = _encoded(hashlib.sha256(token.encode("ascii")).digest())
        if nonce := self._nonces.get(_origin(url)):
            claims["nonce"] = nonce
        return jwt.encode(claims, self._private, "ES256", {"typ": "dpop+jwt", "jwk": self._jwk})

    def take_nonce(self, url: str, nonce: str) -> bool:
        """Take the nonce in an answer from a URL. Return True if it is another one than the last proof for this server had; a nonce that
        RFC 9449 does not allow is ignored."""
        if not nonce or len(nonce) > _MAX_NONCE_LENGTH or not _NONCE.match(nonce):
            return False
        origin = _origin(url)
        if self._nonces.get(origin) == nonce:
            return False
        self._nonces[origin] = nonce
        self._nonces.move_to_end(origin)
        if len(self._nonces) > _MAX_ORIGINS:
            self._nonces.popitem(last=False)
        return True

    def may_repeat(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """Take the nonce of an answer. Return True if the server refused the request for want of this nonce (section 9).

        Some servers name the cause in a header of its own that is not read, so any refusal with a new nonce counts, except of the token.
        """
        fresh = self.take_nonce(url, headers.get(NONCE_HEADER, ""))
        return fresh and status == 401 and challenge_error(headers.get("www-authenticate", "")) != "invalid_token"


async def ask_with_proof(
    make: Callable[[], OutboundRequest], via: Via, key: ProofKey | None, clock: Clock
) -> OutboundResponse:
    """Send a request to an authorization server, with a proof of the key if there is one. Raises `OutboundError`.

    If the server requires a nonce, the request is made anew and sent once more (section 8).
    """
    asked = make()
    if key is None:
        return await ask(asked, via)
    reply = await ask(_proven(asked, key, clock), via)
    fresh = key.take_nonce(asked.url, reply.dpop_nonce)
    if fresh and reply.status in {400, 401} and _error_of(reply) == _NEEDS_NONCE:
        reply = await ask(_proven(make(), key, clock), via)
        key.take_nonce(asked.url, reply.dpop_nonce)
    return reply


def check_binding(token: str, kind: str, key: ProofKey) -> None:
    """Check that an issued token is bound to the key. Raises `OutboundError` for a bearer token, and for a JWT that is bound to another key
    (section 6.1); what an opaque token is bound to is known to its servers alone."""
    if kind != "dpop":
        raise OutboundError("its token is not bound to the key of the gateway (token_type)")
    import jwt  # noqa: PLC0415 - for sources with such a credential

    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return
    confirmed = claims.get("cnf")
    if confirmed is None:
        return
    if not isinstance(confirmed, Mapping) or confirmed.get("jkt") != key.thumbprint:
        raise OutboundError("its token is bound to another key than the one of the gateway (cnf)")


def _proven(asked: OutboundRequest, key: ProofKey, clock: Clock) -> OutboundRequest:
    proof = key.proof(asked.method, asked.url, clock.now())
    return replace(asked, headers={**asked.headers, DPOP_HEADER: proof})


def _error_of(reply: OutboundResponse) -> object:
    try:
        answer = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return answer.get("error") if isinstance(answer, Mapping) else None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _coordinate(number: int) -> str:
    return _encoded(number.to_bytes(_COORDINATE_SIZE, "big"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
