"""People who sign in from a hosted client through the gateway, at their company's identity provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from tests.gateway.clients import JSON, bearer
from tests.gateway.sign_in.places import LIST, REDIRECT, place, policy_of
from tests.services.identity_provider import IdentityProvider
from toolgen.core.clock import FixedClock, SystemClock


async def test_a_person_signs_in_agrees_and_calls_tools(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client(client_name="Chat")
        page = await here.page(here.asked(client))
        assert page.status_code == 200, page.text
        for text in ("Chat", "client.example.com", "staff:ann", "shop__query", "registered itself"):
            assert text in page.text
        assert "pets__get_pet" not in page.text
        sent = await here.answer(page)
        answer = dict(httpx.URL(sent.headers["location"]).params)
        assert (answer["state"], answer["iss"]) == ("state-of-the-client", here.url)
        reply = await here.redeem(client, answer["code"])
        assert reply.status_code == 200, reply.text
        assert reply.headers["cache-control"] == "no-store"
        tokens = reply.json()
        assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 600, "mcp")
        found = await here.tools(tokens["access_token"])
        assert found.status_code == 200
        assert "shop__query" in found.text
        codes = [one["code"] for one in here.recorded()][::-1]
        assert codes == ["client_registered", "signed_in", "consented", "token_issued"]
        assert {one.get("principal") for one in here.recorded()[:3]} == {"staff:ann"}


async def test_an_access_token_is_a_short_jwt_for_one_resource(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, sign_in={"claims": ["groups"]}) as here:
        client = await here.client()
        token = (await here.tokens(client))["access_token"]
        async with httpx.AsyncClient() as http:
            keys = (await http.get(f"{here.url}/oauth/jwks")).json()
        header = jwt.get_unverified_header(token)
        key = jwt.PyJWK(next(one for one in keys["keys"] if one["kid"] == header["kid"]))
        claims = jwt.decode(token, key, algorithms=["ES256"], audience=f"{here.url}/mcp", issuer=here.url)
        assert header["typ"] == "at+jwt"
        assert (claims["sub"], claims["client_id"], claims["idp"]) == ("ann", client["client_id"], provider.issuer)
        assert claims["groups"] == ["staff"]
        assert claims["exp"] - claims["iat"] == 600
        assert all("d" not in one for one in keys["keys"])


async def test_groups_give_roles_and_the_client_is_an_attribute(tmp_path: Path, provider: IdentityProvider) -> None:
    provider.claims = {"groups": ["ops"], "client_id": "claimed-by-the-provider"}
    async with place(tmp_path, provider) as here:
        client = await here.client()
        token = (await here.tokens(client))["access_token"]
        found = await here.gateway.callers.authenticate(token)
        assert (found.id, sorted(found.roles)) == ("staff:ann", ["ops", "staff"])
        assert found.attributes["client"] == client["client_id"]
        assert here.gateway.callers.current(found) == found


@pytest.mark.parametrize("said", [True, False])
async def test_a_rule_is_for_people_who_authenticated_lately(
    tmp_path: Path, provider: IdentityProvider, said: bool
) -> None:
    """By the time of the identity provider, which a refresh does not move. Without it the rule is about nobody."""
    clock = FixedClock(SystemClock().now())
    provider.claims = {"auth_time": int(clock.now()) - 60} if said else {}
    policy = policy_of(provider)
    policy["issuers"]["staff"]["attributes"]["authenticated"] = "auth_time"
    policy["rules"][-1]["when"] = "int(now) - principal.attributes.authenticated < 900"
    async with place(tmp_path, provider, clock, policy=policy) as here:
        tokens = await here.tokens(await here.client())
        for later, permitted in ((0, said), (900, False)):
            clock.advance(later)
            tokens = (await here.refresh({"client_id": _client_of(tokens)}, tokens["refresh_token"])).json()
            principal = await here.gateway.callers.authenticate(tokens["access_token"])
            call = here.gateway.call("shop__query", {"sql": "SELECT name FROM customers"}, principal=principal)
            assert ((await call).status == "ok") is permitted


def _client_of(tokens: dict[str, Any]) -> str:
    return str(jwt.decode(tokens["access_token"], options={"verify_signature": False})["client_id"])


async def test_nothing_is_served_where_it_is_off(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, gateway={"sign_in": None}) as here, httpx.AsyncClient() as http:
        for path in ("/oauth/authorize", "/oauth/jwks", "/.well-known/oauth-authorization-server"):
            assert (await http.get(f"{here.url}{path}")).status_code == 401
        metadata = await http.get(f"{here.url}/.well-known/oauth-protected-resource/mcp")
        assert metadata.json()["authorization_servers"] == [provider.issuer]


async def test_a_refresh_gives_new_tokens_until_the_sign_in_ends(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        first = await here.tokens(client)
        again = await here.refresh(client, first["refresh_token"])
        assert again.status_code == 200, again.text
        assert again.json()["refresh_token"] != first["refresh_token"]
        assert (await here.tools(again.json()["access_token"])).status_code == 200


async def test_a_client_without_the_grant_has_no_refresh_token(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client(grant_types=["authorization_code"])
        assert "refresh_token" not in await here.tokens(client)


async def test_a_person_who_does_not_agree_sends_the_client_away(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        sent = await here.answer(await here.page(here.asked(client)), answer="deny")
        assert dict(httpx.URL(sent.headers["location"]).params)["error"] == "access_denied"
        assert len(here.recorded("consent_denied")) == 1


async def test_consent_is_remembered_for_the_person_and_the_client(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        await here.answer(await here.page(here.asked(client)), remember="yes")
        again = await here.page(here.asked(client))
        assert again.status_code == 303
        assert again.headers["location"].startswith(f"{REDIRECT}?code=")
        provider.person = "bob"
        assert (await here.page(here.asked(client))).status_code == 200
        provider.person = "ann"
        other = await here.client(client_name="Client")
        assert (await here.page(here.asked(other))).status_code == 200
        assert len(here.recorded("consent_remembered")) == 1


@pytest.mark.parametrize("redirect", ["http://127.0.0.1:3118/callback", "cursor://anysphere/callback"])
async def test_a_program_of_the_machine_is_asked_about_each_time(
    tmp_path: Path, provider: IdentityProvider, redirect: str
) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client(redirect_uris=[redirect])
        page = await here.page(here.asked(client))
        assert "your machine" in page.text
        assert 'name="remember"' not in page.text
        await here.answer(page, remember="yes")
        assert (await here.page(here.asked(client))).status_code == 200


async def test_a_token_of_an_endpoint_sees_its_toolsets_wherever_it_is_shown(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        tokens = await here.tokens(client, resource=f"{here.url}/mcp/shop")
        for path in ("/mcp/shop", "/mcp"):
            found = await here.tools(tokens["access_token"], path)
            assert [tool["name"] for tool in found.json()["result"]["tools"]] == ["shop__query"]
        principal = await here.gateway.callers.authenticate(tokens["access_token"])
        assert here.gateway.callers.current(principal).toolsets == frozenset({"shop"})


async def test_a_revoked_sign_in_gives_no_more_tokens(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        tokens = await here.tokens(client)
        answer = await here.post("/oauth/revoke", client, token=tokens["refresh_token"])
        assert answer.status_code == 200
        assert (await here.refresh(client, tokens["refresh_token"])).json()["error"] == "invalid_grant"
        assert (await here.tools(tokens["access_token"])).status_code == 401
        assert len(here.recorded("revoked")) == 1
        assert (await here.post("/oauth/revoke", client, token="unknown")).status_code == 200


async def test_introspection_is_for_roles_that_were_named(tmp_path: Path, provider: IdentityProvider) -> None:
    async with place(tmp_path, provider, sign_in={"introspection": ["reviewer"]}) as here:
        tokens = await here.tokens(await here.client())
        async with httpx.AsyncClient(base_url=here.url) as http:

            async def asked(token: str, key: str) -> httpx.Response:
                return await http.post("/oauth/introspect", data={"token": token}, headers=bearer(key))

            found = (await asked(tokens["access_token"], "reviewer-key")).json()
            assert (found["active"], found["username"], found["sub"]) == (True, "staff:ann", "ann")
            assert (await asked(tokens["refresh_token"], "reviewer-key")).json() == {"active": False}
            assert (await asked("nonsense", "reviewer-key")).json() == {"active": False}
            assert (await asked(tokens["access_token"], "test-key-of-the-bot")).status_code == 403
            assert (await asked(tokens["access_token"], "nobody")).status_code == 401
            assert (await http.post("/mcp", headers=JSON, content=LIST)).status_code == 401
