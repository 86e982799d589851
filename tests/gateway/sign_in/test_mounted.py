"""Sign-in below a mount path: two gateways and another application share one host, behind a proxy that keeps or removes the path."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.gateway.sign_in.places import HERE, THERE, mounts
from tests.services.identity_provider import IdentityProvider

SECURE_NAME = "__Host-toolgen_authorization"


@pytest.mark.parametrize("removes", [False, True])
async def test_a_client_signs_in_from_the_address_alone(
    tmp_path: Path, provider: IdentityProvider, removes: bool
) -> None:
    async with mounts(tmp_path, provider, removes=removes) as (here, _), httpx.AsyncClient() as http:
        origin = here.url.removesuffix(HERE)
        challenge = (await here.tools("x.y.z")).headers["www-authenticate"]
        (announced,) = re.findall(r'resource_metadata="([^"]+)"', challenge)
        assert announced == f"{here.url}/.well-known/oauth-protected-resource/mcp"
        for address in (announced, f"{origin}/.well-known/oauth-protected-resource{HERE}/mcp"):  # RFC 9728, section 3.1
            resource = (await http.get(address)).json()
            assert (resource["resource"], resource["authorization_servers"]) == (f"{here.url}/mcp", [here.url])
        for kind in ("oauth-authorization-server", "openid-configuration"):
            for address in (
                f"{origin}/.well-known/{kind}{HERE}",  # RFC 8414, section 3.1
                f"{here.url}/.well-known/{kind}",  # OpenID Connect Discovery 1.0, section 4
            ):
                server = (await http.get(address)).json()
                assert server["issuer"] == here.url
                assert all(
                    server[name].startswith(f"{here.url}/oauth/") for name in server if name.endswith("_endpoint")
                )
        sent = await here.browser.get(here.asked(await here.client()))
        assert f"Path={HERE}/oauth" in sent.headers["set-cookie"]
        assert dict(parse_qsl(urlsplit(sent.headers["location"]).query))["redirect_uri"] == f"{here.url}/oauth/callback"
        client = await here.client()
        answer = await here.agreed(client)
        assert answer["iss"] == here.url
        tokens = (await here.redeem(client, answer["code"])).json()
        assert (await here.tools(tokens["access_token"])).status_code == 200


@pytest.mark.parametrize("removes", [False, True])
async def test_the_console_is_below_the_path(tmp_path: Path, provider: IdentityProvider, removes: bool) -> None:
    async with mounts(tmp_path, provider, removes=removes) as (here, _), httpx.AsyncClient() as http:
        sent = await http.get(f"{here.url}/", headers={"accept": "text/html"})
        assert (sent.status_code, sent.headers["location"]) == (302, f"{HERE}/console")
        page = await http.get(f"{here.url}/console/sign-in")
        assert f'action="{HERE}/console/sign-in"' in page.text
        addresses = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
        assert addresses
        assert all(address.startswith(f"{HERE}/console") for address in addresses)


async def test_tokens_and_codes_of_another_mount_are_refused(tmp_path: Path, provider: IdentityProvider) -> None:
    """Attack: the person, the provider, the policy and the host are the same at both."""
    async with mounts(tmp_path, provider) as (here, there):
        client, own = await here.client(), await there.client()
        tokens = await here.tokens(client)
        assert (await there.tools(tokens["access_token"])).status_code == 401
        assert (await there.refresh(own, tokens["refresh_token"])).json()["error"] == "invalid_grant"
        code = (await here.agreed(client))["code"]
        assert (await there.redeem(own, code)).json()["error"] == "invalid_grant"
        assert (await there.browser.get(there.asked(client))).status_code == 400
        origin = here.url.removesuffix(HERE)
        for other in (f"{here.url}/mcp", origin, f"{origin}/", f"{origin}/mcp"):
            asked = await there.browser.get(there.asked(own, resource=other))
            assert asked.status_code == 400, other


async def test_the_answer_of_a_mount_does_not_return_to_another(tmp_path: Path, provider: IdentityProvider) -> None:
    """Attack: mix-up of two issuers that differ in their paths alone."""
    async with mounts(tmp_path, provider) as (here, there):
        sent = await here.browser.get(here.asked(await here.client()))
        back = here.provider.authorize(sent.headers["location"])
        moved = back.replace(f"{HERE}/oauth/callback", f"{THERE}/oauth/callback")
        assert moved != back
        assert (await there.browser.get(moved)).status_code == 403
        assert (await here.browser.get(back)).status_code == 200


async def test_a_cookie_of_another_mount_answers_no_question(tmp_path: Path, provider: IdentityProvider) -> None:
    """Attack: another application of the host sets a cookie for the whole host, by the names that the gateways use."""
    async with mounts(tmp_path, provider) as (here, there):
        page = await here.page(here.asked(await here.client()))
        (token,) = [value for name, value in here.browser.cookies.items() if "authorization" in name]
        for name in ("toolgen_authorization", SECURE_NAME, f"{SECURE_NAME}!toolgen", f"{SECURE_NAME}!toolgen-b"):
            async with httpx.AsyncClient(cookies={name: token}) as http:
                assert (await there.answer(page, http)).status_code == 403
        assert (await here.answer(page)).status_code == 303


async def test_paths_beside_the_mount_are_not_taken_for_it(tmp_path: Path, provider: IdentityProvider) -> None:
    """Attack: spellings of the path that a proxy and the gateway may read in two ways."""
    async with mounts(tmp_path, provider) as (here, _):
        port = urlsplit(here.url).port
        app_paths = ("/toolgenx/mcp", "/toolgen%2Fmcp", "/%74oolgen/mcp", "//toolgen/mcp", "/toolgen/../toolgen/mcp")
        for path in app_paths:
            reader, writer = await _connected(port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            answer = (await reader.read()).decode()
            writer.close()
            assert answer.split(" ")[1] in {"400", "401", "404"}, path
            assert "resource_metadata" not in answer


async def _connected(port: int | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)
