"""Tokens of accounts: refreshed ahead of their end, once for all calls and workers, and asked for again if the system refuses them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.gateway.accounts.offices import Office, link_of, office
from tests.services.account_provider import AccountProvider
from toolgen.gateway.accounts.tokens import SourceTokens
from toolgen.model.account_need import AuthorizationRequiredError
from toolgen.model.auth import UserAccount
from toolgen.model.call import Principal
from toolgen.state.accounts import Account


def tokens_of(here: Office) -> tuple[SourceTokens, UserAccount, Principal]:
    """The tokens of the source, its form, and ann."""
    tokens = here.gateway.accounts.tokens("repos")
    assert tokens is not None
    return tokens, here.gateway.accounts.client("repos").form, here.gateway.principal("ann")


async def age(here: Office, **changes: object) -> Account:
    """Change ann's account in the store, as time or another worker does."""
    accounts = here.gateway.accounts
    (account,) = await accounts.of(here.gateway.principal("ann"))
    kept = await accounts.store.put(replace(account, **changes))
    assert kept is not None
    tokens_of(here)[0].forget(account.person)
    return kept


async def test_a_thousand_calls_on_an_expired_token_ask_for_one_refresh(
    tmp_path: Path, provider: AccountProvider
) -> None:
    async with office(tmp_path, provider) as here:
        await here.link()
        await age(here, expires=time.time() - 1)
        tokens, form, ann = tokens_of(here)
        found = await asyncio.gather(*(tokens.fetch(form, ann) for _ in range(1000)))
        assert len(set(found)) == 1
        assert provider.refreshed == tokens.refreshes == 1
        assert (await here.call()).status == "ok"
        assert provider.refreshed == 1


async def test_several_workers_ask_for_one_refresh(tmp_path: Path, provider: AccountProvider) -> None:
    """A server that rotates refresh tokens takes one that comes twice for stolen."""
    async with office(tmp_path, provider) as here:
        await here.link()
        await age(here, expires=time.time() - 1)
        tokens, form, ann = tokens_of(here)
        others = [SourceTokens("repos", here.gateway.accounts.client("repos"), tokens._access) for _ in range(4)]
        found = await asyncio.gather(*(one.fetch(form, ann) for one in (tokens, *others) for _ in range(50)))
        assert len(set(found)) == 1
        assert provider.refreshed == 1
        assert provider.faults == []


async def test_a_token_is_refreshed_ahead_of_its_end(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link()
        now = time.time()
        await age(here, refreshed=now - 3500, expires=now + 100)
        assert (await here.call()).status == "ok"
        assert provider.refreshed == 1


async def test_a_token_that_is_still_good_is_used_while_the_server_is_away(
    tmp_path: Path, provider: AccountProvider
) -> None:
    async with office(tmp_path, provider) as here:
        await here.link()
        now = time.time()
        await age(here, refreshed=now - 3500, expires=now + 100)
        provider.more = {"token_endpoint": "https://nowhere.invalid/token"}
        here.gateway.accounts.client("repos")._metadata = None
        assert (await here.call()).status == "ok"
        await age(here, expires=now - 1)
        found = await here.call()
        assert (found.status, found.error and found.error.code) == ("error", "secret_unavailable")


async def test_a_token_that_the_system_refuses_is_refreshed_once(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link()
        assert (await here.call()).status == "ok"
        provider.expire()
        assert (await here.call()).unwrap() == {"owner": "octocat"}
        assert provider.refreshed == 1


async def test_a_withdrawn_consent_asks_the_person_again(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link()
        provider.expire()
        provider.refresh_tokens.clear()
        link = link_of(await here.call())
        assert len(here.recorded("refused")) == 1
        link_of(await here.call())
        assert provider.refreshed == 1  # the server is not asked again in vain
        await here.link("ann", link)
        assert (await here.call()).status == "ok"


async def test_a_token_without_an_end_is_kept(tmp_path: Path, provider: AccountProvider) -> None:
    provider.lifetime = None
    async with office(tmp_path, provider) as here:
        await here.link()
        (account,) = await here.gateway.accounts.all()
        assert account.expires == 0.0
        for _ in range(3):
            assert (await here.call()).status == "ok"
        assert provider.refreshed == 0


async def test_an_account_that_another_worker_unlinks_is_used_for_seconds_at_most(
    tmp_path: Path, provider: AccountProvider
) -> None:
    async with office(tmp_path, provider) as here:
        await here.link()
        tokens, form, ann = tokens_of(here)
        await tokens.fetch(form, ann)
        (account,) = await here.gateway.accounts.all()
        await here.gateway.accounts.store.remove(account.key)
        assert tokens.known(form, ann) is not None
        ahead = time.monotonic() + 6
        tokens._monotonic = lambda: ahead
        assert tokens.known(form, ann) is None
        with pytest.raises(AuthorizationRequiredError) as gone:
            await tokens.fetch(form, ann)
        assert gone.value.page


async def test_keys_are_rotated_while_accounts_are_used(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link()
        store = here.gateway.accounts.store
        store._keys.add()  # type: ignore[attr-defined]  # keys of a file
        assert await store.rotate() == 1
        store._keys.drop_older()  # type: ignore[attr-defined]
        await age(here, expires=time.time() - 1)
        assert (await here.call()).status == "ok"
