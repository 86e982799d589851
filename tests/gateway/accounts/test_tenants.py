"""Links, attempts and linked accounts of one tenant, presented at another with the same people, source and provider."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.gateway.accounts.offices import KEYS, Office, link_of, write_project
from tests.gateway.tenants import OTHER, OWN, listed, serving_tenants
from tests.services.account_provider import AccountProvider


@asynccontextmanager
async def offices(root: Path, provider: AccountProvider) -> AsyncIterator[tuple[Office, Office]]:
    """Two tenants whose source is called with accounts of people. Their keys are the same, so that only the tenant differs."""
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for name in (OWN, OTHER):
        write_project(root / name, provider, f"{origin}/t/{name}")
    path = listed(root, **{OWN: OWN, OTHER: OTHER})
    async with serving_tenants(path, listener=listener) as (site, _):
        made = [Office(site.gateways[name], f"{origin}/t/{name}", provider, root / name) for name in (OWN, OTHER)]
        for one in made:
            one.allow()
        try:
            yield made[0], made[1]
        finally:
            for one in made:
                for http in one.browsers.values():
                    await http.aclose()


async def test_a_link_of_one_tenant_links_nothing_at_another(tmp_path: Path, provider: AccountProvider) -> None:
    async with offices(tmp_path, provider) as (here, there):
        link = link_of(await here.call("ann"))
        assert link.startswith(f"{here.url}/accounts/link/")
        token = link.rpartition("/")[2]
        browser = await there.browser("ann")
        known, unknown = [await browser.get(f"/console/accounts/link/{one}") for one in (token, "A" * len(token))]
        assert known.status_code == unknown.status_code
        assert known.status_code >= 400
        assert known.text.replace(token, "A" * len(token)) == unknown.text
        assert (await here.link("ann", link)).status_code == 303
        assert [len(await one.gateway.accounts.all()) for one in (here, there)] == [1, 0]


async def test_an_answer_of_the_provider_to_one_tenant_is_none_at_another(
    tmp_path: Path, provider: AccountProvider
) -> None:
    """The same person is under way at both, in one browser's jar as well as in another one."""
    async with offices(tmp_path, provider) as (here, there):
        location = provider.authorize(await here.begin("ann", link_of(await here.call("ann"))))
        await there.begin("ann", link_of(await there.call("ann")))
        stolen = location.replace(here.url, there.url)
        assert stolen != location
        browser = await there.browser("ann")
        for name, value in (await here.browser("ann")).cookies.items():
            if name not in browser.cookies:
                browser.cookies.set(name, value, path=f"{urlsplit(there.url).path}/console/accounts/callback")
        assert (await there.back("ann", stolen)).status_code == 403
        assert await there.gateway.accounts.all() == ()
        assert (await here.back("ann", location)).status_code == 303
        assert [len(await one.gateway.accounts.all()) for one in (here, there)] == [1, 0]


async def test_a_linked_account_is_that_of_its_tenant(tmp_path: Path, provider: AccountProvider) -> None:
    async with offices(tmp_path, provider) as (here, there):
        assert (await here.link("ann")).status_code == 303
        assert (await here.call("ann")).status == "ok"
        link_of(await there.call("ann"))  # which waits for an account
        bearer = {"authorization": f"Bearer {KEYS['ann']}"}
        async with httpx.AsyncClient(headers=bearer) as http:
            shown = [(await http.get(f"{one.url}/v1/accounts")).json() for one in (here, there)]
            assert "repos" in json.dumps(shown[0])
            names = [account["name"] for account in shown[0]["accounts"]]
            for name in names:
                answers = [
                    await http.delete(f"{there.url}/v1/accounts/repos/{one}") for one in (name, "no-account-of-anybody")
                ]
                assert {answer.status_code for answer in answers} == {404}
        assert (await here.call("ann")).status == "ok"
        assert there.recorded("unlinked") == []
