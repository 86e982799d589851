"""Accounts of a principal that the policy has no more: revoked at the system, deleted for every worker, on record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.gateway.accounts.offices import Office, link_of, office
from tests.projects import audit_entries
from tests.services.account_provider import AccountProvider
from toolgen.frontends.python.gateway import Gateway


def without_ann(policy: dict[str, Any]) -> None:
    del policy["principals"]["ann"]
    policy["principals"]["bot"]["acts_for"] = ["bob"]


async def gone(here: Office, most: int) -> None:
    """Wait until at most so many accounts are left."""
    async with asyncio.timeout(30):
        while len(await here.gateway.accounts.all()) > most:
            await here.gateway.approvals.calls.news.due(0.2)


async def test_accounts_of_a_removed_principal_are_revoked_once(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here, Gateway.load(tmp_path / "toolgen.yaml") as other:
        await here.link("ann")
        await here.link("bob")
        await here.change_policy(without_ann)
        assert await other.operations.reload()
        await gone(here, 1)
        (left,) = await here.gateway.accounts.all()
        assert left.principal == "bob"
        assert (await here.call("bob")).unwrap() == {"owner": "octocat"}
        async with asyncio.timeout(30):
            while len(provider.revoked) < 2:
                await here.gateway.approvals.calls.news.due(0.2)
        both = [*audit_entries(here.gateway), *audit_entries(other)]
    assert len(provider.revoked) == 2
    (entry,) = [one for one in both if one.get("code") == "unlinked"]
    assert (entry["principal"], entry["arguments"]["by"]) == ("ann", "policy")


async def test_an_edit_that_cannot_be_used_removes_nobody(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await here.link("ann")
        path = tmp_path / "policies" / "policy.yaml"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('"ann"', '"anna"', 1) + "]", encoding="utf-8")
        assert not await here.gateway.operations.reload()
        path.write_text(text, encoding="utf-8")
        assert await here.gateway.operations.reload()
        assert (await here.call()).unwrap() == {"owner": "octocat"}
        assert provider.revoked == []


async def test_a_gateway_with_an_older_policy_keeps_the_accounts_of_newer_principals(
    tmp_path: Path, provider: AccountProvider
) -> None:
    async with office(tmp_path, provider) as here:
        await here.change_policy(without_ann)
        link = link_of(await here.call("bob"))
        await here.link("bob", link)
        await here.change_policy(lambda policy: policy["principals"]["bob"]["roles"].append("more"))
        assert (await here.call("bob")).unwrap() == {"owner": "octocat"}
        assert provider.revoked == []
