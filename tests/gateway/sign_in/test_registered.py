"""Clients that the operator registered: they prove who they are by keys or secrets, sign people in, and act for themselves."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from tests.gateway.clients import JSON, bearer
from tests.gateway.issuer import PRIVATE, hs256, jwk
from tests.gateway.sign_in.places import REDIRECT, Place, basic, place, policy_of, write_project
from tests.messages import line_names
from tests.services.identity_provider import IdentityProvider
from toolgen.core.clock import FixedClock
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.sign_in.records import SignInGrant

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
EXTENSION = "io.modelcontextprotocol/oauth-client-credentials"
SECRET = "canary-secret-of-the-runner"
NEXT = "canary-secret-of-tomorrow"
INIT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def hashed(secret: str) -> str:
    return f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}"


CLIENTS: dict[str, Any] = {
    "runner": {"name": "Runner", "secret": [hashed(SECRET), hashed(NEXT)], "principal": "robot"},
    "keyed": {"jwks": "keys.json", "principal": "robot"},
    "chat": {"name": "Chat", "secret": hashed(SECRET), "redirect_uris": [REDIRECT]},
    "public": {"redirect_uris": [REDIRECT]},
}


def settings(provider: IdentityProvider, root: Path, clients: Mapping[str, Any] = CLIENTS, **changes: Any) -> Any:
    """The sign-in with these clients, and a policy in which the principal `robot` may read."""
    (root / "keys.json").write_text(json.dumps({"keys": [jwk("ec")]}))
    written = {
        name: {**one, **({"jwks": str(root / one["jwks"])} if "jwks" in one else {})} for name, one in clients.items()
    }
    policy = policy_of(provider, **changes)
    policy["principals"] = {**policy["principals"], "robot": {"api_key": hashed("robot-key"), "roles": ["staff"]}}
    return {"sign_in": {"clients": {"registered": written}}, "policy": policy}


async def asked(here: Place, name: str = "runner", secret: str = SECRET, **changes: str | None) -> httpx.Response:
    """Ask for a token of a client itself."""
    form = {"grant_type": "client_credentials", "resource": f"{here.url}/mcp", **changes}
    fields = {key: value for key, value in form.items() if value is not None}
    async with httpx.AsyncClient() as http:
        return await http.post(f"{here.url}/oauth/token", data=fields, headers=basic(name, secret) if secret else {})


def assertion(here: Place, *, key: str = "ec", header: dict[str, Any] | None = None, **changes: Any) -> str:
    """The proof of the client `keyed` (RFC 7523)."""
    claims = {
        "iss": "keyed",
        "sub": "keyed",
        "aud": f"{here.url}/oauth/token",
        "iat": int(time.time()),
        "exp": int(time.time()) + 300,
        "jti": secrets.token_hex(8),
        **changes,
    }
    return jwt.encode(claims, PRIVATE[key], "ES256" if key == "ec" else "RS256", {"kid": key, **(header or {})})


async def test_a_client_acts_for_itself_with_a_secret(tmp_path: Path, provider: IdentityProvider) -> None:
    """It is the principal of the settings, with a short token for one resource and without a refresh token.

    Its grants have a group of their own: they push out no sign-in of a person.
    """
    clock = FixedClock()
    async with place(tmp_path, provider, clock, **settings(provider, tmp_path)) as here:
        for secret in (SECRET, NEXT):
            reply = await asked(here, secret=secret)
            assert reply.status_code == 200, reply.text
        told = reply.json()
        assert sorted(told) == ["access_token", "expires_in", "scope", "token_type"]
        assert told["expires_in"] <= 600
        claims = jwt.decode(told["access_token"], options={"verify_signature": False})
        assert (claims["sub"], claims["client_id"], claims["aud"]) == ("runner", "runner", f"{here.url}/mcp")
        assert "shop__query" in (await here.tools(told["access_token"])).text
        entry = here.recorded("token_issued")[0]
        assert (entry["principal"], entry["arguments"]["by"]) == ("robot", "client_credentials")
        assert SECRET not in json.dumps(here.recorded())
        assert here.gateway.sign_in is not None
        grants = await here.gateway.sign_in.store.all(SignInGrant)
        assert {one.person for one in grants} == {f"{here.url}\0runner"}
        clock.advance(700)
        assert (await here.tools(told["access_token"])).status_code == 401


async def test_a_client_acts_for_itself_with_a_key(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, **settings(provider, tmp_path)) as here:
        proof = {"client_assertion_type": ASSERTION, "client_assertion": assertion(here)}
        reply = await asked(here, "", "", **proof)
        assert reply.status_code == 200, reply.text
        assert "shop__query" in (await here.tools(reply.json()["access_token"])).text
        again = await asked(here, "", "", **proof)
        assert (again.status_code, again.json()["error"]) == (401, "invalid_client")


async def test_attack_on_the_proof_of_a_client(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, **settings(provider, tmp_path)) as here:
        none = jwt.encode({"iss": "keyed", "sub": "keyed", "aud": here.url, "exp": 2**31, "jti": "x"}, None, "none")
        for made in (
            assertion(here, key="rsa"),
            assertion(here, aud="https://other.example/oauth/token"),
            assertion(here, exp=int(time.time()) - 100),
            assertion(here, iss="runner", sub="runner"),
            hs256(json.dumps(jwk("ec")).encode()),
            none,
            "x.y.z",
        ):
            proof = {"client_assertion_type": ASSERTION, "client_assertion": made, "client_id": "keyed"}
            reply = await asked(here, "", "", **proof)
            assert reply.status_code in {400, 401}, made
        assert not here.recorded("token_issued")
        assert len(here.recorded("token_refused")) == 7


async def test_attack_by_a_client_that_may_not_act_for_itself(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, **settings(provider, tmp_path)) as here:
        for name, secret, status, error in (
            ("runner", "wrong", 401, "invalid_client"),
            ("runner", hashed(SECRET), 401, "invalid_client"),
            ("nobody", SECRET, 401, "invalid_client"),
            ("keyed", SECRET, 401, "invalid_client"),
            ("chat", SECRET, 400, "unauthorized_client"),
            ("public", "", 401, "invalid_client"),
        ):
            reply = await asked(here, name, secret, client_id=None if secret else name)
            assert (reply.status_code, reply.json()["error"]) == (status, error), name


async def test_attack_by_a_client_that_registered_itself(tmp_path: Path, provider: IdentityProvider) -> None:
    """It cannot take the grant of clients that the operator registered, whatever it says about itself."""
    made = settings(provider, tmp_path)
    made["sign_in"]["clients"]["registration"] = True
    async with place(tmp_path, provider, **made) as here:
        client = await here.client(
            grant_types=["authorization_code", "client_credentials"],
            token_endpoint_auth_method="client_secret_basic",
            principal="robot",
        )
        assert "client_credentials" not in client["grant_types"]
        reply = await asked(here, client["client_id"], client["client_secret"])
        assert (reply.status_code, reply.json()["error"]) == (400, "unauthorized_client")


async def test_attack_with_a_token_for_another_resource(tmp_path: Path, provider: IdentityProvider) -> None:
    """Another gateway could take the id of a client for the subject of a person."""
    made = settings(provider, tmp_path)
    made["sign_in"]["resources"] = ["https://other.example.com/mcp"]
    async with place(tmp_path, provider, **made) as here:
        for resource in ("https://other.example.com/mcp", "https://evil.example/mcp"):
            reply = await asked(here, resource=resource)
            assert (reply.status_code, reply.json()["error"]) == (400, "invalid_target")
        narrow = (await asked(here, resource=f"{here.url}/mcp/shop")).json()["access_token"]
        assert (await here.tools(narrow, "/mcp/shop")).status_code == 200


async def test_a_person_with_the_id_of_a_client_as_subject_is_not_the_client(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    """The subjects of people and the ids of clients are two lists of names."""
    provider.person = "runner"
    async with place(tmp_path, provider, **settings(provider, tmp_path)) as here:
        answer = await here.agreed(
            {"client_id": "chat", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_basic"}
        )
        client = {"client_id": "chat", "redirect_uris": [REDIRECT], "client_secret": SECRET}
        assert (await here.redeem(client, answer["code"])).status_code == 200
        assert here.recorded("token_issued")[0]["principal"] == "staff:runner"


async def test_a_principal_that_is_unknown_is_named_at_the_start(tmp_path: Path, provider: IdentityProvider) -> None:
    unknown = settings(provider, tmp_path, {"runner": {"secret": hashed(SECRET), "principal": "robt"}})
    path = write_project(tmp_path / "project", provider, "http://127.0.0.1:1", **unknown)
    with pytest.raises(ConfigError, match=r"runner names the principal 'robt'.*robot"):
        Gateway.load(path)


async def test_a_principal_that_is_revoked_has_no_tokens(tmp_path: Path, provider: IdentityProvider) -> None:
    end = "2999-01-01T00:00:00Z"
    async with place(
        tmp_path, provider, **settings(provider, tmp_path, revoked=[{"principal": "robot", "before": end}])
    ) as here:
        assert (await asked(here)).json()["error"] == "invalid_grant"


async def test_the_page_says_that_the_operator_registered_a_client(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, **settings(provider, tmp_path)) as here:
        page = await here.page(here.asked({"client_id": "public", "redirect_uris": [REDIRECT]}))
        assert line_names(page.text, "operator", "registered the client")
        assert "registered itself" not in page.text
        assert (await here.answer(page)).status_code == 303


async def test_the_extension_is_announced_where_a_client_can_use_it(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, **settings(provider, tmp_path)) as here, httpx.AsyncClient() as http:
        metadata = (await http.get(f"{here.url}/.well-known/oauth-authorization-server")).json()
        assert "client_credentials" in metadata["grant_types_supported"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INIT}
        said = await http.post(f"{here.url}/mcp", json=body, headers=JSON | bearer("robot-key"))
        assert said.json()["result"]["capabilities"]["extensions"] == {EXTENSION: {}}
    people = settings(provider, tmp_path, {"chat": CLIENTS["chat"]})
    async with place(tmp_path, provider, **people) as here, httpx.AsyncClient() as http:
        metadata = (await http.get(f"{here.url}/.well-known/oauth-authorization-server")).json()
        assert "client_credentials" not in metadata["grant_types_supported"]
        assert (await asked(here, "chat")).json()["error"] == "unsupported_grant_type"
        said = await http.post(f"{here.url}/mcp", json=body, headers=JSON | bearer("robot-key"))
        assert "extensions" not in said.json()["result"]["capabilities"]
