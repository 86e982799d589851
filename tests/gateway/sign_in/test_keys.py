"""Keys of the sign-in: those that sign tokens, and those that encrypt records, each replaced while gateways run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jwt
import pytest
from click.testing import CliRunner

from tests.connectors.test_key_services import Transit
from tests.databases import postgres_database
from tests.gateway.sign_in.places import Place, place, policy_of
from tests.services.authorization import serving
from tests.services.identity_provider import IdentityProvider
from toolgen.cli.main import cli
from toolgen.core.clock import FixedClock, SystemClock

DAY = 86_400.0


async def command(here: Place, *words: str) -> str:
    """Run a command on the machine of the gateway."""
    path = str(here.gateway.settings.path)
    found = await asyncio.to_thread(CliRunner().invoke, cli, [*words, "--config", path])
    assert found.exit_code == 0, found.output
    return found.output


def key_id(token: str) -> str:
    return str(jwt.get_unverified_header(token)["kid"])


async def key_ids(here: Place) -> list[str]:
    assert here.gateway.sign_in is not None
    return [one["kid"] for one in (await here.gateway.sign_in.keys.published())["keys"]]


async def test_a_new_signing_key_is_published_before_it_signs(tmp_path: Path, provider: IdentityProvider) -> None:
    clock = FixedClock(SystemClock().now())
    async with place(tmp_path, provider, clock) as here:
        client = await here.client()
        first = await here.tokens(client)
        (old,) = await key_ids(here)
        clock.advance(30 * DAY - 60)
        assert here.gateway.sign_in is not None
        clock.advance(61)
        signer = await here.gateway.sign_in.keys.signer()
        assert signer.id == old == key_id(first["access_token"])
        both = await key_ids(here)
        assert both[0] == old
        assert len(both) == 2
        clock.advance(3601)
        assert (await here.gateway.sign_in.keys.signer()).id == both[1]
        assert await key_ids(here) == both  # tokens of the former key are still about
        clock.advance(1000)
        assert await key_ids(here) == both[1:]


async def test_an_operator_replaces_a_leaked_key_at_once(tmp_path: Path, provider: IdentityProvider) -> None:
    clock = FixedClock(SystemClock().now())
    async with place(tmp_path, provider, clock) as here:
        client = await here.client()
        tokens = await here.tokens(client)
        assert "signs now" in await command(here, "keys", "rotate-signing", "--at-once")
        clock.advance(6)
        assert (await here.tools(tokens["access_token"])).status_code == 401
        again = (await here.refresh(client, tokens["refresh_token"])).json()
        assert key_id(again["access_token"]) != key_id(tokens["access_token"])
        assert (await here.tools(again["access_token"])).status_code == 200


async def test_records_survive_two_rotations_of_the_key_that_encrypts_them(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    async with place(tmp_path, provider) as here:
        client = await here.client()
        tokens = await here.tokens(client)
        for _ in range(3):
            await command(here, "keys", "rotate")
        again = await here.refresh(client, tokens["refresh_token"])
        assert again.status_code == 200, again.text
        assert key_id(again.json()["access_token"]) == key_id(tokens["access_token"])


async def test_sign_ins_are_in_the_database_of_accounts(tmp_path: Path, provider: IdentityProvider) -> None:
    with postgres_database("") as location:
        async with place(tmp_path, provider, accounts={"store": location}) as here:
            client = await here.client()
            tokens = await here.tokens(client)
            await command(here, "keys", "rotate")
            again = await here.refresh(client, tokens["refresh_token"])
            assert (await here.tools(again.json()["access_token"])).status_code == 200
            assert "staff:" in await command(here, "sign-ins", "list")
            assert not list(here.gateway.settings.state_dir.glob("sign-in*"))


async def test_a_key_service_wraps_the_keys_of_sign_ins(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Transit()
    with serving(vault) as service:
        monkeypatch.setenv("VAULT_ADDR", service.origin)
        monkeypatch.setenv("VAULT_TOKEN", "canary-token")
        hosts = [one.removeprefix("http://") for one in (service.origin, provider.issuer)]
        policy = policy_of(provider, egress={"allow": hosts})
        async with place(tmp_path, provider, policy=policy, accounts={"kms": "vault:transit/accounts"}) as here:
            client = await here.client()
            tokens = await here.tokens(client)
            assert not (here.gateway.settings.audit_dir / "accounts.key").exists()
            asked = len(service.asked)
            for _ in range(20):
                await here.browser.get(here.asked(client))
            assert len(service.asked) == asked
            await command(here, "keys", "rotate")
            again = await here.refresh(client, tokens["refresh_token"])
            assert again.status_code == 200, again.text
            assert key_id(again.json()["access_token"]) == key_id(tokens["access_token"])
