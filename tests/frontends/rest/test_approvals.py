"""The REST routes of approvers: what they are shown of a call, beside what it would send."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gateway.test_approvals import UPDATE, policy_of, project, world, write_policy
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.canonical import digest

__all__ = ["project"]

CANARY = "canary-of-the-pets-key"
READ = "/v1/tools/pets__get_pet/call"


@pytest.fixture
def asking(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose bot has to ask before it reads a pet, with a credential of the source."""
    monkeypatch.setenv("TEST_PETS_KEY", CANARY)
    policy = policy_of()
    policy["rules"].append({"id": "asks", "to": ["bot"], "tools": ["pets__get_pet"], "verdict": "ask"})
    write_policy(project, policy)
    return project


async def test_an_approver_sees_the_request_as_it_would_be_sent_with_its_secrets_masked(asking: Path) -> None:
    async with world(asking) as (_, client):
        answer = await client.post("bot", READ, {"arguments": {"petId": 7}, "wait": 0})
        assert answer.status_code == 202, answer.text
        before = len(list(entries(asking.parent / "var" / "audit")))
        listed = await client.get("ops", "/v1/approvals")
        (shown,) = listed.json()["approvals"]
        assert shown["arguments"] == {"petId": 7}
        assert (shown["request"]["method"], shown["request"]["url"].rpartition("/")[2]) == ("GET", "7")
        assert ["X-Key", "***"] in [[name, value] for name, value in shown["request"]["headers"]]
        assert CANARY not in listed.text
        assert len(list(entries(asking.parent / "var" / "audit"))) == before  # looking is no call


async def test_of_a_statement_the_one_that_would_run_is_shown(project: Path) -> None:
    async with world(project) as (_, client):
        await client.ask()
        (shown,) = (await client.get("ops", "/v1/approvals")).json()["approvals"]
        assert shown["request"]["sql"] == shown["sql"]
        assert shown["request"]["parameters"] == UPDATE["parameters"]


async def test_a_call_that_would_be_refused_by_now_says_so_in_place_of_a_request(project: Path) -> None:
    async with world(project) as (gateway, client):
        await client.ask()
        policy = policy_of()
        policy["rules"].append({"id": "no", "to": ["bot"], "tools": ["shop__change"], "verdict": "deny"})
        write_policy(project, policy)
        assert await gateway._reloader.reload()
        found = (await client.get("ops", "/v1/approvals")).json()["approvals"]
        assert [item["refusal"]["code"] for item in found] == ["expired"]
        assert "request" not in json.dumps(found)


async def test_each_value_has_a_row_and_an_answer_may_be_bound_to_the_request_that_was_shown(asking: Path) -> None:
    async with world(asking) as (_, client):
        call_id = (await client.post("bot", READ, {"arguments": {"petId": 7}, "wait": 0})).json()["call_id"]
        (shown,) = (await client.get("ops", "/v1/approvals")).json()["approvals"]
        assert shown["rows"]["arguments"] == [{"name": "petId", "text": "7"}]
        rows = {row["name"]: row["text"] for row in shown["rows"]["request"]}
        assert (rows["method"], rows["header X-Key"]) == ("GET", "***")
        other = {"decision": "approve", "shown": "sha256:" + "0" * 64}
        refused = await client.post("ops", f"/v1/approvals/{call_id}", other)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        done = await client.post("ops", f"/v1/approvals/{call_id}", {"decision": "approve", "shown": shown["shown"]})
        assert done.status_code == 200, done.text
    (decision,) = [one for one in entries(asking.parent / "var" / "audit") if one.get("verdict") == "approve"]
    assert decision["arguments"] == {
        "channel": "rest",
        "shown": {"arguments": digest({"petId": 7}), "request": shown["shown"]},
    }
    assert verify(asking.parent / "var" / "audit").ok
