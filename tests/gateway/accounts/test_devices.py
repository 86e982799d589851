"""Accounts linked by device authorization (RFC 8628), for terminals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.accounts.offices import office
from tests.services.account_provider import AccountProvider
from toolgen.gateway.accounts.accounts import AccountLinkError


async def test_an_account_is_linked_once_the_code_was_typed(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        shown: list[tuple[str, str]] = []
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                provider.devices = dict.fromkeys(provider.devices, "octocat")

        ann = here.gateway.principal("ann")
        account = await here.gateway.accounts.link_device(
            ann, "repos", "work", lambda page, code: shown.append((page, code)), sleep
        )
        assert shown == [(f"{provider.issuer}/activate", "ABCD-EFGH")]
        assert waits == [1.0, 1.0, 1.0]
        assert (account.name, account.default) == ("work", True)
        assert (await here.call()).unwrap() == {"owner": "octocat"}
        assert len(here.recorded("linked")) == 1


async def test_a_server_without_device_authorization_says_so(tmp_path: Path, provider: AccountProvider) -> None:
    provider.more = {"device_authorization_endpoint": None}
    async with office(tmp_path, provider) as here:
        ann = here.gateway.principal("ann")
        with pytest.raises(AccountLinkError, match="no device authorization"):
            await here.gateway.accounts.link_device(ann, "repos", "work", lambda *_: None)


async def test_a_source_without_accounts_is_refused(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        with pytest.raises(AccountLinkError, match="not called with accounts"):
            await here.gateway.accounts.link_device(here.gateway.principal("ann"), "other", "x", lambda *_: None)
