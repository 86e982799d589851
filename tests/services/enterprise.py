"""Identity provider and authorization server of an API that know identity assertions (ID-JAG), and can be told to misbehave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tests.services.authorization import Answered, Asked, Service, serving, token
from toolgen.core.clock import FixedClock
from toolgen.model.auth import ID_JAG

KEY = ec.generate_private_key(ec.SECP256R1())
KEYS = {"keys": [{**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "one"}]}
SECRETS = {"IDP_SECRET": "canary-idp-secret", "CHAT_SECRET": "canary-chat-secret"}
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
RESOURCE = "https://chat.example/api"


def id_token(issuer: str, subject: str = "ann", kind: str = "JWT", **more: Any) -> str:
    claims = {"iss": issuer, "sub": subject, "aud": "gateway-at-idp", "exp": 2_000_000_000, **more}
    return jwt.encode(claims, KEY, "ES256", {"typ": kind, "kid": "one"})


@dataclass
class Enterprise:
    """Identity provider, and authorization server of an API. `claims`, `header` and `answer` change what the provider gives."""

    provider: Service
    server: Service
    clock: FixedClock = field(default_factory=FixedClock)
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    def at_provider(self, asked: Asked) -> Answered:
        subject = jwt.decode(asked.form["subject_token"], options={"verify_signature": False})["sub"]
        claims = {
            "iss": self.provider.origin,
            "sub": subject,
            "aud": asked.form["audience"],
            "client_id": "gateway-at-chat",
            "jti": f"j{len(self.provider.asked)}",
            "iat": int(self.clock.now()),
            "exp": int(self.clock.now()) + 300,
            "resource": asked.form["resource"],
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"typ": "oauth-id-jag+jwt", "kid": "one", **self.header}
        if header.get("alg") == "none":
            self.given.append(jwt.encode(claims, None, "none", header))
        else:
            self.given.append(jwt.encode(claims, KEY, "ES256", header))
        said = {"issued_token_type": ID_JAG, "access_token": self.given[-1], "token_type": "N_A", "expires_in": 300}
        return Answered.json(**{**said, **self.answer})

    def at_server(self, asked: Asked) -> Answered:
        if asked.path == "/.well-known/oauth-authorization-server":
            origin = self.server.origin
            return Answered.json(**{"issuer": origin, "token_endpoint": f"{origin}/token", **self.metadata})
        if asked.path != "/token":
            return Answered(404)
        assertion = asked.form["assertion"]
        if asked.form["grant_type"] != JWT_BEARER or assertion not in self.given:
            return Answered.json(400, error="invalid_grant")
        claims = jwt.decode(
            assertion, KEY.public_key(), ["ES256"], audience=self.server.origin, options={"verify_exp": False}
        )
        return token(f"canary-{claims['sub']}-{claims['jti']}", scope="chat.read")

    def written(self, **more: Any) -> dict[str, Any]:
        return {
            "subject_token": "principal",
            "issuer": self.provider.origin,
            "token_url": f"{self.provider.origin}/token",
            "client_id": "gateway-at-idp",
            "client_secret": "${env:IDP_SECRET}",
            "authorization_server": {
                "issuer": self.server.origin,
                "client_id": "gateway-at-chat",
                "client_secret": "${env:CHAT_SECRET}",
            },
            "resource": RESOURCE,
            "scopes": ["chat.read"],
            **more,
        }


@contextmanager
def enterprise_servers() -> Iterator[Enterprise]:
    """Both servers, each on a port of its own."""
    made: list[Enterprise] = []
    with (
        serving(lambda asked: made[0].at_provider(asked)) as provider,  # noqa: PLW0108 - it is made below
        serving(lambda asked: made[0].at_server(asked)) as server,  # noqa: PLW0108 - as above
    ):
        made.append(Enterprise(provider, server))
        yield made[0]
