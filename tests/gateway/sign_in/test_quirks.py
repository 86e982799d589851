"""Habits of hosted clients, from public reports, which end in a sign-in; and exact comparisons, whose errors say what was expected."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

from tests.gateway.clients import JSON
from tests.gateway.issuer import PRIVATE, jwk
from tests.gateway.sign_in.places import LIST, REDIRECT, Place, basic, place
from tests.messages import line_names
from tests.services.identity_provider import IdentityProvider

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.mark.parametrize("ending", ["/mcp/", "", "/", "/mcp", None])
async def test_resource_with_a_slash_or_the_origin_alone(
    tmp_path: Path, provider: IdentityProvider, ending: str | None
) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        resource = None if ending is None else f"{here.url}{ending}"
        answer = await here.agreed(client, resource=resource)
        tokens = (await here.redeem(client, answer["code"], resource=resource)).json()
        assert jwt.decode(tokens["access_token"], options={"verify_signature": False})["aud"] == f"{here.url}/mcp"
        again = await here.refresh(client, tokens["refresh_token"], resource=resource)
        assert (await here.tools(again.json()["access_token"])).status_code == 200


async def test_another_resource_is_refused_and_the_right_one_named(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        for other in (f"{here.url}/mcp/none", f"{here.url}/mcp//", f"{here.url}/MCP", f"{here.url}/mcp?x", "mcp"):
            answer = await here.browser.get(here.asked(client, resource=other))
            assert answer.status_code == 400
            assert f"{here.url}/mcp" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/oauth-authorization-server/mcp/shop",
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/",
        "/.well-known/openid-configuration/mcp",
        "/mcp/.well-known/openid-configuration",
        "/mcp/.well-known/oauth-authorization-server",
    ],
)
async def test_metadata_is_at_the_root_and_at_the_path(tmp_path: Path, provider: IdentityProvider, path: str) -> None:
    async with place(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        found = (await http.get(path)).json()
        assert found["issuer"] == here.url
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint", "jwks_uri"):
            assert found[name].startswith(f"{here.url}/oauth/")
        assert found["code_challenge_methods_supported"] == ["S256"]
        assert found["authorization_response_iss_parameter_supported"] is True
        assert found["client_id_metadata_document_supported"] is True
        judged = AuthorizationServerMetadata({**found, "issuer": "https://tools.example.com"})
        for name, value in found.items():
            if isinstance(value, str) and value.startswith(here.url):
                judged[name] = value.replace(here.url, "https://tools.example.com")
        judged.validate()
        assert (await http.post(path)).status_code == 405


async def test_each_resource_has_its_metadata(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        known = "/.well-known/oauth-protected-resource"
        for path, resource in (
            (known, "/mcp"),
            (f"{known}/mcp", "/mcp"),
            (f"{known}/mcp/", "/mcp"),
            (f"/mcp{known}", "/mcp"),
            (f"{known}/mcp/shop", "/mcp/shop"),
        ):
            found = (await http.get(path)).json()
            assert (found["resource"], found["authorization_servers"]) == (f"{here.url}{resource}", [here.url])
            assert found["scopes_supported"] == ["mcp"]
        assert (await http.get(f"{known}/mcp/none")).status_code == 404


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_401_names_the_metadata_whatever_the_method(
    tmp_path: Path, provider: IdentityProvider, method: str
) -> None:
    async with place(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        for path, resource in (("/mcp", "/mcp"), ("/mcp/", "/mcp"), ("/mcp/shop", "/mcp/shop")):
            answer = await http.request(method, path, headers=JSON, content=LIST if method == "POST" else None)
            assert answer.status_code == 401
            wanted = f'resource_metadata="{here.url}/.well-known/oauth-protected-resource{resource}"'
            assert wanted in answer.headers["www-authenticate"]
            assert 'scope="mcp"' in answer.headers["www-authenticate"]


async def test_a_load_balancer_that_routes_what_is_below_mcp_alone(tmp_path: Path, provider: IdentityProvider) -> None:
    """`/mcp/*` and not `/mcp`: the endpoint answers with a slash, and metadata is there too."""
    async with place(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        answer = await http.post("/mcp/", headers=JSON, content=LIST)
        assert answer.status_code == 401
        assert (await http.get("/mcp/.well-known/oauth-protected-resource")).json()["resource"] == f"{here.url}/mcp"
        tokens = await here.tokens(await here.client(), resource=f"{here.url}/mcp/")
        assert (await here.tools(tokens["access_token"], "/mcp/")).status_code == 200


async def test_an_issuer_with_a_slash_that_the_configuration_lacks(tmp_path: Path, provider: IdentityProvider) -> None:
    """Issuers are compared exactly. The error says what the provider calls itself, as this difference is hard to see."""
    provider.more = {"issuer": f"{provider.issuer}/"}
    async with place(tmp_path, provider) as here:
        answer = await here.browser.get(here.asked(await here.client()))
        assert answer.status_code == 502
        assert line_names(answer.text, f"{provider.issuer}/, ", "slash at its end")


async def test_registration_without_a_method_means_client_secret_basic(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client(token_endpoint_auth_method=None)
        assert client["token_endpoint_auth_method"] == "client_secret_basic"
        assert len(client["client_secret"]) > 30
        assert client["client_secret_expires_at"] == 0
        assert "access_token" in await here.tokens(client)


async def redeemed(here: Place, client: dict[str, Any], headers: dict[str, str], **more: str) -> httpx.Response:
    answer = await here.agreed(client)
    form = {
        "grant_type": "authorization_code",
        "code": answer["code"],
        "redirect_uri": client["redirect_uris"][0],
        "code_verifier": "verifier-of-the-client-0123456789-0123456789-01",
        **more,
    }
    async with httpx.AsyncClient() as http:
        return await http.post(f"{here.url}/oauth/token", data=form, headers=headers)


async def test_basic_credentials_at_the_token_endpoint(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client(token_endpoint_auth_method="client_secret_basic")
        name, secret = client["client_id"], client["client_secret"]
        encoded = "".join(f"%{ord(sign):02X}" for sign in secret)
        assert (await redeemed(here, client, basic(name, secret))).status_code == 200
        assert (await redeemed(here, client, basic(name, secret), client_id=name)).status_code == 200
        raw = httpx.BasicAuth(name, encoded)._auth_header
        assert (await redeemed(here, client, {"authorization": raw})).status_code == 200
        posted = await redeemed(here, client, {}, client_id=name, client_secret=secret)
        assert posted.status_code == 200
        wrong = await redeemed(here, client, basic(name, "wrong"))
        assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
        assert wrong.headers["www-authenticate"].startswith("Basic")
        for header in ("Basic !!!", "Basic " + "gICA", "Basic", "Bearer x"):
            broken = await redeemed(here, client, {"authorization": header}, client_id=name)
            assert (broken.status_code, broken.json()["error"]) == (401, "invalid_client")
        two = await redeemed(here, client, basic(name, secret), client_id="another")
        assert two.json()["error"] == "invalid_request"


async def test_a_plus_in_basic_credentials_is_a_space() -> None:
    from toolgen.gateway.sign_in.oauth_protocol import basic_credentials  # noqa: PLC0415 - beside its one use

    assert basic_credentials(basic("a b+c", "s%/ü:x")["authorization"]) == ("a b+c", "s%/ü:x")


def assertion(here: Place, client: dict[str, Any], **changes: Any) -> dict[str, str]:
    """The assertion of a client (RFC 7523), for the token endpoint as it is advertised."""
    now = int(time.time())
    claims = {
        "iss": client["client_id"],
        "sub": client["client_id"],
        "aud": f"{here.url}/oauth/token",
        "jti": secrets.token_hex(8),
        "iat": now,
        "exp": now + 60,
        **changes,
    }
    key = changes.pop("key", "ec")
    made = jwt.encode(
        {name: value for name, value in claims.items() if name != "key"}, PRIVATE[key], "ES256", {"kid": "ec"}
    )
    return {"client_assertion_type": ASSERTION, "client_assertion": made}


async def test_private_key_jwt_for_the_token_endpoint_as_advertised(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [jwk("ec")]})
        for audience in (f"{here.url}/oauth/token", here.url, [f"{here.url}/oauth/token"]):
            assert (await redeemed(here, client, {}, **assertion(here, client, aud=audience))).status_code == 200
        for audience in (f"{here.url}/oauth/token/", f"{here.url}/", "https://evil.example/token", None):
            wrong = await redeemed(here, client, {}, **assertion(here, client, aud=audience))
            assert wrong.json()["error"] == "invalid_client"
            assert f"expected {here.url}/oauth/token" in wrong.json()["error_description"]
        for changes in ({"sub": "other"}, {"exp": 1}, {"exp": int(time.time()) + 90_000}, {"jti": None}, {"jti": 5}):
            wrong = await redeemed(here, client, {}, **assertion(here, client, **changes))
            assert wrong.status_code in {400, 401}
        once = assertion(here, client)
        assert (await redeemed(here, client, {}, **once)).status_code == 200
        assert (await redeemed(here, client, {}, **once)).json()["error"] == "invalid_client"
        bare = await redeemed(here, client, {}, client_id=client["client_id"])
        assert bare.json()["error"] == "invalid_client"


@pytest.mark.parametrize(
    "metadata",
    [
        {"redirect_uris": []},
        {"redirect_uris": "https://client.example.com/cb"},
        {"redirect_uris": [REDIRECT] * 21},
        {"redirect_uris": None},
        {"grant_types": ["client_credentials"]},
        {"grant_types": "authorization_code"},
        {"response_types": ["token"]},
        {"token_endpoint_auth_method": "tls_client_auth"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"jwks": {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}, "token_endpoint_auth_method": "private_key_jwt"},
        {"jwks": "x"},
        {"client_name": 5, "redirect_uris": [5]},
    ],
)
async def test_metadata_that_cannot_be_registered(
    tmp_path: Path, provider: IdentityProvider, metadata: dict[str, Any]
) -> None:
    async with place(tmp_path, provider) as here:
        answer = await here.register(**metadata)
        if metadata == {"grant_types": "authorization_code"}:
            assert answer.json()["grant_types"] == ["authorization_code"]
            return
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"] in {"invalid_client_metadata", "invalid_redirect_uri"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"[" * 5000])
async def test_a_registration_that_is_no_object(tmp_path: Path, provider: IdentityProvider, body: bytes) -> None:
    async with place(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        answer = await http.post("/oauth/register", headers={"content-type": "application/json"}, content=body)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"grant_type=authorization_code", "text/plain"),
        (b"{}", "application/json"),
        (b"grant_type=refresh_token&grant_type=authorization_code", "application/x-www-form-urlencoded"),
        (b"a=1&" * 100, "application/x-www-form-urlencoded"),
        (b"a=%ff", "application/x-www-form-urlencoded"),
        (b"x" * 70_000, "application/x-www-form-urlencoded"),
        (b"", "application/x-www-form-urlencoded"),
        (b"grant_type=password&username=a&password=b", "application/x-www-form-urlencoded"),
        (b"grant_type=client_credentials", "application/x-www-form-urlencoded"),
        # An identity assertion (ID-JAG) is no credential here, whoever brings it.
        (
            b"grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=a.b.c",
            "application/x-www-form-urlencoded",
        ),
    ],
)
async def test_a_token_request_that_is_none(tmp_path: Path, provider: IdentityProvider, body: bytes, kind: str) -> None:
    async with place(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        answer = await http.post("/oauth/token", headers={"content-type": kind}, content=body)
        assert answer.status_code == 400
        assert answer.json()["error"] in {"invalid_request", "unsupported_grant_type"}


async def test_allowed_hosts_hold_for_redirects(tmp_path: Path, provider: IdentityProvider) -> None:
    clients = {"registration": True, "allow": ["*.example.com", "localhost"]}
    async with place(tmp_path, provider, sign_in={"clients": clients}) as here:
        for uri in (REDIRECT, "http://127.0.0.1/cb", "cursor://x/cb"):
            assert (await here.register(redirect_uris=[uri])).status_code == 201
        for uri in ("https://evil.example/cb", "https://example.com.evil.example/cb", "https://example.com/cb"):
            assert (await here.register(redirect_uris=[uri])).json()["error"] == "invalid_redirect_uri"
