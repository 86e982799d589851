"""Inbound identity assertions (ID-JAG): a person reaches the gateway by a client that the identity provider answers for, without a page."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from pathlib import Path
from typing import Any

import httpx
import jwt

from tests.gateway.clients import JSON, bearer
from tests.gateway.issuer import PEM, encoded, hs256, jwk, signed, token
from tests.gateway.sign_in.places import REDIRECT, Place, basic, place
from tests.gateway.sign_in.test_registered import INIT, SECRET, hashed, settings
from tests.services.identity_provider import CLIENT, IdentityProvider
from toolgen.config.sign_in import ClientSettings
from toolgen.core.clock import FixedClock
from toolgen.gateway.sign_in.client_metadata import client_of
from toolgen.gateway.sign_in.records import SignInGrant

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXTENSION = "io.modelcontextprotocol/enterprise-managed-authorization"
TYPE = "oauth-id-jag+jwt"
CLIENTS: dict[str, Any] = {
    "ide": {"name": "IDE", "secret": hashed(SECRET)},
    "other": {"secret": hashed(SECRET)},
    "public": {"redirect_uris": [REDIRECT]},
}


def enterprise(provider: IdentityProvider, root: Path, *, identity_assertions: bool = True) -> Any:
    made = settings(provider, root, CLIENTS)
    made["sign_in"]["identity_assertions"] = identity_assertions
    return made


def content(here: Place, **changes: Any) -> dict[str, Any]:
    """Claims of a good assertion about Ann for the client `ide`; a change to None takes one away."""
    claims = {
        "iss": here.provider.issuer,
        "sub": "ann",
        "aud": here.url,
        "resource": f"{here.url}/mcp",
        "client_id": "ide",
        "scope": "mcp",
        "jti": secrets.token_hex(8),
        "iat": int(time.time()),
        "exp": int(time.time()) + 300,
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not None}


def assertion(here: Place, *, header: dict[str, Any] | None = None, **changes: Any) -> str:
    claims = dict.fromkeys(("iss", "aud", "sub", "iat", "exp")) | content(here, **changes)
    return token(header={"typ": TYPE, **(header or {})}, **claims)


async def shown(here: Place, text: str, client: str = "ide", **form: str) -> httpx.Response:
    """Show an assertion at the token endpoint."""
    fields = {"grant_type": JWT_BEARER, "assertion": text, **form}
    async with httpx.AsyncClient() as http:
        return await http.post(f"{here.url}/oauth/token", data=fields, headers=basic(client, SECRET))


async def test_a_person_reaches_the_gateway_by_an_assertion(tmp_path: Path, provider: IdentityProvider) -> None:
    """The caller is the same principal as after a sign-in. Roles come from the claims of the assertion."""
    async with place(tmp_path, provider, **enterprise(provider, tmp_path)) as here:
        text = assertion(here, groups=["ops"])
        reply = await shown(here, text)
        assert reply.status_code == 200, reply.text
        told = reply.json()
        assert sorted(told) == ["access_token", "expires_in", "scope", "token_type"]
        claims = jwt.decode(told["access_token"], options={"verify_signature": False})
        assert (claims["sub"], claims["idp"], claims["client_id"]) == ("ann", provider.issuer, "ide")
        assert (claims["aud"], claims["exp"] - claims["iat"] <= 600) == (f"{here.url}/mcp", True)
        assert "shop__query" in (await here.tools(told["access_token"])).text
        assert here.gateway.sign_in is not None
        (grant,) = await here.gateway.sign_in.store.all(SignInGrant)
        assert (grant.principal, grant.claims["groups"], grant.claims["aud"]) == ("staff:ann", ["ops"], CLIENT)
        entry = here.recorded("token_issued")[0]
        assert (entry["principal"], entry["arguments"]["by"]) == ("staff:ann", JWT_BEARER)
        assert text not in json.dumps(here.recorded())
        narrow = await shown(here, assertion(here, resource=f"{here.url}/mcp/shop"), resource=f"{here.url}/mcp/shop")
        assert (await here.tools(narrow.json()["access_token"], "/mcp/shop")).status_code == 200


async def test_attacks_with_an_assertion_that_is_not_for_this_use(tmp_path: Path, provider: IdentityProvider) -> None:
    """Each is refused with its reason, gives no token, and is on record."""
    clock = FixedClock(time.time())
    async with place(tmp_path, provider, clock, **enterprise(provider, tmp_path)) as here:
        now = int(time.time())
        header, good = {"alg": "RS256", "kid": "rsa", "typ": TYPE}, content(here)
        unsigned = f"{encoded({**header, 'alg': 'none'})}.{encoded(good)}."
        attacks: dict[str, tuple[str, str, str]] = {
            "wrong type": (assertion(here, header={"typ": "JWT"}), "invalid_grant", "type"),
            "access token": (assertion(here, header={"typ": "at+jwt"}), "invalid_grant", "type"),
            "no type": (signed({"alg": "RS256", "kid": "rsa"}, good), "invalid_grant", "type"),
            "id token": (token(iss=provider.issuer, aud=CLIENT), "invalid_grant", "type"),
            "wrong audience": (assertion(here, aud="https://other.example"), "invalid_grant", here.url),
            "audience of the resource": (assertion(here, aud=f"{here.url}/mcp"), "invalid_grant", here.url),
            "audience with a slash": (assertion(here, aud=f"{here.url}/"), "invalid_grant", here.url),
            "two audiences": (assertion(here, aud=[here.url, "https://other.example"]), "invalid_grant", here.url),
            "client substitution": (assertion(here, client_id="other"), "invalid_grant", "another client"),
            "no client": (assertion(here, client_id=None), "invalid_grant", "another client"),
            "unknown issuer": (assertion(here, iss="https://evil.example"), "invalid_grant", "issuer"),
            "issuer with a slash": (assertion(here, iss=f"{provider.issuer}/"), "invalid_grant", "issuer"),
            "gateway as the issuer": (assertion(here, iss=here.url), "invalid_grant", "issuer"),
            "algorithm none": (unsigned, "invalid_grant", "neither a key nor a token"),
            "algorithm none with a signature": (f"{unsigned}eA", "invalid_grant", "algorithm"),
            "public key as a secret": (hs256(PEM, typ=TYPE), "invalid_grant", "issuer"),
            "HS256 of the provider": (
                signed({**header, "alg": "HS256"}, good, "rsa", "RS256"),
                "invalid_grant",
                "algorithm",
            ),
            "key in the header": (
                signed({**header, "kid": "x", "jwk": jwk("ed"), "alg": "EdDSA"}, good, "ed"),
                "invalid_grant",
                "key id",
            ),
            "signature of another content": (
                ".".join((*assertion(here, sub="bob").split(".")[:2], assertion(here).split(".")[2])),
                "invalid_grant",
                "signature",
            ),
            "expired": (assertion(here, exp=now - 120), "invalid_grant", "expired"),
            "without an end": (assertion(here, exp=None), "invalid_grant", "never expires"),
            "valid for a day": (assertion(here, exp=now + 86_400), "invalid_grant", "an hour"),
            "of the future": (assertion(here, iat=now + 3000), "invalid_grant", "not valid yet"),
            "without a time of issue": (assertion(here, iat=None), "invalid_grant", "iat"),
            "bound to a key": (assertion(here, cnf={"jkt": "x"}), "invalid_grant", "bound to a key"),
            "without an id": (assertion(here, jti=None), "invalid_grant", "jti"),
            "without a person": (assertion(here, sub=""), "invalid_grant", "sub"),
            "without a resource": (assertion(here, resource=None), "invalid_target", "resource"),
            "two resources": (assertion(here, resource=[f"{here.url}/mcp", "x"]), "invalid_target", "resource"),
            "another resource": (assertion(here, resource="https://evil.example/mcp"), "invalid_target", "resource"),
            "another scope": (assertion(here, scope="mail.read"), "invalid_scope", "scope"),
            "no token": ("", "invalid_grant", "token"),
        }
        for name, (text, error, why) in attacks.items():
            reply = await shown(here, text)
            assert (reply.status_code, reply.json()["error"]) == (400, error), name
            assert why in reply.json()["error_description"], (name, reply.json())
        wider = await shown(here, assertion(here, resource=f"{here.url}/mcp/shop"), resource=f"{here.url}/mcp")
        assert wider.json()["error"] == "invalid_target"
        assert not here.recorded("token_issued")
        assert len(here.recorded("token_refused")) == len(attacks) + 1


async def test_attack_replay_of_an_assertion(tmp_path: Path, provider: IdentityProvider) -> None:
    """Of five at once and one later, one gets a token: the id counts once among all workers."""
    async with place(tmp_path, provider, **enterprise(provider, tmp_path)) as here:
        text = assertion(here)
        replies = await asyncio.gather(*(shown(here, text) for _ in range(5)))
        assert sorted(one.status_code for one in replies) == [200, 400, 400, 400, 400]
        again = await shown(here, text)
        assert (again.status_code, "used before" in again.text) == (400, True)


async def test_attack_client_substitution_by_the_authentication(tmp_path: Path, provider: IdentityProvider) -> None:
    """A client that does not prove who it is learns nothing about the assertion, and does not use it up."""
    async with place(tmp_path, provider, **enterprise(provider, tmp_path)) as here, httpx.AsyncClient() as http:
        text = assertion(here)
        form = {"grant_type": JWT_BEARER, "assertion": text}
        stolen = await shown(here, text, "other")
        assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
        for more, headers in (
            ({"client_id": "ide"}, {}),
            ({}, basic("ide", "wrong")),
            ({"client_id": "ide"}, basic("other", SECRET)),
            ({"client_id": "ide", "client_secret": "wrong"}, {}),
        ):
            reply = await http.post(f"{here.url}/oauth/token", data={**form, **more}, headers=headers)
            assert reply.json()["error"] in {"invalid_client", "invalid_request"}
            assert "assertion" not in reply.text
        public = assertion(here, client_id="public")
        reply = await http.post(f"{here.url}/oauth/token", data={**form, "assertion": public, "client_id": "public"})
        assert (reply.status_code, reply.json()["error"]) == (401, "invalid_client")
        assert (await shown(here, text)).status_code == 200


def test_attack_by_a_client_that_registered_itself() -> None:
    """Of clients that the operator did not register, only those with a document and keys may show assertions."""
    said = {"redirect_uris": [REDIRECT], "grant_types": ["authorization_code", JWT_BEARER], "client_name": "Client"}
    keyed = {**said, "token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [jwk("ec")]}}
    for metadata, document, may in ((keyed, True, True), (said, True, False), (keyed, False, False)):
        client = client_of("https://client.example.com/id", metadata, ClientSettings(), document=document)
        assert (JWT_BEARER in client.grants) is may


async def test_a_person_whom_the_policy_does_not_take(tmp_path: Path, provider: IdentityProvider) -> None:
    """A revocation counts from the time of the assertion on, and ends tokens that were issued for one."""
    made = enterprise(provider, tmp_path)
    made["policy"]["revoked"] = [{"issuer": provider.issuer, "subject": "ann"}]
    async with place(tmp_path, provider, **made) as here:
        reply = await shown(here, assertion(here))
        assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")
        assert (await shown(here, assertion(here, sub="bob"))).status_code == 200


async def test_it_is_announced_and_taken_only_where_the_settings_say_so(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INIT}
    for on in (True, False):
        made = enterprise(provider, tmp_path, identity_assertions=on)
        async with place(tmp_path, provider, **made) as here, httpx.AsyncClient() as http:
            metadata = (await http.get(f"{here.url}/.well-known/oauth-authorization-server")).json()
            assert (JWT_BEARER in metadata["grant_types_supported"]) is on
            profiles = ["urn:ietf:params:oauth:grant-profile:id-jag"] if on else None
            assert metadata.get("authorization_grant_profiles_supported") == profiles
            said = await http.post(f"{here.url}/mcp", json=body, headers=JSON | bearer("robot-key"))
            told = said.json()["result"]["capabilities"].get("extensions", {})
            assert told == ({EXTENSION: {}} if on else {})
            reply = await shown(here, assertion(here))
            assert reply.status_code == (200 if on else 400)
            assert on or reply.json()["error"] == "unsupported_grant_type"


async def test_the_keys_of_the_provider_cannot_be_fetched(tmp_path: Path, provider: IdentityProvider) -> None:
    made = enterprise(provider, tmp_path)
    made["policy"]["issuers"]["staff"]["jwt"]["jwks"] = "http://127.0.0.1:9/jwks"
    async with place(tmp_path, provider, **made) as here:
        reply = await shown(here, assertion(here))
        assert (reply.status_code, reply.json()["error"]) == (503, "temporarily_unavailable")
