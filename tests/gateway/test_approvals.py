"""Calls that wait for a person, over the real gateway: who may answer, that it counts once, and that nothing runs before it."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.audit.drawn_logs import calls
from tests.gateway.clients import BASE
from tests.projects import POLICY, audit_entry, make_project
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.config.policies import load_policy
from toolgen.config.settings import load as load_settings
from toolgen.core.clock import FixedClock
from toolgen.frontends.http.app import App
from toolgen.frontends.mcp.server import Caller, Mcp, ProtocolStyle, parse
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.approvals.requests import MAX_EACH
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.gateway.catalog.tool_lists import Listings
from toolgen.state.invocations import Invocation
from toolgen.state.pauses import Pause

CHANGE = "/v1/tools/shop__change/call"
UPDATE = {"sql": "UPDATE customers SET name = ? WHERE id = ?", "parameters": ["Zoe", 1]}


def key(name: str) -> str:
    return f"key-of-{name}"


def policy_of(**changes: Any) -> dict[str, Any]:
    """bot asks (also for ann, who is an approver), ops and lead may answer; bot has two keys and is itself an approver."""
    policy = copy.deepcopy(POLICY)
    policy["principals"] = {
        "bot": {"api_key": [hash_of("bot"), hash_of("bot-again")], "roles": ["bot", "ops"], "acts_for": ["ann"]},
        "bot2": {"api_key": hash_of("bot2"), "roles": ["bot"]},
        "ann": {"api_key": hash_of("ann"), "roles": ["bot", "ops"]},
        "ops": {"api_key": hash_of("ops"), "roles": ["ops"], "acts_for": ["lead"]},
        "lead": {"api_key": hash_of("lead"), "roles": ["ops"]},
        "clerk": {"api_key": hash_of("clerk"), "roles": ["clerk"]},
    }
    policy["rules"] = [
        {
            "id": "work",
            "to": ["bot"],
            "tools": ["shop__change"],
            "effects": ["write", "destructive"],
            "verdict": "allow",
        },
        {"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"},
    ]
    policy["sql"] = {"shop": {"tables": {"customers": {"columns": ["id", "name"], "writes": ["update"]}}}}
    policy["approvals"] = {"approvers": ["ops"], "expires": "1h"}
    return policy | changes


def hash_of(name: str) -> str:
    return "sha256:" + hashlib.sha256(key(name).encode()).hexdigest()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = make_project(tmp_path / "project", policy=policy_of())
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["sources"]["shop"]["writes"] = True
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def write_policy(project: Path, policy: dict[str, Any]) -> None:
    (project.parent / "policies" / "policy.yaml").write_text(json.dumps(policy, indent=1), encoding="utf-8")


def names(project: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(project.parent / "specs" / "shop.db")) as database:
        return [row[0] for row in database.execute("SELECT name FROM customers ORDER BY id")]


class Client:
    """The REST interface of one gateway, as several people."""

    def __init__(self, gateway: Gateway) -> None:
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(App(gateway)), base_url=BASE)

    async def get(self, who: str, path: str, **headers: str) -> httpx.Response:
        return await self._http.get(path, headers=_headers(who, headers))

    async def post(self, who: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        return await self._http.post(path, json={} if body is None else body, headers=_headers(who, headers))

    async def delete(self, who: str, path: str) -> httpx.Response:
        return await self._http.delete(path, headers=_headers(who, {}))

    async def ask(self, who: str = "bot", arguments: object = UPDATE, wait: float = 0, **headers: str) -> str:
        """Makes a call that has to wait; its id."""
        answer = await self.post(who, CHANGE, {"arguments": arguments, "wait": wait}, **headers)
        assert (answer.status_code, answer.json()["status"]) == (202, "pending"), answer.text
        call_id = str(answer.json()["call_id"])
        while (known := answer.json())["error"][
            "code"
        ] == "deferred":  # it is not decided yet that a person has to approve it
            await asyncio.sleep(0.02)
            answer = await self.get(who, f"/v1/calls/{call_id}", **headers)
        assert known["error"]["code"] == "approval_required"
        return call_id

    async def decide(self, who: str, call_id: str, decision: str = "approve", **more: str) -> httpx.Response:
        return await self.post(who, f"/v1/approvals/{call_id}", {"decision": decision, **more})

    async def waiting(self, who: str = "ops") -> str:
        """The id of the first call that waits, once one does."""
        while True:
            found = (await self.get(who, "/v1/approvals")).json()["approvals"]
            if found:
                return str(found[0]["id"])
            await asyncio.sleep(0.02)

    async def gone(self, call_id: str, who: str = "bot") -> None:
        """Returns when a call is known no more."""
        while (await self.get(who, f"/v1/calls/{call_id}")).status_code != 404:  # noqa: ASYNC110 - another worker's file
            await asyncio.sleep(0.02)

    async def ended(self, call_id: str, who: str = "bot", **headers: str) -> dict[str, Any]:
        """The envelope of a call once it has ended."""
        while True:
            answer = await self.get(who, f"/v1/calls/{call_id}", **headers)
            envelope: dict[str, Any] = answer.json()
            if answer.status_code != 202:
                return envelope
            await asyncio.sleep(0.02)


async def looked_after(gateway: Gateway) -> None:
    """All that the gateway would do about its calls by itself has been done."""
    for _ in range(2):
        await gateway._runner.round()
        await asyncio.gather(*gateway._runner._tasks)


def _headers(who: str, more: dict[str, str]) -> dict[str, str]:
    return {"authorization": f"Bearer {key(who)}"} | {name.replace("_", "-"): value for name, value in more.items()}


@contextlib.asynccontextmanager
async def world(project: Path) -> AsyncIterator[tuple[Gateway, Client]]:
    async with Gateway.load(project) as gateway:
        yield gateway, Client(gateway)


def decisions(project: Path) -> list[dict[str, Any]]:
    found = entries(project.parent / "var" / "audit")
    return [dict(entry) for entry in found if entry["event"] == "decision"]


def executions(project: Path) -> list[dict[str, Any]]:
    found = entries(project.parent / "var" / "audit")
    return [dict(entry) for entry in found if entry["event"] == "outcome" and entry["status"] == "ok"]


async def test_an_approved_change_runs_once_and_its_caller_alone_gets_the_result(project: Path) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        assert names(project) == ["Ada", "Ben"]
        listed = (await client.get("ops", "/v1/approvals")).json()["approvals"]
        assert [(item["id"], item["principal"], item["arguments"]) for item in listed] == [(call_id, "bot", UPDATE)]
        assert "UPDATE" in listed[0]["sql"]
        answer = await client.decide("ops", call_id, note="fine by me")
        assert (answer.status_code, answer.json()) == (
            200,
            {"id": call_id, "decision": "approve", "status": "approved"},
        )
        envelope = await client.ended(call_id)
        assert (envelope["status"], envelope["call_id"], envelope["data"]) == ("ok", call_id, {"row_count": 1})
        entry = audit_entry(gateway, envelope["meta"]["audit_seq"])
        assert entry is not None
        assert (entry["event"], entry["call_id"], entry["rows"], entry["verdict"]) == ("outcome", call_id, 1, "ask")
        assert names(project) == ["Zoe", "Ben"]
        for other in ("bot2", "ann", "ops", "clerk"):
            assert (await client.get(other, f"/v1/calls/{call_id}")).status_code == 404
        assert (await client.get("bot", f"/v1/calls/{call_id}", x_on_behalf_of="ann")).status_code == 404
        # Another key of the same principal is the same principal.
        assert (await client.get("bot-again", f"/v1/calls/{call_id}")).json() == envelope
        assert (await client.get("ops", "/v1/approvals")).json() == {"approvals": []}
        # Used once: neither another answer nor the same one again does anything.
        for who, decision in [("ops", "approve"), ("lead", "approve"), ("lead", "deny")]:
            late = await client.decide(who, call_id, decision)
            assert (late.status_code, late.json()["error"]["code"]) == (409, "conflict")
    events = [entry["event"] for entry in entries(project.parent / "var" / "audit") if entry["call_id"] == call_id]
    assert events == ["intent", "outcome", "decision", "intent", "outcome", "refusal", "refusal", "refusal"]
    (decision,) = decisions(project)
    assert (decision["principal"], decision["verdict"]) == ("ops", "approve")
    assert decision["arguments"]["note"] == "fine by me"
    assert len(executions(project)) == 1
    assert verify(project.parent / "var" / "audit").ok
    assert [row["status"] for row in calls(project.parent / "var" / "audit")] == ["ok"]


async def test_a_denied_change_does_nothing_and_says_why(project: Path) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        answer = await client.decide("lead", call_id, "deny", note="ask Ada first")
        assert answer.json() == {"id": call_id, "decision": "deny", "status": "ended"}
        found = await client.get("bot", f"/v1/calls/{call_id}")
        envelope = found.json()
        assert (found.status_code, envelope["status"], envelope["error"]["code"]) == (
            403,
            "refused",
            "approval_denied",
        )
        assert "ask Ada first" in envelope["error"]["message"]
        entry = audit_entry(gateway, envelope["meta"]["audit_seq"])
        assert entry is not None
        assert (entry["event"], entry["verdict"], entry["code"]) == ("decision", "deny", "approval_denied")
        assert (await client.decide("ops", call_id)).status_code == 409
        await looked_after(gateway)
    assert names(project) == ["Ada", "Ben"]
    assert executions(project) == []
    assert [(row["principal"], row["status"], row["code"]) for row in calls(project.parent / "var" / "audit")] == [
        ("bot", "refused", "approval_denied")
    ]
    assert verify(project.parent / "var" / "audit").ok


async def test_a_change_of_rows_that_became_too_many_is_taken_back_though_somebody_approved_it(project: Path) -> None:
    async with world(project) as (_, client):
        call_id = await client.ask(arguments={"sql": "UPDATE customers SET name = 'all' WHERE id > 1"})
        with contextlib.closing(sqlite3.connect(project.parent / "specs" / "shop.db")) as connection, connection:
            connection.execute("INSERT INTO customers (name) VALUES ('Cyd')")
        await client.decide("ops", call_id)
        envelope = await client.ended(call_id)
        assert (envelope["status"], envelope["error"]["code"]) == ("error", "sql_refused")
    assert names(project) == ["Ada", "Ben", "Cyd"]


@pytest.mark.parametrize(
    ("caller", "user", "approver", "acting", "status"),
    [
        ("bot", None, "bot", None, 403),  # itself, though it has the role
        ("bot", None, "bot-again", None, 403),  # by another key of its own
        ("bot", None, "clerk", None, 403),  # without the role
        ("bot", None, "bot2", None, 403),
        ("bot", "ann", "ann", None, 403),  # for whom it was made
        ("bot", "ann", "bot", None, 403),
        ("bot", None, "ops", "lead", 403),  # in another's name
        ("bot", None, "bot", "ann", 403),
        ("bot2", None, "bot", "ann", 403),
        ("bot2", None, "bot", None, 200),  # an approver for another's call
        ("bot", "ann", "ops", None, 200),
    ],
)
async def test_who_may_answer(
    project: Path, caller: str, user: str | None, approver: str, acting: str | None, status: int
) -> None:
    def acting_for(name: str | None) -> dict[str, str]:
        return {} if name is None else {"x_on_behalf_of": name}

    async with world(project) as (gateway, client):
        call_id = await client.ask(caller, **acting_for(user))
        path = f"/v1/approvals/{call_id}"
        for decision in ("deny", "approve"):
            answer = await client.post(approver, path, {"decision": decision}, **acting_for(acting))
            assert answer.status_code == status, answer.text
            if status == 200:
                return
            guess = await client.post(approver, path[:-4] + "0000", {"decision": decision}, **acting_for(acting))
            # Who may not answer for anything learns nothing of what waits.
            assert guess.status_code == 404 or guess.json() == answer.json()
        listed = await client.get(approver, "/v1/approvals", **acting_for(acting))
        assert listed.status_code == 403 or listed.json() == {"approvals": []}
        await looked_after(gateway)
    assert names(project) == ["Ada", "Ben"]
    assert decisions(project) == []


@pytest.mark.parametrize(("subject", "status"), [("ann", 403), ("lea", 200)])
async def test_a_person_answers_for_no_call_of_theirs_under_another_name(
    project: Path, subject: str, status: int
) -> None:
    policy, token = policy_of(), {"issuer": "https://login.example", "jwks": "https://login.example/keys"}
    policy["principals"]["ann"]["jwt"] = {**token, "audience": "agents", "subject": "ann"}
    policy["principals"]["lead"]["jwt"] = {**token, "audience": "people", "subject": subject}
    write_policy(project, policy)
    async with world(project) as (_, client):
        for whose in ({"who": "ann"}, {"who": "bot", "x_on_behalf_of": "ann"}):
            call_id = await client.ask(**whose)
            listed = (await client.get("lead", "/v1/approvals")).json()["approvals"]
            assert [one["id"] for one in listed] == ([call_id] if status == 200 else [])
            assert (await client.decide("lead", call_id, "deny")).status_code == status


async def test_the_only_approver_cannot_answer_for_itself_so_its_call_is_called_off(project: Path) -> None:
    policy = policy_of()
    for person in ("ops", "lead", "ann"):
        policy["principals"][person]["roles"] = ["clerk", "bot"]
    write_policy(project, policy)
    async with world(project) as (_, client):
        answer = await client.post("bot", CHANGE, {"arguments": UPDATE, "wait": 0})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cancelled")
        assert not (project.parent / "var" / "state" / "calls.db").exists()


async def test_two_who_click_at_once_approve_once(project: Path) -> None:
    async with world(project) as (_, first), world(project) as (_, second):
        for number in range(3):
            call_id = await first.ask(arguments={**UPDATE, "parameters": [f"Zoe{number}", 1]})
            people = [(first, "ops"), (second, "lead"), (first, "lead"), (second, "ops"), (second, "ann")]
            answers = await asyncio.gather(*(client.decide(who, call_id) for client, who in people))
            assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409]
            assert (await second.ended(call_id))["status"] == "ok"
    assert len(executions(project)) == 3
    assert [item["verdict"] for item in decisions(project)] == ["approve"] * 3


async def test_approve_and_deny_at_once_end_as_the_first_said(project: Path) -> None:
    async with world(project) as (_, first), world(project) as (_, second):
        call_id = await first.ask()
        answers = await asyncio.gather(first.decide("ops", call_id), second.decide("lead", call_id, "deny"))
        envelope = await first.ended(call_id)
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    approved = answers[0].status_code == 200
    assert envelope["status"] == ("ok" if approved else "refused")
    assert names(project)[0] == ("Zoe" if approved else "Ada")


async def test_a_policy_that_changed_meanwhile_makes_the_answer_worth_nothing(project: Path) -> None:
    async with world(project) as (gateway, client):
        waiting = await client.ask()
        stricter = policy_of()
        stricter["rules"] = [rule for rule in stricter["rules"] if rule["id"] != "work"]
        write_policy(project, stricter)
        assert await gateway.operations.reload()
        late = await client.decide("ops", waiting)
        assert (late.status_code, late.json()["error"]["code"]) == (409, "expired")
        envelope = await client.ended(waiting)
        assert (envelope["status"], envelope["error"]["code"]) == ("refused", "expired")
        assert "changed" in envelope["error"]["message"]
    assert names(project) == ["Ada", "Ben"]
    assert [(item["verdict"], item["code"]) for item in decisions(project)] == [("expire", "expired")]


async def test_a_policy_that_changed_between_the_answer_and_the_call_stops_it(project: Path) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        gateway.pausing.local.change(lambda known: (Pause(source="shop", since=0.0),))
        assert (await client.decide("ops", call_id)).status_code == 200
        stricter = policy_of()
        stricter["sql"]["shop"]["tables"]["customers"]["writes"] = ["delete"]
        write_policy(project, stricter)
        assert await gateway.operations.reload()
        gateway.pausing.local.change(lambda known: ())
        envelope = await client.ended(call_id)
        assert (envelope["status"], envelope["error"]["code"]) == ("refused", "expired")
    assert names(project) == ["Ada", "Ben"]


UNRELATED: list[dict[str, Any]] = [
    {"sensitive": ["$..card"]},
    {"toolsets": {"few": {"tools": ["pets__get_pet"]}}},
    {"redact": [{"tools": ["pets__*"], "fields": ["$..name"], "with": "-"}]},
    {"labels": [{"tools": ["pets__get_pet"], "add": ["private"]}]},
    {"limits": [{"id": "few", "per": ["principal"], "rate": "100/h", "cost": {"pets__*": 1, "*": 0}}]},
    {"tests": [{"as": "bot", "call": "pets__get_pet", "arguments": {"petId": 1}, "expect": "allow"}]},
    {"rules": [{"id": "more", "to": ["bot"], "tools": ["pets__*"], "effects": ["destructive"], "verdict": "deny"}]},
    {"rules": [{"id": "more", "to": ["clerk"], "tools": ["*"], "verdict": "deny"}]},
    {"rules": [{"id": "more", "to": ["bot"], "tools": ["*"], "verdict": "deny", "shadow": True}]},
]
RELATED: list[dict[str, Any]] = [
    {"approvals": {"approvers": ["ops"], "expires": "2h"}},
    {"redact": [{"tools": ["shop__*"], "fields": ["$..email"], "with": "-"}]},
    {"egress": {"allow": ["api.example.com:443"]}},
    {"limits": [{"id": "few", "per": ["principal"], "rate": "100/h"}]},
    {"rules": [{"id": "more", "to": ["bot"], "tools": ["shop__*"], "verdict": "allow"}]},
    {"rules": [{"id": "more", "to": ["ops"], "tools": ["*"], "verdict": "deny", "when": "'x' in session.labels"}],
     "labels": [{"tools": ["pets__get_pet"], "add": ["x"]}]},
]  # fmt: skip


def edited(edit: dict[str, Any]) -> dict[str, Any]:
    policy = policy_of()
    return policy | edit | {"rules": [*policy["rules"], *edit.get("rules", [])]}


@pytest.mark.parametrize("edit", UNRELATED)
async def test_an_edit_that_does_not_concern_a_call_leaves_its_approval_as_it_is(
    project: Path, edit: dict[str, Any]
) -> None:
    async with world(project) as (gateway, client):
        call_id, before = await client.ask(), gateway.policy.digest
        write_policy(project, edited(edit))
        assert await gateway.operations.reload()
        assert gateway.policy.digest != before
        assert (await client.decide("ops", call_id)).status_code == 200
        assert (await client.ended(call_id))["status"] == "ok"
    assert names(project) == ["Zoe", "Ben"]


@pytest.mark.parametrize("edit", RELATED)
async def test_an_edit_that_concerns_a_call_voids_its_approval(project: Path, edit: dict[str, Any]) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        write_policy(project, edited(edit))
        assert await gateway.operations.reload()
        assert (await client.decide("ops", call_id)).json()["error"]["code"] == "expired"
    assert names(project) == ["Ada", "Ben"]


async def test_a_key_that_is_revoked_ends_what_it_left_waiting_and_another_key_of_its_principal_does_not(
    project: Path,
) -> None:
    async with world(project) as (gateway, client):
        left, kept = await client.ask(), await client.ask("bot-again")
        keys = project.parent / "policies" / "keys.yaml"
        keys.write_text(json.dumps({"revoked": [{"key": hash_of("bot")}]}), encoding="utf-8")
        assert await gateway.operations.reload()
        late = await client.decide("ops", left)
        assert (late.status_code, late.json()["error"]["code"]) == (409, "expired")
        assert (await client.decide("ops", kept)).status_code == 200
        assert (await client.ended(kept, "bot-again"))["status"] == "ok"
        assert "key-of" not in repr(await gateway.approvals.calls.store.get(left))


async def only(approvals: Approvals) -> Invocation:
    (found,) = await approvals.calls.store.unfinished()
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": {"sql": "UPDATE customers SET name = 'Eve' WHERE id = 2"}},
        {"tool": "shop__query", "arguments": {"sql": "SELECT name FROM customers"}},
        {"digest": "sha256:0"},
        {"tool": "shop__nothing"},
    ],
)
async def test_what_was_changed_between_the_question_and_the_call_is_not_carried_out(
    project: Path, changes: dict[str, Any]
) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        known = await only(gateway.approvals)
        forged = msgspec.structs.replace(known, **changes, status="approved")
        assert await gateway.approvals.calls.store.replace(known, forged)
        gateway.approvals.calls.news.announce()
        envelope = await client.ended(call_id)
        assert envelope["error"]["code"] == "expired"
    assert names(project) == ["Ada", "Ben"]
    assert executions(project) == []


async def test_a_caller_withdraws_its_own_call_and_no_other(project: Path) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        for other in ("bot2", "ops", "ann", "clerk"):
            assert (await client.post(other, f"/v1/calls/{call_id}/cancel")).status_code == 404
        mine = await client.post("bot", f"/v1/calls/{call_id}/cancel")
        assert (mine.status_code, mine.json()["status"], mine.json()["error"]["code"]) == (
            200,
            "cancelled",
            "cancelled",
        )
        again = await client.post("bot", f"/v1/calls/{call_id}/cancel")
        assert (again.status_code, again.json()) == (200, mine.json())
        assert (await client.get("bot", f"/v1/calls/{call_id}")).status_code == 403
        assert (await client.decide("ops", call_id)).status_code == 409
        assert (await client.get("ops", "/v1/approvals")).json() == {"approvals": []}
        await looked_after(gateway)
    assert names(project) == ["Ada", "Ben"]
    assert [(item["principal"], item["verdict"]) for item in decisions(project)] == [("bot", "cancel")]


async def test_nobody_answers_in_time(project: Path) -> None:
    clock = FixedClock()
    settings = load_settings(project)
    manifest = catalog_of(settings)
    policy = load_policy(settings.policies, manifest)
    async with Gateway(settings=settings, manifest=manifest, policy=policy, clock=clock) as gateway:
        client = Client(gateway)
        call_id = await client.ask()
        clock.advance(3599)
        assert len((await client.get("ops", "/v1/approvals")).json()["approvals"]) == 1
        clock.advance(1)
        late = await client.decide("ops", call_id)
        assert (late.status_code, late.json()["error"]["code"]) in {(409, "expired"), (409, "conflict")}
        envelope = await client.ended(call_id)
        assert (envelope["status"], envelope["error"]["code"]) == ("refused", "expired")
        # After an hour it is forgotten, and nobody has anything of it.
        clock.advance(3590)
        assert (await client.ended(call_id))["error"]["code"] == "expired"
        clock.advance(20)
        await client.gone(call_id)
    assert names(project) == ["Ada", "Ben"]


async def test_a_caller_that_waits_gets_the_result_itself(project: Path) -> None:
    async with world(project) as (_, client), world(project) as (_, other):
        asking = asyncio.create_task(client.post("bot", CHANGE, {"arguments": UPDATE, "wait": 20}))
        await other.decide("ops", await other.waiting())
        answer = await asking
        assert (answer.status_code, answer.json()["data"]) == (200, {"row_count": 1})


async def test_a_storm_of_questions_is_bounded(project: Path) -> None:
    async with world(project) as (_, client):
        body = {"arguments": UPDATE, "wait": 0}
        keyed = [{**body, "idempotency_key": str(number)} for number in range(MAX_EACH + 2)]
        answers = [await client.post("bot", CHANGE, one) for one in keyed]
        assert [answer.status_code for answer in answers] == [202] * MAX_EACH + [429] * 2
        assert answers[-1].headers["retry-after"] == "30"
        assert (await client.post("bot2", CHANGE, body)).status_code == 202
        limited = (await client.get("ops", "/v1/approvals?limit=3")).json()["approvals"]
        assert [item["id"] for item in limited] == [answer.json()["call_id"] for answer in answers[:3]]
        page, seen = (await client.get("ops", "/v1/approvals?limit=8")).json(), []
        while cursor := page.get("next_cursor"):
            seen += [item["id"] for item in page["approvals"]]
            page = (await client.get("ops", f"/v1/approvals?limit=8&cursor={cursor}")).json()
        seen += [item["id"] for item in page["approvals"]]
        assert (len(seen), len(set(seen)), seen[0]) == (MAX_EACH + 1, MAX_EACH + 1, limited[0]["id"])
        assert (await client.get("ops", "/v1/approvals?cursor=x")).status_code == 404
        huge = {"arguments": {**UPDATE, "parameters": ["é" * 40_000, 1]}, "wait": 0}
        refused = await client.post("bot2", CHANGE, huge)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "validation")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "yes"},
        {"decision": "approve", "more": 1},
        {"decision": "approve", "note": "x" * 501},
        [],
        "approve",
    ],
)
async def test_an_answer_that_is_none_is_refused_with_its_place(project: Path, body: object) -> None:
    async with world(project) as (_, client):
        call_id = await client.ask()
        answer = await client.post("ops", f"/v1/approvals/{call_id}", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "validation")
    assert decisions(project) == []


async def test_an_answer_that_cannot_be_recorded_was_not_given(project: Path) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        audit = project.parent / "var" / "audit"
        audit.rename(audit.with_name("away"))
        audit.write_text("in the way", encoding="utf-8")
        failed = await client.decide("ops", call_id)
        assert (failed.status_code, failed.json()["error"]["code"]) == (503, "audit_unavailable")
        await looked_after(gateway)
        assert names(project) == ["Ada", "Ben"]
        audit.unlink()
        audit.with_name("away").rename(audit)
        assert (await client.decide("ops", call_id)).status_code == 200
        assert (await client.ended(call_id))["status"] == "ok"


async def test_what_is_paused_is_carried_out_when_it_is_resumed_and_not_before(project: Path) -> None:
    async with world(project) as (gateway, client):
        call_id = await client.ask()
        gateway.pausing.local.change(lambda known: (Pause(tool="shop__ch*", since=0.0),))
        refused = await client.post("bot", CHANGE, {"arguments": UPDATE})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "paused")
        assert (await client.decide("ops", call_id)).status_code == 200
        await looked_after(gateway)
        assert names(project) == ["Ada", "Ben"]
        assert (await client.get("bot", f"/v1/calls/{call_id}")).status_code == 202
        gateway.pausing.local.change(lambda known: ())
        assert (await client.ended(call_id))["status"] == "ok"
    assert names(project) == ["Zoe", "Ben"]


async def test_a_call_is_counted_when_it_is_asked_for_and_not_again_when_it_is_made(project: Path) -> None:
    write_policy(project, policy_of(limits=[{"id": "daily", "per": ["principal"], "rate": "1/day", "concurrency": 1}]))
    async with world(project) as (_, client):
        call_id = await client.ask()
        assert (await client.post("bot", CHANGE, {"arguments": UPDATE})).status_code == 429
        assert (await client.decide("ops", call_id)).status_code == 200
        assert (await client.ended(call_id))["status"] == "ok"
    assert len(executions(project)) == 1


async def test_an_approved_call_that_finds_no_place_stays_approved_and_is_made_later(project: Path) -> None:
    write_policy(project, policy_of(limits=[{"id": "one", "per": ["principal"], "concurrency": 1}]))
    async with world(project) as (gateway, client):
        both = [await client.ask(arguments=UPDATE | {"parameters": [name, 1]}) for name in ("Zoe", "Eve")]
        for call_id in both:
            assert (await client.decide("ops", call_id)).status_code == 200
        await looked_after(gateway)  # both at once, and one place
        for call_id in both:
            assert (await client.ended(call_id))["status"] == "ok"
    assert len(executions(project)) == 2


async def test_mcp_says_at_once_what_the_call_waits_for(project: Path) -> None:
    async with world(project) as (gateway, client):
        mcp = Mcp(gateway, Listings(gateway))
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "shop__change", "arguments": UPDATE},
        }
        message = parse(msgspec.json.encode(request))
        reply = await mcp.answer(
            message, protocol_style=ProtocolStyle.STATEFUL, caller=Caller(principal=gateway.principal("bot"))
        )
        result = msgspec.json.decode(reply.body)["result"]
        text = result["content"][0]["text"]
        assert re.match(r"approval_required: .* role ops ", text)
        call_id = (await only(gateway.approvals)).id
        assert f"get_call_result with call_id {call_id} returns its result" in text
        assert "approvals approve" not in text  # how one agrees is nothing for an agent
        assert result["isError"] is True
        await client.decide("ops", call_id)
        assert (await client.ended(call_id))["status"] == "ok"


async def test_arguments_may_say_what_they_like(project: Path) -> None:
    async with world(project) as (_, client):
        nasty = "<script>alert(1)</script>\u202e\x1b[2J"
        call_id = await client.ask(arguments={**UPDATE, "parameters": [nasty, 1]})
        listed = await client.get("ops", "/v1/approvals")
        assert listed.headers["content-type"] == "application/json"
        assert listed.headers["x-content-type-options"] == "nosniff"
        assert listed.json()["approvals"][0]["arguments"]["parameters"] == [nasty, 1]
        await client.decide("ops", call_id)
        await client.ended(call_id)
    assert names(project)[0] == nasty


async def test_the_policy_sets_the_number_of_calls_that_wait(project: Path) -> None:
    write_policy(project, policy_of(approvals={"approvers": ["ops"], "max_waiting": 2}))
    async with world(project) as (_, client):
        bodies = [{"arguments": UPDATE, "wait": 0, "idempotency_key": str(number)} for number in range(3)]
        answers = [
            await client.post(who, CHANGE, body) for who, body in zip(("bot", "ann", "bot2"), bodies, strict=True)
        ]
        assert [answer.status_code for answer in answers] == [202, 202, 429]
        await client.decide("lead", answers[0].json()["call_id"], "deny")
        assert (await client.post("bot2", CHANGE, bodies[2])).status_code == 202
