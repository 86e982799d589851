"""Calls that wait for an account go on by themselves once their person has linked it: once, through every stage, and in time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.commands import runner
from tests.gateway.accounts.offices import KEYS, TOOL, WRITE, Office, link_of, office
from tests.gateway.clients import bearer
from tests.projects import audit_entries
from tests.services.account_provider import AccountProvider
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.terms import DecisionOptions
from toolgen.gateway.operations import suspended_calls
from toolgen.model.result import Envelope

FLOW = """
workflows:
  make:
    description: Makes a repository, and lists all.
    inputs: {}
    steps:
      - {id: made, call: repos__create_repo, with: {name: new}}
      - {id: listed, call: repos__list_repos}
    outputs: {owner: $steps.listed.data.owner}
"""


def code(envelope: Envelope) -> str:
    return envelope.error.code if envelope.error is not None else envelope.status


def asks(policy: dict[str, Any]) -> None:
    """Have people agree to a write."""
    policy["rules"].append({"id": "asks", "to": ["user"], "tools": [WRITE], "verdict": "ask"})
    policy["approvals"] = {"approvers": ["reviewer"]}


async def approved(here: Office, **more: Any) -> Envelope:
    """A write that rita agreed to, and that then needs an account."""
    await here.change_policy(asks)
    waiting = await here.call(tool=WRITE, **more)
    assert code(waiting) == "approval_required"
    rita, approvals = here.gateway.principal("rita"), here.gateway.approvals
    await approvals.decide(waiting.call_id, approve=True, note="fine", principal=rita, terms=DecisionOptions())
    async with asyncio.timeout(30):
        while code(found := await here.ended(waiting, within=0.0)) != "authorization_required":
            await approvals.calls.news.of(waiting.call_id).wait()
    return found


@pytest.mark.parametrize("tool", [TOOL, WRITE])
async def test_a_call_goes_on_by_itself_over_rest(tmp_path: Path, provider: AccountProvider, tool: str) -> None:
    async with (
        office(tmp_path, provider) as here,
        httpx.AsyncClient(base_url=here.url, headers=bearer(KEYS["ann"]), timeout=30) as http,
    ):
        waiting = (await http.post(f"/v1/tools/{tool}/call", json={"arguments": {}})).json()
        place = f"/v1/calls/{waiting['call_id']}"
        shown = (await http.get(place)).json()
        assert (shown["status"], shown["error"]["code"]) == ("pending", "authorization_required")
        assert shown["error"]["help_url"] == waiting["error"]["help_url"]
        assert (await here.link("ann", waiting["error"]["help_url"])).status_code == 303
        assert (await http.get(f"{place}/events", params={"wait": 20})).status_code == 200
        ended = (await http.get(place)).json()
        assert (ended["status"], ended["data"]) == ("ok", {"owner": "octocat"})
        assert provider.used == ["octocat"]
        mine = [one for one in audit_entries(here.gateway) if one.get("call_id") == waiting["call_id"]]
        told = sorted((one["event"], one.get("status", "")) for one in mine)
        assert told == [("intent", ""), ("intent", ""), ("outcome", "ok"), ("outcome", "pending")]


async def test_an_equal_write_joins_the_one_that_waits(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        first = await here.call(tool=WRITE)
        second = await here.call(tool=WRITE)
        assert (second.call_id, link_of(second)) == (first.call_id, link_of(first))
        await here.link("ann", link_of(first))
        assert (await here.ended(first)).status == "ok"
        assert provider.used == ["octocat"]


async def test_the_account_of_somebody_else_does_nothing(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        anns, bobs = await here.call("ann", tool=WRITE), await here.call("bob", tool=WRITE)
        await here.link("bob", link_of(bobs))
        assert (await here.ended(bobs, "bob")).status == "ok"
        assert code(await here.ended(anns, within=2.0)) == "authorization_required"
        assert await here.gateway.approvals.calls.outcome(anns.call_id, here.gateway.principal("bob")) is None
        assert provider.used == ["octocat"]


async def test_a_call_of_an_agent_goes_on_for_its_user_alone(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        waiting = await here.call("bot", "ann", tool=WRITE)
        await here.link("ann", link_of(waiting))
        bot = here.gateway.principal("bot", "ann")
        found = await here.gateway.approvals.calls.outcome(waiting.call_id, bot, 30)
        assert found is not None
        assert found.unwrap() == {"owner": "octocat"}


async def test_several_gateways_go_on_with_a_call_once(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here, Gateway.load(tmp_path / "toolgen.yaml") as other:
        for _ in range(3):
            provider.used.clear()
            waiting = await here.call(tool=WRITE)
            await here.link("ann", link_of(waiting))
            assert (await here.ended(waiting)).status == "ok"
            assert await other.call(TOOL, {}, principal="ann")
            assert provider.used == ["octocat", "octocat"]
            (account,) = await here.gateway.accounts.all()
            await here.gateway.accounts.unlink(account, by="ann")


async def test_a_call_waits_no_longer_than_the_link(
    tmp_path: Path, provider: AccountProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspended_calls, "ACCOUNT_S", 0.2)
    async with office(tmp_path, provider) as here:
        waiting = await here.call(tool=WRITE)
        ended = await here.ended(waiting)
        assert code(ended) == "expired"
        await here.link("ann", link_of(waiting))
        assert code(await here.ended(waiting, within=0.0)) == "expired"
        assert provider.used == []


async def test_a_withdrawn_call_is_not_made_after_the_link(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        waiting = await here.call(tool=WRITE)
        await here.ended(waiting, within=1.5)  # it was looked at by then
        await here.gateway.approvals.calls.cancel(waiting.call_id, here.gateway.principal("ann"))
        await here.link("ann", link_of(waiting))
        assert code(await here.ended(waiting)) == "cancelled"
        assert provider.used == []


async def test_an_approved_call_goes_on_with_its_approval_once(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        waiting = await approved(here)
        known = await here.gateway.approvals.calls.store.get(waiting.call_id)
        assert known is not None
        assert [vote.by for vote in known.approval.votes] == ["rita"]
        await here.link("ann", link_of(waiting))
        ended = await here.ended(waiting)
        assert (ended.status, ended.meta.note) == ("ok", "fine")
        assert provider.used == ["octocat"]
        assert code(await here.call(tool=WRITE)) == "approval_required"


async def test_an_approval_under_another_policy_counts_no_more(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here:
        waiting = await approved(here)

        def narrowed(policy: dict[str, Any]) -> None:
            policy["rules"][1]["arguments"] = {"properties": {"name": {"maxLength": 3}}}

        await here.change_policy(narrowed)
        await here.link("ann", link_of(waiting))
        assert code(await here.ended(waiting)) == "expired"
        assert provider.used == []


async def test_a_call_that_nobody_agreed_to_is_not_taken_for_approved(
    tmp_path: Path, provider: AccountProvider
) -> None:
    """A rule that asks came while the call waited."""
    async with office(tmp_path, provider) as here:
        waiting = await here.call(tool=WRITE)
        await here.change_policy(asks)
        await here.link("ann", link_of(waiting))
        assert code(await here.ended(waiting)) == "expired"
        assert provider.used == []


async def test_a_workflow_goes_on_from_the_step_that_needed_the_account(
    tmp_path: Path, provider: AccountProvider
) -> None:
    sources = {"flow": {"workflow": "flow.yaml"}}
    root = tmp_path / "project"
    root.mkdir()
    (root / "flow.yaml").write_text(FLOW, encoding="utf-8")
    async with office(root, provider, sources=sources) as here:
        waiting = await here.call(tool="flow__make")
        assert code(waiting) == "deferred"
        (step,) = await here.gateway.approvals.calls.store.unfinished("account")
        assert step.account is not None
        assert waiting.error is not None
        await here.link("ann", step.account.page)
        ended = await here.ended(waiting)
        assert ended.unwrap() == {"owner": "octocat"}
        assert provider.used == ["octocat", "octocat"]


async def test_the_command_line_waits_for_the_link(
    tmp_path: Path, provider: AccountProvider, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with office(tmp_path, provider) as here:
        run = runner(capsysbinary)
        arguments = ("call", WRITE, "--as", "ann", "--wait", "60", "--json", "--config", str(tmp_path / "toolgen.yaml"))
        command = asyncio.create_task(asyncio.to_thread(run, *arguments))
        store = here.gateway.approvals.calls.store
        async with asyncio.timeout(30):
            while not (found := await store.unfinished("account")):
                await here.gateway.approvals.calls.news.due(0.2)
        assert found[0].account is not None
        await here.link("ann", found[0].account.page)
        done = await command
        assert (done.code, json.loads(done.out)["data"]) == (0, {"owner": "octocat"}), done.err
        assert provider.used == ["octocat"]
