"""Accounts of people: a call without one gives a link, the person links it, and calls are made as that person."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontends.console.people import form_token
from tests.gateway.accounts.offices import KEYS, TOOL, WRITE, link_of, office, refresh_of
from tests.services.account_provider import AccountProvider, query_of
from toolgen.core.errors import ConfigError


async def test_a_call_without_an_account_gives_a_link_and_works_after_it(
    tmp_path: Path, provider: AccountProvider
) -> None:
    async with office(tmp_path, provider) as here:
        link = link_of(await here.call())
        assert provider.used == []
        assert (await here.link("ann", link)).status_code == 303
        assert (await here.call()).unwrap() == {"owner": "octocat"}
        assert link_of(await here.call("bob"))
        assert [one["principal"] for one in here.recorded("linked")] == ["ann"]


async def test_an_agent_acts_with_the_account_of_its_user(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        assert (await here.call("bot", "ann")).unwrap() == {"owner": "octocat"}
        link_of(await here.call("bot", "bob"))
        link_of(await here.call("bot"))
        assert provider.used == ["octocat"]


async def test_the_authorization_request_names_all_that_is_checked(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider, auth={"resource": "https://api.example.com"}) as here:
        query = query_of(await here.begin("ann", link_of(await here.call())))
        assert query["redirect_uri"] == f"{here.url}/accounts/callback/repos"
        assert query["resource"] == "https://api.example.com"
        assert query["scope"] == "repo"
        assert len(query["state"]) >= 32
        assert len(query["code_challenge"]) == 43


async def test_a_write_is_made_once_with_its_key_after_the_link(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        waiting = await here.call(tool=WRITE, idempotency_key="k1")
        await here.link("ann", link_of(waiting))
        assert (await here.ended(waiting)).status == "ok"
        for _ in range(2):
            assert (await here.call(tool=WRITE, idempotency_key="k1")).status == "ok"
        assert provider.used == ["octocat"]


async def test_the_console_lists_unlinks_and_chooses_accounts(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        http = await here.browser("ann")
        page = await http.get("/console/accounts")
        assert "used by calls" in page.text
        provider.person = "private-cat"
        form = {"form_token": form_token(page.text), "source": "repos", "name": "private"}
        left = await http.post("/console/accounts/link", data=form)
        assert (await here.back("ann", provider.authorize(refresh_of(left.text)))).status_code == 303
        assert (await here.call()).unwrap() == {"owner": "octocat"}
        assert (await http.post("/console/accounts/default", data=form)).status_code == 303
        assert (await here.call()).unwrap() == {"owner": "private-cat"}
        assert (await http.post("/console/accounts/unlink", data=form)).status_code == 303
        assert (await here.call()).unwrap() == {"owner": "octocat"}
        assert len(provider.revoked) == 2
        assert (await http.post("/console/accounts/unlink", data={**form, "name": "default"})).status_code == 303
        link_of(await here.call())
        assert [one["code"] for one in here.recorded("unlinked")] == ["unlinked"] * 2
        assert (await http.post("/console/accounts/unlink", data=form)).status_code == 404
        stranger = await here.browser("rita")
        assert "octocat" not in (await stranger.get("/console/accounts")).text


async def test_no_token_is_in_the_record_the_files_or_the_envelopes(
    tmp_path: Path, provider: AccountProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        found = await here.call()
        provider.expire()
        await here.call()
        accounts = await here.gateway.accounts.all()
        shown = repr(found) + repr(accounts) + repr(here.gateway.accounts.tokens("repos")) + caplog.text
        shown += (await (await here.browser("ann")).get("/console/accounts")).text
        shown += str((await here.gateway.preview(TOOL, {}, principal="ann")).to_dict())
    assert "canary" not in shown
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"canary" not in path.read_bytes(), path
    assert all(key not in shown for key in KEYS.values())


async def test_answers_of_accounts_are_not_cached(tmp_path: Path, provider: AccountProvider) -> None:
    with pytest.raises(ConfigError, match="accounts of people"):
        async with office(tmp_path, provider, tools={TOOL: {"cache": "60s"}}):
            pass


async def test_a_gateway_for_others_names_its_address(tmp_path: Path, provider: AccountProvider) -> None:
    with pytest.raises(ConfigError, match="come back to"):
        async with office(tmp_path, provider, gateway={"host": "0.0.0.0"}, console={}):
            pass
