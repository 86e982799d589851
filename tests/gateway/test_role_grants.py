"""Roles for some time: who may give which one, that it ends, that two people break the glass, and that all else is refused and recorded."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import PRINCIPALS, project, upstream, write_policy
from tests.gateway.test_approvals import Client
from tests.messages import line_names
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway

KEYS = {name: PRINCIPALS[name]["api_key"] for name in ("bot", "ann", "eve", "bare")}
POLICY: dict[str, Any] = {
    "principals": {
        "bot": {"api_key": KEYS["bot"], "roles": ["developer"], "acts_for": ["ann"]},
        "ann": {"api_key": KEYS["ann"], "roles": ["lead"]},
        "eve": {"api_key": KEYS["eve"], "roles": ["lead"]},
        "bare": {"api_key": KEYS["bare"], "roles": ["guest"]},
        "joe": {"roles": ["developer"]},
    },
    "rules": [
        {"id": "calls", "to": ["oncall"], "tools": ["orders__get_health"], "verdict": "allow"},
        {"id": "root", "to": ["admin"], "tools": ["orders__send_mail"], "verdict": "allow"},
    ],
    "role_grants": [
        {"role": "oncall", "by": ["lead"], "to": ["developer"], "max_duration": "4h"},
        {"role": "admin", "by": ["lead"], "to": ["developer", "lead"], "max_duration": "1h", "break_glass": True},
        {"role": "lead", "by": ["lead"], "to": ["developer"], "max_duration": "1h"},
    ],
}
ONCALL = {"role": "oncall", "to": "bot", "for": "2h", "reason": "incident 7"}
ADMIN = {"role": "admin", "to": "bot", "for": "30m", "reason": "incident 7"}


def changed(**sections: Any) -> dict[str, Any]:
    return copy.deepcopy(POLICY) | sections


@asynccontextmanager
async def served(root: Path, policy: dict[str, Any] = POLICY) -> AsyncIterator[tuple[Gateway, Client]]:
    """Gateway of a project and its client; the audit log is verified at the end."""
    with upstream() as (_, url):
        path = project(root / "project", url, policy)
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            yield gateway, Client(gateway)
    assert verify(path.parent / "var" / "audit").ok


def events(gateway: Gateway, *names: str) -> list[dict[str, Any]]:
    return [dict(entry) for entry in entries(gateway.settings.audit_dir) if entry["event"] in names]


async def health(client: Client, who: str = "bot", **headers: str) -> int:
    return (await client.post(who, "/v1/tools/orders__get_health/call", {"arguments": {}}, **headers)).status_code


async def mail(client: Client, who: str = "bot") -> int:
    return (await client.post(who, "/v1/tools/orders__send_mail/call", {"arguments": {}})).status_code


async def given(client: Client, grant_request: dict[str, str] = ONCALL, who: str = "eve") -> str:
    answer = await client.post(who, "/v1/grants", grant_request)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


async def test_a_role_is_had_until_it_is_taken_back_and_both_are_on_record(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client):
        assert await health(client) == 404
        grant = await given(client)
        assert await health(client) == 200
        assert await health(client, "bare") == 404
        assert [tool["name"] for tool in (await client.get("bot", "/v1/tools")).json()["tools"]] == [
            "orders__get_health"
        ]
        (shown,) = (await client.get("ann", "/v1/grants")).json()["grants"]
        assert (shown["id"], shown["kind"], shown["role"], shown["principal"]) == (grant, "role", "oncall", "bot")
        assert (shown["reason"], shown["asked_by"], shown["status"]) == ("incident 7", "eve", "in_force")
        assert (await client.delete("ann", f"/v1/grants/{grant}")).json() == {"id": grant, "status": "ended"}
        assert await health(client) == 404
        assert (await client.delete("ann", f"/v1/grants/{grant}")).status_code == 404
    begun, ended = events(gateway, "role_grant", "role_grant_end")
    assert (begun["principal"], begun["status"], begun["arguments"]["grant"]["reason"]) == ("eve", "ok", "incident 7")
    assert (ended["principal"], ended["code"], ended["arguments"]["grant"]["role"]) == ("ann", "cancelled", "oncall")


async def test_a_role_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as (gateway, client):
        await given(client)
        assert await health(client) == 200
        store = gateway.role_grants.store
        monkeypatch.setattr(store, "_clock", FixedClock(await store.now() + 7201))
        while await health(client) == 200:  # noqa: ASYNC110 - a worker looks by itself
            await asyncio.sleep(0.02)
        assert await health(client) == 404
        assert (await client.get("eve", "/v1/grants")).json() == {"grants": []}


async def test_a_role_is_there_again_after_a_restart(tmp_path: Path) -> None:
    with upstream() as (_, url):
        path = project(tmp_path / "project", url, POLICY)

        for wanted in (404, 200):
            async with Gateway.load(path) as gateway:
                assert await health(Client(gateway)) == wanted
                if wanted == 404:
                    await given(Client(gateway))


@pytest.mark.parametrize(
    ("who", "grant_request", "status"),
    [
        ("eve", {**ONCALL, "for": "5h"}, 403),  # longer than the policy lets it
        ("eve", {**ONCALL, "to": "bare"}, 403),  # to somebody it is not for
        ("eve", {**ONCALL, "to": "nobody"}, 403),
        ("eve", {**ONCALL, "role": "guest"}, 403),  # a role that nobody gives
        ("eve", {**ONCALL, "role": "root"}, 403),
        ("bot", ONCALL, 403),  # themselves
        ("bot", {**ONCALL, "role": "lead"}, 403),
        ("bare", ONCALL, 403),  # without a role that gives it
        ("bare", {**ADMIN, "to": "bare"}, 403),
        ("eve", {**ONCALL, "to": "eve"}, 403),
        ("eve", {**ADMIN, "for": "2h"}, 403),
        ("eve", {**ONCALL, "for": "soon"}, 400),
        ("eve", {**ONCALL, "for": "0s"}, 400),
        ("eve", {**ONCALL, "reason": ""}, 400),
        ("eve", {**ONCALL, "reason": " "}, 400),
        ("eve", {**ONCALL, "reason": "\u200b\u3164\u202e"}, 400),
        ("eve", {**ONCALL, "reason": "x" * 501}, 400),
        ("eve", {**ONCALL, "more": 1}, 400),
        ("eve", {"role": "oncall"}, 400),
        ("eve", [], 400),
    ],
)
async def test_what_the_policy_does_not_let_is_refused(
    tmp_path: Path, who: str, grant_request: object, status: int
) -> None:
    async with served(tmp_path) as (gateway, client):
        answer = await client.post(who, "/v1/grants", grant_request)
        assert answer.status_code == status, answer.text
        assert await gateway.role_grants.store.all() == ()
    assert events(gateway, "role_grant") == []
    assert status == 400 or [(one["principal"], one["code"]) for one in events(gateway, "refusal")] == [
        (who, "forbidden")
    ]


async def test_without_a_word_in_the_policy_nobody_gives_anything(tmp_path: Path) -> None:
    rules = [{"id": "calls", "to": ["developer"], "tools": ["orders__get_health"], "verdict": "allow"}]

    async with served(tmp_path, changed(role_grants=[], rules=rules)) as (_, client):
        assert (await client.post("eve", "/v1/grants", ONCALL)).status_code == 403
        assert (await client.get("eve", "/v1/grants")).status_code == 403


async def test_who_acts_for_somebody_gives_nothing_in_their_name(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        answer = await client.post("bot", "/v1/grants", {**ONCALL, "to": "bot"}, x_on_behalf_of="ann")
        assert answer.status_code == 403
        grant = await given(client)
        assert await health(client, x_on_behalf_of="ann") == 404  # both have to be allowed
        for path, body in ((f"/v1/grants/{grant}", {"decision": "approve"}), ("/v1/grants", ONCALL)):
            assert (await client.post("bot", path, body, x_on_behalf_of="ann")).status_code == 403


async def test_what_was_given_is_not_given_on(tmp_path: Path) -> None:
    """A developer who has the role of a lead for an hour answers for a lead, and makes no others."""

    async with served(tmp_path) as (gateway, client):
        await given(client, {**ONCALL, "role": "lead", "for": "1h"})
        assert "lead" in gateway.principal("bot").roles
        for grant_request in ({**ADMIN, "to": "eve"}, {**ONCALL, "role": "lead", "to": "bot"}):
            assert (await client.post("bot", "/v1/grants", grant_request)).status_code == 403
        pending = await given(client, ADMIN)
        assert (await client.post("bot", f"/v1/grants/{pending}", {"decision": "approve"})).status_code == 403


async def test_two_people_break_the_glass_and_everybody_hears(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path) as (gateway, client):
        pending = await client.post("bot", "/v1/grants", ADMIN)  # for themselves, which one person alone may not
        assert (pending.status_code, pending.json()["status"]) == (200, "pending")
        path = f"/v1/grants/{pending.json()['id']}"
        assert await mail(client) == 404
        for who, status in (("bot", 403), ("bare", 403)):
            assert (await client.post(who, path, {"decision": "approve"})).status_code == status
        assert await mail(client) == 404
        agreed = await client.post("ann", path, {"decision": "approve"})
        assert (agreed.status_code, agreed.json()["status"], agreed.json()["agreed_by"]) == (200, "in_force", "ann")
        assert await mail(client) == 200
        assert (await client.post("eve", path, {"decision": "approve"})).status_code == 409
        measured = await gateway.operations.measured()
        assert b"\ntoolgen_roles_by_break_glass" in measured
        assert b'toolgen_audit_entries_total{event="break_glass",' in measured or b'event="break_glass"' in measured
        assert (await client.delete("bot", path)).status_code == 200  # who has it may give it back
        assert await mail(client) == 404

    asked, broken, ended = events(gateway, "role_grant", "break_glass", "role_grant_end")
    assert (asked["principal"], asked["status"]) == ("bot", "pending")
    assert (broken["principal"], broken["arguments"]["grant"]["asked_by"]) == ("ann", "bot")
    assert broken["arguments"]["grant"]["reason"] == "incident 7"
    assert ended["principal"] == "bot"
    assert [(one["principal"], one["code"]) for one in events(gateway, "refusal")] == [
        ("bot", "forbidden"),
        ("bare", "forbidden"),
        ("eve", "conflict"),
    ]
    assert any(line_names(record.getMessage(), "BREAK GLASS: bot ", "role admin") for record in caplog.records)


@pytest.mark.parametrize("by", ["eve", "bot"])
async def test_who_asked_is_not_the_second_person(tmp_path: Path, by: str) -> None:
    async with served(tmp_path) as (_, client):
        pending = await given(client, ADMIN, "eve")
        assert (await client.post(by, f"/v1/grants/{pending}", {"decision": "approve"})).status_code == 403
        assert await mail(client) == 404
        unknown = await client.post("ann", "/v1/grants/role_none", {"decision": "approve"})
        assert unknown.status_code == 404
        denied = await client.post("ann", f"/v1/grants/{pending}", {"decision": "deny"})
        assert (denied.status_code, denied.json()["status"]) == (200, "ended")
        assert (await client.post("ann", f"/v1/grants/{pending}", {"decision": "approve"})).status_code == 404
        assert await mail(client) == 404


async def test_of_many_who_agree_at_once_one_does(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client):
        path = f"/v1/grants/{await given(client, ADMIN, 'bot')}"
        answers = await asyncio.gather(
            *(client.post(("ann", "eve")[n % 2], path, {"decision": "approve"}) for n in range(10))
        )
        assert sorted(answer.status_code for answer in answers) == [200, *[409] * 9]
    assert len(events(gateway, "role_grant")) == 1


LESS = {**POLICY["principals"], "eve": {"api_key": KEYS["eve"], "roles": ["developer"]}}
NO_BOT = {**POLICY["principals"], "bot": {"api_key": KEYS["bot"], "roles": ["guest"]}}


@pytest.mark.parametrize(
    "sections",
    [
        {"principals": LESS},  # who gave it has the role no more
        {"principals": NO_BOT},  # who has it is none of those it is for
        {"role_grants": [{**POLICY["role_grants"][0], "max_duration": "1h"}, *POLICY["role_grants"][1:]]},
        {"role_grants": [{**POLICY["role_grants"][0], "by": ["guest"]}, *POLICY["role_grants"][1:]]},
    ],
)
async def test_a_role_is_had_only_while_the_policy_would_let_it_be_given(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    async with served(tmp_path) as (gateway, client):
        await given(client)
        assert await health(client) == 200
        write_policy(gateway.settings.path.parent, changed(**sections))
        assert await gateway.operations.reload()
        while await health(client) == 200:  # noqa: ASYNC110 - within a moment
            await asyncio.sleep(0.02)


async def test_a_second_person_who_lost_the_role_agrees_to_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client):
        pending = await given(client, ADMIN, "bot")
        write_policy(gateway.settings.path.parent, changed(principals=LESS))
        assert await gateway.operations.reload()
        assert (await client.post("eve", f"/v1/grants/{pending}", {"decision": "approve"})).status_code == 403
        assert (await client.post("ann", f"/v1/grants/{pending}", {"decision": "approve"})).status_code == 200


async def test_a_role_that_is_taken_back_while_a_call_waits_voids_its_approval(tmp_path: Path) -> None:
    rules = [{"id": "asks", "to": ["oncall"], "tools": ["orders__get_health"], "verdict": "ask"}]

    async with served(tmp_path, changed(rules=[*rules, POLICY["rules"][1]], approvals={"approvers": ["lead"]})) as (
        gateway,
        client,
    ):
        grant = await given(client)
        call = await gateway.call("orders__get_health", {}, principal="bot")
        assert call.status == "pending"
        await client.delete("eve", f"/v1/grants/{grant}")
        answer = await client.decide("ann", call.call_id)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "expired")


async def test_what_cannot_be_read_is_given_to_nobody(tmp_path: Path) -> None:
    async with served(tmp_path) as (gateway, client):
        await given(client)
        kept = gateway.settings.state_dir / "roles.db"
        kept.unlink()
        kept.write_bytes(b"no database" * 1000)
        while await health(client) == 200:  # noqa: ASYNC110 - within a moment
            await asyncio.sleep(0.02)


async def test_users_of_an_issuer_have_a_role_while_their_token_says_that_it_is_for_them(tmp_path: Path) -> None:
    issuer = {
        "jwt": {"issuer": "https://login.example", "audience": "toolgen", "jwks": "https://login.example/keys"},
        "grants": {"groups": {"engineering": "developer", "sales": "guest"}},
    }

    async with served(tmp_path, changed(issuers={"staff": issuer})) as (gateway, client):
        await given(client, {**ONCALL, "to": "staff:zoe"})

        def roles(name: str, *groups: str) -> set[str]:
            return set(gateway.callers.named(name, claims={"groups": list(groups)}).roles)

        assert roles("staff:zoe", "engineering") == {"developer", "oncall"}
        assert roles("staff:zoe", "sales") == {"guest"}
        assert roles("staff:joe", "engineering") == {"developer"}
        assert (await client.post("eve", "/v1/grants", {**ONCALL, "to": "other:zoe"})).status_code == 403
