"""Several accounts of a person at a source: a call chooses one by name, and the policy says which may be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.console.people import form_token
from tests.gateway.accounts.offices import KEYS, TOOL, WRITE, Office, link_of, office, refresh_of
from tests.gateway.clients import bearer
from tests.gateway.test_mcp_conversations import MODES, talking
from tests.projects import audit_entries
from tests.services.account_provider import AccountProvider
from toolgen.core.errors import ConfigError
from toolgen.state.accounts import AccountKey


async def link_named(here: Office, name: str, person: str, who: str = "ann") -> None:
    """Link an account under a name on the console."""
    http = await here.browser(who)
    here.provider.person = person
    here.allow()
    form = {"form_token": form_token((await http.get("/console/accounts")).text), "source": "repos", "name": name}
    left = await http.post("/console/accounts/link", data=form)
    assert (await here.back(who, here.provider.authorize(refresh_of(left.text)))).status_code == 303


async def test_a_call_chooses_an_account_over_rest_and_python(tmp_path: Path, provider: AccountProvider) -> None:
    async with (
        office(tmp_path, provider) as here,
        httpx.AsyncClient(base_url=here.url, headers=bearer(KEYS["ann"])) as http,
    ):
        await link_named(here, "work", "work-cat")
        await link_named(here, "private", "private-cat")
        for chosen, owner in ((None, "work-cat"), ("private", "private-cat"), ("work", "work-cat")):
            body = {"arguments": {}, **({} if chosen is None else {"account": chosen})}
            answer = await http.post(f"/v1/tools/{TOOL}/call", json=body)
            assert answer.json()["data"] == {"owner": owner}
            assert (await here.call(account=chosen or "")).unwrap() == {"owner": owner}
        assert (await http.post(f"/v1/tools/{TOOL}/call", json={"account": "A"})).status_code == 400
        with pytest.raises(ConfigError, match="account"):
            await here.call(account="../work")
        told = sorted(
            one["arguments"]["account"] for one in audit_entries(here.gateway) if one.get("status") == "chosen"
        )
        assert told == ["private", "private", "work", "work"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_chooses_an_account_over_mcp(tmp_path: Path, provider: AccountProvider, mode: str) -> None:
    async with office(tmp_path, provider) as here:
        await link_named(here, "work", "work-cat")
        await link_named(here, "private", "private-cat")
        async with talking(f"{here.url}/mcp", mode, who="ann") as client:
            found = await client.call_tool(TOOL, {}, meta={"toolgen/account": "private"})
            assert "private-cat" in found.content[0].text  # type: ignore[union-attr]  # a text
            with pytest.raises(Exception, match="toolgen/account"):
                await client.call_tool(TOOL, {}, meta={"toolgen/account": "no name"})
        assert provider.used == ["private-cat"]


async def test_a_name_without_an_account_is_linked_under_that_name(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await link_named(here, "work", "work-cat")
        waiting = await here.call(tool=WRITE, account="private")
        assert "named private" in ((waiting.error and waiting.error.message) or "")
        provider.person = "private-cat"
        await here.link("ann", link_of(waiting))
        assert (await here.ended(waiting)).unwrap() == {"owner": "private-cat"}
        person = here.gateway.accounts.person(here.gateway.principal("ann"))
        assert await here.gateway.accounts.store.get(AccountKey(person, "repos", "private")) is not None
        assert (await here.call()).unwrap() == {"owner": "work-cat"}


async def test_the_name_of_somebody_elses_account_opens_nothing(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await link_named(here, "work", "ann-cat")
        link_of(await here.call("bob", account="work"))
        assert provider.used == []


async def test_an_equal_call_for_another_account_is_another_call(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        first = await here.call(tool=WRITE, account="work", idempotency_key="k")
        second = await here.call(tool=WRITE, account="private", idempotency_key="k")
        assert second.error is not None
        assert second.error.rule == "idempotency_key"
        third, fourth = await here.call(tool=WRITE, account="work"), await here.call(tool=WRITE, account="private")
        assert len({first.call_id, third.call_id, fourth.call_id}) == 3


@pytest.mark.parametrize("verdict", ["deny", "ask"])
async def test_a_rule_about_an_account_is_not_escaped_by_choosing_none(
    tmp_path: Path, provider: AccountProvider, verdict: str
) -> None:
    """The account `private` is the default: without a choice the call would use it."""
    async with office(tmp_path, provider) as here:
        await link_named(here, "private", "private-cat")
        await link_named(here, "work", "work-cat")

        def restrict(policy: dict[str, Any]) -> None:
            rule = {"id": "no-private", "to": ["user"], "tools": ["*"], "accounts": ["private"], "verdict": verdict}
            policy["rules"].append(rule)
            policy["approvals"] = {"approvers": ["reviewer"]}

        await here.change_policy(restrict)
        for chosen in ("", "private"):
            assert (await here.call(account=chosen)).status == {"deny": "refused", "ask": "pending"}[verdict]
        assert (await here.call(account="work")).unwrap() == {"owner": "work-cat"}
        assert provider.used == ["work-cat"]


async def test_a_rule_that_allows_an_account_allows_no_other(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        await link_named(here, "work", "work-cat")

        def restrict(policy: dict[str, Any]) -> None:
            policy["rules"][0]["accounts"] = ["work"]

        await here.change_policy(restrict)
        assert (await here.call()).status == "refused"
        assert (await here.call(account="private")).status == "refused"
        assert (await here.call(account="work")).unwrap() == {"owner": "work-cat"}
        assert (await here.call("bot", "ann", account="work")).unwrap() == {"owner": "work-cat"}
