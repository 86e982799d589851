"""An authorization server and an API that take tokens with proofs of possession alone (RFC 9449). Proofs are checked as section 4.3 has it,
without code of the gateway."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt

from tests.services.authorization import Answered, Asked, Service, serving

_ISSUER_SECRET = "s" * 32


def thumbprint(jwk: dict[str, str]) -> str:
    """RFC 7638."""
    needed = {name: jwk[name] for name in ("crv", "kty", "x", "y")}
    digest = hashlib.sha256(json.dumps(needed, sort_keys=True, separators=(",", ":")).encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def proof_claims(asked: Asked, url: str, token: str = "") -> dict[str, Any]:
    """The claims of the proof of a request to a URL, and the thumbprint of its key (`jkt`).

    Raises `ValueError` for what is wrong with it."""
    try:
        header = jwt.get_unverified_header(asked.headers.get("DPoP", ""))
        claims = jwt.decode(
            asked.headers["DPoP"],
            jwt.PyJWK(header["jwk"]).key,
            ["ES256"],
            options={"verify_iat": False, "require": ["jti", "iat"]},
        )
    except (jwt.PyJWTError, KeyError) as error:
        raise ValueError(f"proof: {error}") from None
    digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
    expected = {"htm": asked.method, "htu": url, **({"ath": digest} if token else {})}
    found = {name: claims[name] for name in ("htm", "htu", "ath") if name in claims}
    if header["typ"] != "dpop+jwt" or "d" in header["jwk"] or found != expected:
        raise ValueError(f"claims: {found}")
    return {**claims, "jkt": thumbprint(header["jwk"])}


@dataclass
class ProofServers:
    """Both servers. `nonces` are what the two require, "" for none; `issued` changes the answers of the token endpoint; `key` is what
    tokens are bound to instead of the client's key."""

    authorization: Service
    api: Service
    nonces: dict[str, str] = field(default_factory=lambda: {"authorization": "", "api": ""})
    issued: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    opaque: bool = False
    seen: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    bound: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    moves: bool = False

    def proven(self, asked: Asked, url: str, token: str = "") -> dict[str, Any] | None:
        """The claims of the proof of a request with its key's thumbprint; None if there is something wrong with it."""
        try:
            claims = proof_claims(asked, url, token)
        except ValueError as error:
            self.faults.append(str(error))
            return None
        if claims["jti"] in self.seen:
            self.faults.append("replayed")
            return None
        self.seen.add(claims["jti"])
        return claims

    def at_authorization(self, asked: Asked) -> Answered:
        claims = self.proven(asked, f"{self.authorization.origin}/token")
        if claims is None:
            return Answered.json(400, error="invalid_dpop_proof")
        nonce = self.nonces["authorization"]
        if nonce and claims.get("nonce") != nonce:
            return _with_nonce(Answered.json(400, error="use_dpop_nonce"), nonce)
        jkt = self.key or claims["jkt"]
        number = next(self.numbers)
        made = jwt.encode({"cnf": {"jkt": jkt}, "number": number}, _ISSUER_SECRET, "HS256")
        token = f"canary-token-{number}" if self.opaque else made
        self.bound[token] = jkt
        return Answered.json(**{"access_token": token, "token_type": "DPoP", "expires_in": 3600, **self.issued})

    def at_api(self, asked: Asked) -> Answered:
        scheme, _, token = asked.headers.get("Authorization", "").partition(" ")
        if scheme != "DPoP" or token not in self.bound:
            self.faults.append(f"scheme: {scheme}")
            return _challenge("invalid_token")
        path = asked.path.partition("?")[0]
        claims = self.proven(asked, f"{self.api.origin}{path}", token)
        if claims is None or claims["jkt"] != self.bound[token]:
            return _challenge("invalid_dpop_proof")
        nonce = self.nonces["api"]
        if nonce and claims.get("nonce") != nonce:
            return _with_nonce(_challenge("use_dpop_nonce"), nonce)
        if self.moves and path != "/elsewhere":
            return Answered(307, b"", {"Location": "/elsewhere"})
        return Answered.json(path=path, repeated=asked.headers["DPoP"])


def _challenge(error: str) -> Answered:
    return Answered(401, b"{}", {"WWW-Authenticate": f'DPoP error="{error}", algs="ES256"'})


def _with_nonce(answer: Answered, nonce: str) -> Answered:
    return Answered(answer.status, answer.body, {**answer.headers, "DPoP-Nonce": nonce})


@contextmanager
def proof_servers() -> Iterator[ProofServers]:
    """Both servers, each on a port of its own."""
    made: list[ProofServers] = []
    with (
        serving(lambda asked: made[0].at_authorization(asked)) as authorization,  # noqa: PLW0108 - it is made below
        serving(lambda asked: made[0].at_api(asked)) as api,  # noqa: PLW0108 - as above
    ):
        made.append(ProofServers(authorization, api))
        yield made[0]
