"""Sign-in through the gateway of two tenants on one origin: addresses, cookies, and what is worth nothing at the other."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.gateway.clients import bearer
from tests.gateway.sign_in.places import Place, write_project
from tests.gateway.tenants import OTHER, OWN, listed, serving_tenants
from tests.services.identity_provider import IdentityProvider


@asynccontextmanager
async def places(root: Path, provider: IdentityProvider) -> AsyncIterator[tuple[Place, Place]]:
    """Two tenants that people of one identity provider sign in to."""
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for name in (OWN, OTHER):
        write_project(root / name, provider, f"{origin}/t/{name}")
    path = listed(root, **{OWN: OWN, OTHER: OTHER})
    async with serving_tenants(path, listener=listener) as (site, _), httpx.AsyncClient() as browser:
        one, other = (Place(site.gateways[name], f"{origin}/t/{name}", provider, browser) for name in (OWN, OTHER))
        yield one, other


async def test_a_client_finds_the_server_of_a_tenant_and_signs_in(tmp_path: Path, provider: IdentityProvider) -> None:
    async with places(tmp_path, provider) as (here, _), httpx.AsyncClient() as http:
        origin = here.url.removesuffix(f"/t/{OWN}")
        challenge = (await here.tools("x.y.z")).headers["www-authenticate"]
        (found,) = re.findall(r'resource_metadata="([^"]+)"', challenge)
        assert found == f"{origin}/.well-known/oauth-protected-resource/t/{OWN}/mcp"  # RFC 9728, section 3.1
        resource = (await http.get(found)).json()
        assert (resource["resource"], resource["authorization_servers"]) == (f"{here.url}/mcp", [here.url])
        for kind in ("oauth-authorization-server", "openid-configuration"):
            server = (await http.get(f"{origin}/.well-known/{kind}/t/{OWN}")).json()  # RFC 8414, section 3.1
            assert server["issuer"] == here.url
            assert server["token_endpoint"] == f"{here.url}/oauth/token"
        sent = await here.browser.get(here.asked(await here.client()))
        assert f"Path=/t/{OWN}/oauth" in sent.headers["set-cookie"]
        tokens = await here.tokens(await here.client())
        assert (await here.tools(tokens["access_token"])).status_code == 200


async def test_what_one_tenant_gave_out_is_worth_nothing_at_another(tmp_path: Path, provider: IdentityProvider) -> None:
    """The person, the provider, the policy and the names of principals are the same at both."""
    async with places(tmp_path, provider) as (here, there):
        client = await here.client()
        tokens = await here.tokens(client)
        assert (await there.tools(tokens["access_token"])).status_code == 401
        unknown = {**client, "client_id": "no-client-of-anybody"}
        answers = [(await there.refresh(one, tokens["refresh_token"])).json() for one in (client, unknown)]
        assert answers[0] == answers[1]
        own = await there.client()
        assert (await there.refresh(own, tokens["refresh_token"])).json()["error"] == "invalid_grant"
        code = (await here.agreed(client))["code"]
        assert (await there.redeem(own, code)).json()["error"] == "invalid_grant"
        assert (await there.browser.get(there.asked(client))).status_code == 400
        wrong = await there.page(there.asked(own, resource=f"{here.url}/mcp"))
        assert "invalid_target" in wrong.headers.get("location", wrong.text) or wrong.status_code == 400
        async with httpx.AsyncClient(headers=bearer("test-key-of-the-bot")) as http:
            for one in (here, there):
                keys = json.loads((await http.get(f"{one.url}/oauth/jwks")).text)["keys"]
                assert len(keys) == 1
        assert (await here.tools(tokens["access_token"])).status_code == 200


async def test_a_page_of_one_tenant_answers_no_question_of_another(tmp_path: Path, provider: IdentityProvider) -> None:
    async with places(tmp_path, provider) as (here, there):
        page = await here.page(here.asked(await here.client()))
        question = {name: value for name, value in here.browser.cookies.items() if "authorization" in name}
        assert question
        assert f'action="/t/{OWN}/oauth/consent"' in page.text
        async with httpx.AsyncClient(cookies=question) as http:
            assert (await there.answer(page, http)).status_code == 403
        assert (await here.answer(page)).status_code == 303
