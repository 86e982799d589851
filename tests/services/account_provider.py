"""A strict authorization server with the API behind it: it checks what a client sends, and can be told to misbehave."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote_plus, urlencode, urlsplit

from tests.services.authorization import Answered, Asked, Service, serving
from tests.services.proofs import proof_claims

CLIENT, SECRET = "gateway-client", "canary-client-secret"
_REPO = {"type": "object", "properties": {"name": {"type": "string"}}}
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Repositories", "version": "1"},
    "paths": {
        "/me": {"get": {"operationId": "getMe", "summary": "Get the person", "responses": {"200": {"description": "ok"}}}},
        "/repos": {
            "get": {"operationId": "listRepos", "summary": "List repositories", "responses": {"200": {"description": "ok"}}},
            "post": {
                "operationId": "createRepo",
                "summary": "Create a repository",
                "requestBody": {"content": {"application/json": {"schema": _REPO}}},
                "responses": {"201": {"description": "ok"}},
            },
        }
    },
    "security": [{"login": []}],
    "components": {
        "securitySchemes": {
            "login": {
                "type": "oauth2",
                "flows": {"authorizationCode": {"authorizationUrl": "/x", "tokenUrl": "/y", "scopes": {"repo": ""}}},
            }
        }
    },
}  # fmt: skip


@dataclass
class AccountProvider:
    """The server. With `proofs` it binds tokens to the keys of clients (RFC 9449), and takes none without a proof.

    `person` is who is signed in there; `more` changes its metadata, `answer` its authorization response."""

    service: Service
    person: str = "octocat"
    redirects: set[str] = field(default_factory=set)
    more: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, str | None] = field(default_factory=dict)
    lifetime: int | None = 3600
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    refresh_tokens: dict[str, str] = field(default_factory=dict)
    revoked: list[str] = field(default_factory=list)
    devices: dict[str, str] = field(default_factory=dict)
    refreshed: int = 0
    faults: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    wants: str = ""  # scopes that the API needs
    classes: str = ""  # authentication (acr_values) that the API needs, with max_age 0
    asked_with: dict[str, dict[str, str]] = field(default_factory=dict)  # authorization request of each token
    scopes: dict[str, str] = field(default_factory=dict)
    grants: str | None = None  # scopes that are given, whatever is asked for
    proofs: bool = False
    keys: dict[str, str] = field(default_factory=dict)  # key that each token is bound to
    shown: str = ""  # key of the last proof at the token endpoint

    @property
    def issuer(self) -> str:
        return self.service.origin

    def authorize(self, url: str) -> str:
        """Answer an authorization request as a person who agrees; returns where the browser is sent."""
        query = dict(parse_qsl(urlsplit(url).query))
        assert url.startswith(f"{self.issuer}/authorize?"), url
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        assert query["redirect_uri"] in self.redirects, query["redirect_uri"]
        code = secrets.token_urlsafe(8)
        self.codes[code] = {**query, "person": self.person}
        back: dict[str, str | None] = {"code": code, "state": query["state"], "iss": self.issuer} | self.answer
        return f"{query['redirect_uri']}?{urlencode({key: value for key, value in back.items() if value is not None})}"

    def expire(self) -> None:
        """End every access token."""
        self.tokens.clear()

    def take(self, asked: Asked) -> Answered:
        path = asked.path.partition("?")[0]
        if path == "/.well-known/oauth-authorization-server":
            return Answered.json(**self._metadata())
        if path == "/authorize":
            return Answered(302, b"", {"Location": self.authorize(f"{self.issuer}{asked.path}")})
        if path == "/token":
            if self.proofs:
                self.shown = proof_claims(asked, f"{self.issuer}/token")["jkt"]
            return self._token(asked)
        if path == "/revoke":
            self.revoked.append(asked.form["token"])
            return Answered(200) if self._client(asked) else Answered.json(401, error="invalid_client")
        if path == "/device":
            code = secrets.token_urlsafe(8)
            self.devices[code] = ""
            return Answered.json(
                device_code=code,
                user_code="ABCD-EFGH",
                verification_uri=f"{self.issuer}/activate",
                expires_in=600,
                interval=1,
            )
        if path == "/graphql":
            owner = self.tokens.get(asked.headers.get("Authorization", "").removeprefix("Bearer "))
            return Answered.json(401) if owner is None else Answered.json(data={"owner": owner})
        if path == "/repos":
            token = asked.headers.get("Authorization", "").removeprefix("DPoP " if self.proofs else "Bearer ")
            if self.proofs and token in self.tokens:
                assert proof_claims(asked, f"{self.issuer}/repos", token)["jkt"] == self.keys[token]
            if token not in self.tokens:
                return Answered.json(401, message="bad credentials")
            if set(self.wants.split()) - set(self.scopes[token].split()):
                challenge = f'Bearer realm="api", error="insufficient_scope", scope="{self.wants}"'
                return Answered(403, b"{}", {"WWW-Authenticate": challenge, "Content-Type": "application/json"})
            if self.classes and self.asked_with.get(token, {}).get("acr_values") != self.classes:
                challenge = f'Bearer error="insufficient_user_authentication", acr_values="{self.classes}", max_age="0"'
                return Answered(401, b"{}", {"WWW-Authenticate": challenge, "Content-Type": "application/json"})
            self.used.append(self.tokens[token])
            return Answered.json(owner=self.tokens[token])
        return Answered(404)

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "device_authorization_endpoint": f"{self.issuer}/device",
            "code_challenge_methods_supported": ["S256"],
            "response_types_supported": ["code"],
            "authorization_response_iss_parameter_supported": True,
            **self.more,
        }

    def _client(self, asked: Asked) -> bool:
        pair = f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}"
        return asked.headers.get("Authorization") == f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _token(self, asked: Asked) -> Answered:
        if not self._client(asked):
            self.faults.append("client")
            return Answered.json(401, error="invalid_client")
        form = asked.form
        match form.get("grant_type"):
            case "authorization_code":
                known = self.codes.pop(form.get("code", ""), None)
                if known is None or not _proven(known, form):
                    self.faults.append("code")
                    return Answered.json(400, error="invalid_grant")
                answer = self._issued(known["person"], known.get("scope", ""))
                self.asked_with[next(reversed(self.tokens))] = known
                return answer
            case "refresh_token":
                self.refreshed += 1
                person = self.refresh_tokens.pop(form.get("refresh_token", ""), None)
                if person is None or (self.proofs and self.keys[form["refresh_token"]] != self.shown):
                    self.faults.append("refresh")
                    return Answered.json(400, error="invalid_grant")
                return self._issued(person)
            case "urn:ietf:params:oauth:grant-type:device_code":
                person = self.devices.get(form.get("device_code", ""))
                if not person:
                    return Answered.json(400, error="authorization_pending")
                return self._issued(person)
        return Answered.json(400, error="unsupported_grant_type")

    def _issued(self, person: str, asked: str = "repo") -> Answered:
        access, refresh = f"canary-access-{secrets.token_hex(8)}", f"canary-refresh-{secrets.token_hex(8)}"
        self.tokens[access], self.refresh_tokens[refresh] = person, person
        scope = self.scopes[access] = asked if self.grants is None else self.grants
        kind = "DPoP" if self.proofs else "Bearer"
        self.keys |= {access: self.shown, refresh: self.shown}
        lasts = {} if self.lifetime is None else {"expires_in": self.lifetime}
        return Answered.json(access_token=access, token_type=kind, refresh_token=refresh, scope=scope, **lasts)


def _proven(asked: dict[str, str], form: dict[str, str]) -> bool:
    """RFC 7636 section 4.6, and the exact redirect URI of the request (RFC 6749 section 4.1.3)."""
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return asked["code_challenge"] == challenge and form.get("redirect_uri") == asked["redirect_uri"]


@contextmanager
def account_provider() -> Iterator[AccountProvider]:
    """The server on a port of its own."""
    made: list[AccountProvider] = []

    def answer(asked: Asked) -> Answered:
        return made[0].take(asked)

    with serving(answer) as service:
        made.append(AccountProvider(service))
        yield made[0]


def query_of(url: str) -> dict[str, str]:
    """The query of a URL, each name once."""
    found = parse_qs(urlsplit(url).query)
    assert all(len(values) == 1 for values in found.values())
    return {name: values[0] for name, values in found.items()}
