"""An answer that counts for later calls: for which ones, how many, how long; and that nothing else goes by it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import PRINCIPALS, Upstream, project, upstream, write_policy
from tests.gateway.test_approvals import Client
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Principal
from toolgen.model.result import Envelope

POLICY: dict[str, Any] = {
    "principals": {
        "bot": {**PRINCIPALS["bot"], "acts_for": ["user"]},
        "bare": PRINCIPALS["bare"],
        "eve": {**PRINCIPALS["eve"], "roles": ["lead"]},
        "ann": {**PRINCIPALS["ann"], "roles": ["lead"]},
        "user": {"roles": ["bot"]},
    },
    "rules": [{"id": "asks", "to": ["bot"], "tools": ["orders__*"], "verdict": "ask"}],
    "approvals": {"approvers": ["lead"], "remember": {"max_duration": "1h", "max_calls": 20, "any_arguments": True}},
}


def changed(**sections: Any) -> dict[str, Any]:
    return copy.deepcopy(POLICY) | sections


@asynccontextmanager
async def served(root: Path, policy: dict[str, Any] = POLICY) -> AsyncIterator[tuple[Gateway, Client, Upstream]]:
    """Gateway of a project, its client and its API; the audit log is verified at the end."""
    with upstream() as (seen, url):
        path = project(root / "project", url, policy)
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            yield gateway, Client(gateway), seen
    assert verify(path.parent / "var" / "audit").ok


async def mail(
    gateway: Gateway, to: str = "x", who: str = "bot", user: str | None = None, session: str = "", toolset: str = ""
) -> Envelope:
    principal: Principal | None = gateway.principal(who, user)
    if toolset and principal is not None:
        principal = gateway.callers.narrowed(principal, toolset)
    assert principal is not None
    return await gateway.call("orders__send_mail", {"to": to}, principal=principal, session=session)


async def granted(gateway: Gateway, client: Client, remember: dict[str, Any], to: str = "x", session: str = "") -> str:
    """The id of the grant that an approved call brings, once that call has ended."""
    call_id = (await mail(gateway, to, session=session)).call_id
    answer = await client.decide("eve", call_id, remember=remember)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    assert (await client.ended(call_id))["status"] == "ok"
    return str(answer.json()["grant"])


def events(gateway: Gateway, *names: str) -> list[dict[str, Any]]:
    return [dict(entry) for entry in entries(gateway.settings.audit_dir) if entry["event"] in names]


async def test_so_many_calls_go_on_and_each_says_by_which_grant(tmp_path: Path) -> None:
    told: list[str] = []

    async with served(tmp_path) as (gateway, client, seen):
        told.append(await granted(gateway, client, {"calls": 2}))
        first, second = await mail(gateway), await mail(gateway)
        assert (first.status, second.status) == ("ok", "ok")
        assert (await mail(gateway)).status == "pending"
        assert len(seen.requests) == 3
        told.append(first.call_id)
        assert (await client.get("eve", "/v1/grants")).json() == {"grants": []}
    (given,) = events(gateway, "grant")
    shown = given["arguments"]["grant"]
    assert (given["principal"], given["tool"], given["status"]) == ("eve", "orders__send_mail", "ok")
    assert (shown["id"], shown["calls"], shown["arguments"], shown["approvers"]) == (told[0], 2, {"to": "x"}, ["eve"])
    _, *used = events(gateway, "decision")
    assert [(one["verdict"], one["rule"], one["principal"], one["arguments"]) for one in used] == [
        ("approve", "asks", "eve", {"grant": told[0], "approvers": ["eve"], "used": number}) for number in (1, 2)
    ]
    story = [one["event"] for one in entries(gateway.settings.audit_dir) if one.get("call_id") == told[1]]
    assert story == ["intent", "decision", "outcome"]


@pytest.mark.parametrize(
    "other",
    [{"to": "y"}, {"who": "bare"}, {"user": "user"}, {"toolset": "few"}],
    ids=lambda other: next(iter(other)),
)
async def test_other_calls_are_asked_about_as_ever(tmp_path: Path, other: dict[str, str]) -> None:
    async with served(tmp_path, changed(toolsets={"few": {"tools": ["orders__send_mail"]}})) as (gateway, client, seen):
        await granted(gateway, client, {"for": "15m"})
        assert (await mail(gateway, **other)).status == "pending"
        assert (await gateway.call("orders__get_health", {}, principal="bot")).status == "pending"
        assert len(seen.requests) == 1
        assert (await mail(gateway)).status == "ok"


@pytest.mark.parametrize(
    ("remember", "status"),
    [
        ({"for": "2h"}, 403),
        ({"calls": 21}, 403),
        ({"calls": 5, "any_arguments": True}, 403),
        ({"session": True}, 400),  # the call belongs to none
        ({"for": "soon"}, 400),
        ({"for": "0s"}, 400),
        ({"calls": 0}, 400),
        ({"calls": True}, 400),
        ({}, 400),
        ({"any_arguments": True}, 400),
        ({"forever": True}, 400),
        ([], 400),
    ],
)
async def test_what_the_policy_does_not_let_is_refused_whole(tmp_path: Path, remember: object, status: int) -> None:
    policy = changed(approvals={"approvers": ["lead"], "remember": {}})
    async with served(tmp_path, policy) as (gateway, client, seen):
        call_id = (await mail(gateway)).call_id
        answer = await client.decide("eve", call_id, remember=remember)  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        assert (await client.get("bot", f"/v1/calls/{call_id}")).json()["status"] == "pending"
        assert seen.requests == []
        denied = await client.decide("eve", call_id, "deny", remember={"calls": 1})  # type: ignore[arg-type]
        assert denied.status_code == 400
    assert events(gateway, "decision", "grant") == []
    assert status == 400 or [one["code"] for one in events(gateway, "refusal")] == ["forbidden", "validation"]


async def test_without_a_word_in_the_policy_nothing_is_remembered(tmp_path: Path) -> None:
    async with served(tmp_path, changed(approvals={"approvers": ["lead"]})) as (gateway, client, seen):
        call_id = (await mail(gateway)).call_id
        answer = await client.decide("eve", call_id, remember={"calls": 1})  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
        assert seen.requests == []


async def test_whatever_the_arguments_where_the_approver_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client, seen):
        await granted(gateway, client, {"calls": 2, "any_arguments": True})
        assert [(await mail(gateway, to)).status for to in ("y", "z", "x")] == ["ok", "ok", "pending"]
        assert [body for _, _, body in seen.requests] == [f'{{"to":"{to}"}}' for to in "xyz"]


async def test_in_one_session_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client, _):
        await granted(gateway, client, {"session": True}, session="s-1")
        assert [(await mail(gateway, session=name)).status for name in ("s-1", "s-2", "")] == [
            "ok",
            "pending",
            "pending",
        ]


async def test_in_every_session_where_none_is_asked_for(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client, _):
        await granted(gateway, client, {"for": "15m"}, session="s-1")
        assert [(await mail(gateway, session=name)).status for name in ("s-1", "s-2", "")] == ["ok"] * 3


async def test_a_grant_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as (gateway, client, _):
        await granted(gateway, client, {"for": "15m"})
        assert (await mail(gateway)).status == "ok"
        assert gateway.approvals.grants is not None
        store = gateway.approvals.grants.store
        monkeypatch.setattr(store, "_clock", FixedClock(await store.now() + 901))
        assert (await client.get("eve", "/v1/grants")).json() == {"grants": []}
        assert (await mail(gateway)).status == "pending"


async def test_a_grant_is_revoked_by_those_who_may_and_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client, seen):
        grant = await granted(gateway, client, {"for": "15m"})
        (shown,) = (await client.get("ann", "/v1/grants")).json()["grants"]
        assert (shown["id"], shown["kind"], shown["principal"], shown["used"]) == (grant, "approval", "bot", 0)
        assert (await client.get("bot", "/v1/grants")).status_code == 403
        for who, which, status in (("bot", grant, 403), ("bare", grant, 403), ("ann", "grant_none", 404)):
            assert (await client.delete(who, f"/v1/grants/{which}")).status_code == status
        assert (await mail(gateway)).status == "ok"  # nothing came of these
        answer = await client.delete("ann", f"/v1/grants/{grant}")
        assert (answer.status_code, answer.json()) == (200, {"id": grant, "status": "ended"})
        assert (await mail(gateway)).status == "pending"
        assert (await client.delete("eve", f"/v1/grants/{grant}")).status_code == 404
        assert len(seen.requests) == 2

    (ended,) = events(gateway, "grant_end")
    assert (ended["principal"], ended["code"]) == ("ann", "cancelled")
    refused = [(one["principal"], one["code"]) for one in events(gateway, "refusal")]
    assert refused == [("bot", "forbidden"), ("bare", "forbidden"), ("ann", "not_found"), ("eve", "not_found")]


DENIES = {
    "id": "no",
    "to": ["bot"],
    "tools": ["orders__send_mail"],
    "verdict": "deny",
    "arguments": {"required": ["to"]},
}
OTHER = {"id": "also", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"}


@pytest.mark.parametrize(
    ("sections", "status"),
    [
        ({"rules": [*POLICY["rules"], DENIES]}, "refused"),
        ({"rules": [*POLICY["rules"], OTHER]}, "pending"),
        ({"approvals": {"approvers": ["lead"], "remember": {"max_calls": 19, "any_arguments": True}}}, "pending"),
        ({"approvals": {"approvers": ["lead"]}}, "pending"),
        (
            {"principals": {**POLICY["principals"], "bot": {**POLICY["principals"]["bot"], "roles": ["bot", "lead"]}}},
            "pending",
        ),
        ({"principals": {**POLICY["principals"], "eve": {**PRINCIPALS["eve"], "roles": ["user"]}}}, "pending"),
    ],
)
async def test_what_changed_since_ends_it(tmp_path: Path, sections: dict[str, Any], status: str) -> None:
    async with served(tmp_path) as (gateway, client, seen):
        await granted(gateway, client, {"for": "15m"})
        write_policy(gateway.settings.path.parent, changed(**sections))
        assert await gateway.operations.reload()
        assert (await mail(gateway)).status == status
        assert len(seen.requests) == 1


async def test_a_rule_about_nothing_that_concerns_it_leaves_it(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client, _):
        await granted(gateway, client, {"for": "15m"})
        other = {"id": "other", "to": ["lead"], "tools": ["orders__get_health"], "verdict": "allow"}
        write_policy(gateway.settings.path.parent, changed(rules=[*POLICY["rules"], other]))
        assert await gateway.operations.reload()
        assert (await mail(gateway)).status == "ok"


async def test_a_rule_that_did_not_ask_then_asks_now(tmp_path: Path) -> None:
    """Any arguments were granted for what one rule asks; what another asks for besides is another question."""
    large = {**OTHER, "arguments": {"properties": {"to": {"const": "board"}}, "required": ["to"]}}

    async with served(tmp_path, changed(rules=[*POLICY["rules"], large])) as (gateway, client, _):
        await granted(gateway, client, {"for": "15m", "any_arguments": True})
        assert [(await mail(gateway, to)).status for to in ("y", "board")] == ["ok", "pending"]


async def decided(client: Client, who: str, call_id: str, remember: object) -> dict[str, Any]:
    answer = await client.decide(who, call_id, **({} if remember is None else {"remember": remember}))  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(
    ("first", "second", "grants"),
    [
        ({"calls": 3}, {"calls": 3}, True),
        ({"calls": 3}, {"calls": 4}, False),
        ({"calls": 3}, {"calls": 3, "any_arguments": True}, False),
        (None, {"calls": 3}, False),
        ({"calls": 3}, None, False),
    ],
)
async def test_enough_people_have_to_agree_on_the_same_terms(
    tmp_path: Path, first: object, second: object, grants: bool
) -> None:
    async with served(tmp_path, changed(approvals={**POLICY["approvals"], "quorum": 2})) as (gateway, client, _):
        call_id = (await mail(gateway)).call_id
        assert await decided(client, "eve", call_id, first) == {
            "id": call_id,
            "decision": "approve",
            "status": "pending",
        }
        assert (await mail(gateway, "elsewhere")).status == "pending"
        done = await decided(client, "ann", call_id, second)
        assert (done["status"], "grant" in done) == ("approved", grants)
        assert (await client.ended(call_id))["status"] == "ok"
        assert (await mail(gateway)).status == ("ok" if grants else "pending")


async def test_a_grant_of_two_covers_nothing_when_one_of_them_lost_the_role(tmp_path: Path) -> None:
    policy = changed(approvals={**POLICY["approvals"], "quorum": 2})

    async with served(tmp_path, policy) as (gateway, client, _):
        call_id = (await mail(gateway)).call_id
        for who in ("eve", "ann"):
            await decided(client, who, call_id, {"calls": 3})
        assert (await client.ended(call_id))["status"] == "ok"
        policy["principals"]["third"] = {"roles": ["lead"]}
        policy["principals"]["eve"] = {**PRINCIPALS["eve"], "roles": ["user"]}
        write_policy(gateway.settings.path.parent, policy)
        assert await gateway.operations.reload()
        assert (await mail(gateway)).status == "pending"


async def test_an_edited_call_is_granted_as_it_was_edited(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client, _):
        call_id = (await mail(gateway)).call_id
        body = {"decision": "approve", "arguments": {"to": "y"}, "remember": {"calls": 1}}
        assert "grant" in (await client.post("eve", f"/v1/approvals/{call_id}", body)).json()
        assert (await client.ended(call_id))["status"] == "ok"
        assert [(await mail(gateway, to)).status for to in ("x", "y")] == ["pending", "ok"]


async def test_fifty_calls_at_once_take_no_more_than_were_granted(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client, seen):
        await granted(gateway, client, {"calls": 10})
        found = await asyncio.gather(*(mail(gateway) for _ in range(50)))
        assert sum(one.status == "ok" for one in found) == 10
        assert len(seen.requests) == 11


async def test_a_grant_says_of_what_is_sensitive_a_digest(tmp_path: Path) -> None:
    async with served(tmp_path, changed(sensitive=["$.to"])) as (gateway, client, _):
        await granted(gateway, client, {"calls": 1}, to="canary@example.com")
        listed = await client.get("eve", "/v1/grants")
        assert listed.json()["grants"][0]["arguments"]["to"].startswith("hmac-sha256:")
        assert (await mail(gateway, "canary@example.com")).status == "ok"
    assert not any("canary" in str(entry) for entry in entries(gateway.settings.audit_dir))
    assert b"canary" not in (gateway.settings.audit_dir.parent / "state" / "grants.db").read_bytes()
