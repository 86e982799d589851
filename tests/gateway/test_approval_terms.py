"""A yes with other arguments, and one that takes several people: what runs is what was agreed to, by enough of them, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway import governed
from tests.gateway.test_approvals import (
    UPDATE,
    Client,
    decisions,
    executions,
    hash_of,
    looked_after,
    names,
    policy_of,
    project,
    world,
    write_policy,
)
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.terms import DecisionOptions
from toolgen.state.invocations import Invocation

__all__ = ["project"]

EDITED = {"sql": "UPDATE customers SET name = ? WHERE id = ?", "parameters": ["Zelda", 2]}


def refusals(project: Path) -> list[tuple[str, str]]:
    """Who was refused an answer, and why."""
    found = entries(project.parent / "var" / "audit")
    return [(str(entry["principal"]), str(entry["code"])) for entry in found if entry["event"] == "refusal"]


def of_call(project: Path, call_id: str) -> list[dict[str, Any]]:
    found = entries(project.parent / "var" / "audit")
    return [dict(entry) for entry in found if entry.get("call_id") == call_id]


async def test_an_edited_call_runs_exactly_as_edited_and_both_versions_are_on_record(project: Path) -> None:
    async with world(project) as (_, client):
        call_id = await client.ask()
        (before,) = (await client.get("ops", "/v1/approvals")).json()["approvals"]
        answer = await client.decide("ops", call_id, arguments=EDITED, note="the other one")  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["status"]) == (200, "approved"), answer.text
        envelope = await client.ended(call_id)
        assert (envelope["status"], envelope["data"]) == ("ok", {"row_count": 1})
        assert names(project) == ["Ada", "Zelda"]
        assert before["digest"]
    told = of_call(project, call_id)
    assert [entry["arguments"]["parameters"] for entry in told if entry["event"] == "intent"] == [
        UPDATE["parameters"],
        EDITED["parameters"],
    ]
    (decision,) = decisions(project)
    said = decision["arguments"]
    assert (said["note"], said["edited"], said["channel"]) == ("the other one", EDITED, "rest")
    assert [*said["shown"]] == ["arguments", "request"]
    assert len(executions(project)) == 1


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"sql": "UPDATE customers SET name = 1, email = 2"}, 403),  # beyond what the caller may
        ({"sql": "DELETE FROM customers"}, 403),
        ({"sql": 5}, 400),
        ({}, 400),
        ({**UPDATE, "statement": "x"}, 400),  # no argument of the tool
        ({"sql": "x" * 70_000}, 400),
        ([], 400),
        ("UPDATE", 400),
    ],
)
async def test_an_edit_that_the_caller_could_not_have_sent_is_refused_and_changes_nothing(
    arguments: object, status: int, project: Path
) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        answer = await client.post("ops", f"/v1/approvals/{call_id}", {"decision": "approve", "arguments": arguments})
        assert answer.status_code == status, answer.text
        await looked_after(gateway)
        assert (names(project), decisions(project), executions(project)) == (["Ada", "Ben"], [], [])
        (shown,) = (await client.get("ops", "/v1/approvals")).json()["approvals"]
        assert shown["arguments"] == UPDATE
        assert "original" not in shown


async def test_a_key_stays_bound_to_what_its_caller_sent(project: Path) -> None:
    async with world(project) as (_, client):
        path, body = "/v1/tools/shop__change/call", {"arguments": UPDATE, "wait": 0, "idempotency_key": "k-1"}
        call_id = (await client.post("bot", path, body)).json()["call_id"]
        await client.decide("ops", call_id, arguments=EDITED)  # type: ignore[arg-type]
        assert (await client.ended(call_id))["status"] == "ok"
        again = (await client.post("bot", path, body)).json()
        assert (again["status"], again["call_id"]) == ("ok", call_id)
        assert [entry.get("code", "") for entry in executions(project)] == ["", "replayed"]


async def test_what_the_gateway_sets_no_approver_sets_otherwise(project: Path) -> None:
    policy = policy_of()
    policy["principals"]["bot"]["attributes"] = {"pet": 7}
    policy["rules"].append(
        {
            "id": "pets",
            "to": ["bot"],
            "tools": ["pets__delete_pet"],
            "verdict": "ask",
            "bind": {"petId": "principal.attributes.pet"},
        }
    )
    policy["principals"]["bot2"]["attributes"] = {"pet": 8}
    policy["principals"]["ann"]["attributes"] = {"pet": 9}
    write_policy(project, policy)
    async with world(project) as (_, client):
        path = "/v1/tools/pets__delete_pet/call"
        call_id = (await client.post("bot", path, {"arguments": {}, "wait": 0})).json()["call_id"]
        other = await client.decide("ops", call_id, arguments={"petId": 8})  # type: ignore[arg-type]
        assert (other.status_code, other.json()["error"]["code"]) == (403, "forbidden")
        same = await client.decide("ops", call_id, arguments={"petId": 7})  # type: ignore[arg-type]
        assert same.status_code == 200, same.text


@pytest.fixture
def two(project: Path) -> Path:
    """A project where two approvers have to agree."""
    policy = policy_of()
    policy["principals"]["third"] = {**policy["principals"]["lead"], "api_key": hash_of("third")}
    policy["approvals"] |= {"quorum": 2}
    write_policy(project, policy)
    return project


async def test_two_distinct_people_have_to_agree(two: Path) -> None:
    async with world(two) as (gateway, client):
        call_id = await client.ask()
        first = await client.decide("ops", call_id)
        assert (first.status_code, first.json()["status"]) == (200, "pending")
        await looked_after(gateway)
        assert names(two) == ["Ada", "Ben"]
        (shown,) = (await client.get("lead", "/v1/approvals")).json()["approvals"]
        assert (shown["agreed"], shown["needs"]) == (["ops"], [{"roles": ["ops"], "people": 2}])
        again = await client.decide("ops", call_id)
        assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
        own = await client.decide("bot", call_id)
        assert own.status_code == 403
        assert names(two) == ["Ada", "Ben"]
        second = await client.decide("lead", call_id)
        assert second.json()["status"] == "approved"
        assert (await client.ended(call_id))["status"] == "ok"
        assert names(two) == ["Zoe", "Ben"]
    assert refusals(two) == [("ops", "conflict"), ("bot", "forbidden")]
    assert [(one["principal"], one["arguments"]["votes"], one["arguments"]["enough"]) for one in decisions(two)] == [
        ("ops", 1, False),
        ("lead", 2, True),
    ]


async def test_one_no_ends_it(two: Path) -> None:
    async with world(two) as (_, client):
        call_id = await client.ask()
        await client.decide("ops", call_id)
        assert (await client.decide("lead", call_id, "deny", note="not today")).status_code == 200
        envelope = await client.ended(call_id)
        assert (envelope["status"], envelope["error"]["code"]) == ("refused", "approval_denied")
        assert "not today" in envelope["error"]["message"]
        assert (await client.decide("third", call_id)).status_code == 409
    assert executions(two) == []


async def test_a_yes_to_other_arguments_is_no_yes_to_those_that_an_approver_wrote(two: Path) -> None:
    async with world(two) as (gateway, client):
        call_id = await client.ask()
        (shown,) = (await client.get("ops", "/v1/approvals")).json()["approvals"]
        await client.decide("ops", call_id)
        edited = await client.decide("lead", call_id, arguments=EDITED)  # type: ignore[arg-type]
        assert edited.json()["status"] == "pending"  # the yes of ops was to another call
        unseen = await client.decide("third", call_id)
        assert (unseen.status_code, unseen.json()["error"]["code"]) == (409, "conflict")
        old = await client.decide("third", call_id, digest=shown["digest"])
        assert old.status_code == 409
        await looked_after(gateway)
        assert names(two) == ["Ada", "Ben"]
        (now,) = (await client.get("third", "/v1/approvals")).json()["approvals"]
        assert (now["arguments"], now["original"], now["edited_by"]) == (EDITED, UPDATE, "lead")
        assert (await client.decide("third", call_id, digest=now["digest"])).json()["status"] == "approved"
        assert (await client.ended(call_id))["status"] == "ok"
        assert names(two) == ["Ada", "Zelda"]


async def test_who_lost_the_role_meanwhile_agreed_to_nothing(two: Path) -> None:
    async with world(two) as (gateway, client):
        call_id = await client.ask()
        await client.decide("ops", call_id)
        policy = policy_of()
        policy["principals"]["third"] = {**policy["principals"]["lead"], "api_key": hash_of("third")}
        policy["approvals"] |= {"quorum": 2}
        policy["principals"]["ops"]["roles"] = ["clerk"]
        write_policy(two, policy)
        assert await gateway._reloader.reload()
        assert (await client.decide("lead", call_id)).json()["status"] == "pending"
        assert (await client.decide("third", call_id)).json()["status"] == "approved"


async def test_a_rule_names_its_own_people(project: Path) -> None:
    policy = policy_of()
    for name in ("lena", "leo"):
        policy["principals"][name] = {"api_key": hash_of(name), "roles": ["lead"]}
    policy["rules"].append(
        {
            "id": "changes",
            "to": ["bot"],
            "tools": ["shop__change"],
            "verdict": "ask",
            "approvers": {"any": "2 of [lead]"},
        }
    )
    write_policy(project, policy)
    async with world(project) as (_, client):
        call_id = await client.ask()
        assert (await client.get("ops", "/v1/approvals")).json() == {"approvals": []}
        refused = await client.decide("ops", call_id)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        assert (await client.decide("lena", call_id)).json()["status"] == "pending"
        assert (await client.decide("leo", call_id)).json()["status"] == "approved"
        assert (await client.ended(call_id))["status"] == "ok"


async def test_every_rule_that_asks_gets_its_people(project: Path) -> None:
    policy = policy_of()
    policy["principals"]["lena"] = {"api_key": hash_of("lena"), "roles": ["lead"]}
    ask = {"to": ["bot"], "tools": ["shop__change"], "verdict": "ask"}
    policy["rules"] += [
        {"id": "a", **ask},
        {"id": "b", **ask, "approvers": {"any": "1 of [lead]"}},
    ]
    write_policy(project, policy)
    async with world(project) as (_, client):
        call_id = await client.ask()
        assert (await client.decide("ops", call_id)).json()["status"] == "pending"
        assert (await client.decide("lead", call_id)).json()["status"] == "pending"  # another of the same
        assert (await client.decide("lena", call_id)).json()["status"] == "approved"


async def test_who_lost_one_of_two_roles_meanwhile_answers_with_the_other_alone(project: Path) -> None:
    policy = policy_of()
    policy["principals"]["lena"] = {"api_key": hash_of("lena"), "roles": ["lead", "clerk"]}
    policy["principals"]["leo"] = {"api_key": hash_of("leo"), "roles": ["lead"]}
    policy["principals"]["carl"] = {"api_key": hash_of("carl"), "roles": ["clerk"]}
    ask = {"to": ["bot"], "tools": ["shop__change"], "verdict": "ask"}
    policy["rules"] += [
        {"id": "a", **ask, "approvers": {"any": "1 of [lead]"}},
        {"id": "b", **ask, "approvers": {"any": "2 of [clerk]"}},
    ]
    write_policy(project, policy)
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        assert (await client.decide("lena", call_id)).json()["status"] == "pending"
        policy["principals"]["lena"]["roles"] = ["clerk"]
        write_policy(project, policy)
        assert await gateway._reloader.reload()
        assert (await client.decide("carl", call_id)).json()["status"] == "pending"  # no lead agreed to it
        assert (await client.decide("leo", call_id)).json()["status"] == "approved"


async def test_with_too_few_people_nobody_is_asked(project: Path) -> None:
    policy = policy_of()
    policy["approvals"] |= {"quorum": 5}
    write_policy(project, policy)
    async with world(project) as (_, client):
        answer = await client.post("bot", "/v1/tools/shop__change/call", {"arguments": UPDATE})
        assert answer.json()["status"] == "cancelled"


async def test_fifty_answers_at_once_carry_a_call_out_once(project: Path) -> None:
    policy = policy_of()
    for number in range(50):
        policy["principals"][f"p{number}"] = {"api_key": hash_of(f"p{number}"), "roles": ["ops"]}
    write_policy(project, policy)
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        answers = await asyncio.gather(*(client.decide(f"p{number}", call_id) for number in range(50)))
        assert sorted(answer.status_code for answer in answers) == [200, *[409] * 49]
        assert (await client.ended(call_id))["status"] == "ok"
        await looked_after(gateway)
    assert len(executions(project)) == 1
    assert len(refusals(project)) == 49


async def test_everybody_of_a_quorum_at_once_counts(project: Path) -> None:
    policy = policy_of()
    policy["approvals"] |= {"quorum": 4}
    for number in range(4):
        policy["principals"][f"p{number}"] = {"api_key": hash_of(f"p{number}"), "roles": ["ops"]}
    write_policy(project, policy)
    async with world(project) as (_, client):
        call_id = await client.ask()
        answers = await asyncio.gather(*(client.decide(f"p{number}", call_id) for number in range(4)))
        assert [answer.status_code for answer in answers] == [200] * 4, [answer.text for answer in answers]
        assert (await client.ended(call_id))["status"] == "ok"


@contextlib.asynccontextmanager
async def escalating(project: Path) -> AsyncIterator[tuple[Gateway, Client]]:
    policy = policy_of()
    policy["principals"]["boss"] = {"api_key": hash_of("boss"), "roles": ["boss"]}
    policy["approvals"] |= {"escalate": {"after": "30m", "to": ["boss"]}}
    write_policy(project, policy)
    async with world(project) as found:
        yield found


async def test_others_may_answer_once_nobody_did_for_long_enough(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with escalating(project) as (gateway, client):
        call_id = await client.ask()
        early = await client.decide("boss", call_id)
        assert (early.status_code, early.json()["error"]["code"]) == (403, "forbidden")
        assert (await client.get("boss", "/v1/approvals")).json() == {"approvals": []}
        known = await gateway.approvals.calls.store.get(call_id)
        assert known is not None
        later = known.asked + 1801

        async def now() -> float:
            return later

        monkeypatch.setattr(gateway.approvals.calls.store, "now", now)
        assert [one["id"] for one in (await client.get("boss", "/v1/approvals")).json()["approvals"]] == [call_id]
        assert (await client.decide("boss", call_id)).json()["status"] == "approved"


@pytest.mark.parametrize("late", [False, True])
async def test_who_may_answer_later_answers_for_nobody_else_before(
    project: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """A lead has to agree to it, as ops have to. That leads may answer for ops after a while makes one of them no two before."""
    policy = policy_of()
    policy["principals"]["lena"] = {"api_key": hash_of("lena"), "roles": ["lead"]}
    policy["approvals"] |= {"escalate": {"after": "30m", "to": ["lead"]}}
    ask = {"to": ["bot"], "tools": ["shop__change"], "verdict": "ask"}
    policy["rules"] += [{"id": "a", **ask}, {"id": "b", **ask, "approvers": {"any": "1 of [lead]"}}]
    write_policy(project, policy)
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        known = await gateway.approvals.calls.store.get(call_id)
        assert known is not None
        later = known.asked + 1801

        async def now() -> float:
            return later

        if late:
            monkeypatch.setattr(gateway.approvals.calls.store, "now", now)
        answer = await client.decide("lena", call_id)
        assert answer.json()["status"] == ("approved" if late else "pending")
        if not late:
            assert (await client.decide("ops", call_id)).json()["status"] == "approved"


async def test_an_edit_is_narrowed_by_a_middleware_as_the_call_itself_would_be(tmp_path: Path) -> None:
    """What the approver sees afterwards, and what runs, is what the middleware left of it."""
    order = {"tenant_id": "acme", "amount_cents": 500}
    rule = {"id": "ask", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "ask"}

    ceiling = """
import toolgen

def ceiling(call):
    return toolgen.Narrow(arguments={"amount_cents": 100}) if call.arguments["amount_cents"] > 100 else None
"""
    (tmp_path / "ceiling_of_edits.py").write_text(ceiling, encoding="utf-8")

    with governed.upstream() as (seen, server):
        policy = {"rules": [rule], "approvals": {"approvers": ["user"]}}
        path = governed.project(tmp_path, server, policy, middleware=["ceiling_of_edits.ceiling"])
        async with Gateway.load(path) as gateway:
            asked = await gateway.call("orders__create_order", order, principal="bot")
            terms = DecisionOptions(arguments={**order, "amount_cents": 300})
            agreed = await gateway.approvals.decide(
                asked.call_id, approve=True, note="", principal=gateway.principal("ann"), terms=terms
            )
            assert isinstance(agreed, Invocation), agreed
            assert agreed.arguments == {**order, "amount_cents": 100}
            ended = await gateway.approvals.calls.outcome(asked.call_id, gateway.principal("bot"), 60)
            assert ended is not None
            assert ended.status == "ok", ended.error
            assert [json.loads(body) for *_, body in seen.requests] == [{**order, "amount_cents": 100}]
