"""Accounts whose tokens are bound to a key (DPoP): a key for each, which goes with the account through every refresh."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec.structs import replace

from tests.gateway.accounts.offices import link_of, office
from tests.gateway.accounts.test_refreshing import age
from tests.services.account_provider import AccountProvider
from toolgen.connectors.http.oauth.dpop import ProofKey


async def test_each_account_has_a_key_of_its_own(tmp_path: Path, provider: AccountProvider) -> None:
    provider.proofs = True
    async with office(tmp_path, provider, auth={"dpop": True}) as here:
        for who in ("ann", "bob"):
            await here.link(who)
            assert (await here.call(who)).status == "ok"
        stored = [one for one in await here.gateway.accounts.all() if one.proof_key]
        keys = {ProofKey.read(one.proof_key).thumbprint for one in stored}
        assert len(keys) == 2
        assert keys == {provider.keys[one.access_token] for one in stored}
        raw = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert b"PRIVATE KEY" not in raw.replace(b"BEGIN ENCRYPTED", b"")


async def test_a_refreshed_token_is_bound_to_the_key_of_its_account(tmp_path: Path, provider: AccountProvider) -> None:
    provider.proofs = True
    async with office(tmp_path, provider, auth={"dpop": True}) as here:
        await here.link()
        (before,) = await here.gateway.accounts.all()
        provider.expire()
        await age(here, expires=time.time() - 1)
        assert (await here.call()).status == "ok"
        (after,) = await here.gateway.accounts.all()
        assert after.access_token != before.access_token
        assert after.proof_key == before.proof_key
        assert provider.faults == []


async def test_a_server_that_gives_bearer_tokens_links_no_account(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider, auth={"dpop": True}) as here:
        await here.link()
        assert await here.gateway.accounts.all() == ()
        assert (await here.call()).status == "pending"


async def test_an_account_of_bearer_tokens_is_linked_again(tmp_path: Path, provider: AccountProvider) -> None:
    """The project asks for keys after people linked their accounts: their tokens are not sent any more."""
    async with office(tmp_path, provider) as here:
        await here.link()
        assert (await here.call()).status == "ok"
        client = here.gateway.accounts.client("repos")
        client.form = replace(client.form, dpop=True)
        await age(here)
        used = list(provider.used)
        link_of(await here.call())
        assert provider.used == used
