"""A strict identity provider of a company (OpenID Connect): it checks what the gateway sends, and can be told to misbehave."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from tests.gateway.issuer import PRIVATE, jwk, token
from tests.services.authorization import Answered, Asked, Service, serving

CLIENT, SECRET = "toolgen-gateway", "canary-idp-secret"


@dataclass
class IdentityProvider:
    """The provider. `person` is who is signed in there, with `claims`; `answer` changes its authorization response, `token` its id token,
    and `more` its metadata."""

    service: Service
    person: str = "ann"
    claims: dict[str, Any] = field(default_factory=lambda: {"groups": ["staff"]})
    answer: dict[str, str | None] = field(default_factory=dict)
    token: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return self.service.origin

    def authorize(self, url: str) -> str:
        """Answer an authorization request as a person who is signed in already; returns where the browser is sent."""
        query = dict(parse_qsl(urlsplit(url).query))
        assert url.startswith(f"{self.issuer}/authorize?"), url
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        assert query["nonce"]
        assert query["state"]
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(8)
        self.codes[code] = {**query, "person": self.person, "claims": json.dumps(self.claims)}
        back: dict[str, str | None] = {"code": code, "state": query["state"], "iss": self.issuer} | self.answer
        return f"{query['redirect_uri']}?{urlencode({key: value for key, value in back.items() if value is not None})}"

    def take(self, asked: Asked) -> Answered:
        path = asked.path.partition("?")[0]
        if path == "/.well-known/openid-configuration":
            return Answered.json(
                **{
                    "issuer": self.issuer,
                    "authorization_endpoint": f"{self.issuer}/authorize",
                    "token_endpoint": f"{self.issuer}/token",
                    "jwks_uri": f"{self.issuer}/jwks",
                    "authorization_response_iss_parameter_supported": True,
                    **self.more,
                }
            )
        if path == "/jwks":
            return Answered.json(keys=[jwk(name) for name in PRIVATE])
        if path == "/authorize":
            return Answered(302, b"", {"Location": self.authorize(f"{self.issuer}{asked.path}")})
        if path == "/token":
            return self._token(asked)
        return Answered(404)

    def _token(self, asked: Asked) -> Answered:
        pair = f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}"
        form = asked.form
        known = self.codes.pop(form.get("code", ""), None)
        headers = {name.lower(): value for name, value in asked.headers.items()}
        if headers.get("authorization") != f"Basic {base64.b64encode(pair.encode()).decode()}":
            self.faults.append("client")
            return Answered.json(401, error="invalid_client")
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if known is None or known["code_challenge"] != challenge or form.get("redirect_uri") != known["redirect_uri"]:
            self.faults.append("code")
            return Answered.json(400, error="invalid_grant")
        said = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": known["person"],
            "nonce": known["nonce"],
            **json.loads(known["claims"]),
            **self.token,
        }
        return Answered.json(access_token="canary-idp-access", token_type="Bearer", id_token=token(**said))


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """The provider on a port of its own."""
    made: list[IdentityProvider] = []

    def answer(asked: Asked) -> Answered:
        return made[0].take(asked)

    with serving(answer) as service:
        made.append(IdentityProvider(service))
        yield made[0]
