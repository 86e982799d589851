"""Users of an identity provider through the whole gateway: what a policy says of its own principals holds for them alike."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.governed import PRINCIPALS, Upstream, project, upstream, write_policy
from tests.gateway.issuer import AUDIENCE, ISSUER, PRIVATE, jwk, signed, token
from tests.gateway.issuer import claims as issuer_claims
from tests.projects import audit_entries
from toolgen.core.errors import ConfigError
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.identity import TokenRejected
from toolgen.model.call import Principal
from toolgen.model.result import Envelope

OTHER = "https://other.example"


def issuers() -> dict[str, Any]:
    """`staff` and `guests`: two providers whose users may have the same subject."""
    shared = {"audience": AUDIENCE, "jwks": "../keys.json"}
    return {
        "staff": {
            "jwt": {"issuer": ISSUER, **shared},
            "roles": ["staff"],
            "grants": {"groups": {"leads": ["lead"]}},
            "attributes": {"tenant": "/org/id", "ceiling": "ceiling"},
        },
        "guests": {"jwt": {"issuer": OTHER, **shared}, "roles": ["staff"], "attributes": {"tenant": "/org/id"}},
    }


def whole(**more: Any) -> dict[str, Any]:
    return {
        "issuers": issuers(),
        "rules": [
            {
                "id": "orders",
                "to": ["staff"],
                "tools": ["orders__list_orders", "orders__create_order"],
                "verdict": "allow",
                "bind": {"tenant_id": "principal.attributes.tenant"},
            },
            {"id": "check", "to": ["staff"], "tools": ["orders__check_fraud"], "verdict": "allow",
             "when": "principal.attributes.ceiling > 100 && 'staff' in principal.roles"},
            {"id": "mail", "to": ["staff"], "tools": ["orders__send_mail"], "verdict": "ask"},
        ],
        **more,
    }  # fmt: skip


Who = Callable[..., Awaitable[Principal]]


@contextlib.asynccontextmanager
async def scenario(root: Path, policy: dict[str, Any]) -> AsyncIterator[tuple[Gateway, Who, Upstream]]:
    with upstream() as (seen, server):
        (root / "p").mkdir()
        (root / "p" / "keys.json").write_text(json.dumps({"keys": [jwk(name) for name in PRIVATE]}))
        path = project(root / "p", server, policy, gateway={"turn_limit": "never"})
        async with Gateway.load(path) as gateway:

            async def who(**claims: Any) -> Principal:
                found = await gateway.callers.authenticate(token(**claims))
                assert isinstance(found, Principal), found
                return found

            yield gateway, who, seen


async def call(gateway: Gateway, who: Principal, tool: str, session: str = "s", **arguments: Any) -> Envelope:
    return await gateway.call(f"orders__{tool}", arguments, principal=who, session=session)


def code(envelope: Envelope) -> str:
    return envelope.status if envelope.error is None else envelope.error.code


async def test_claims_bind_and_fill_conditions_and_what_is_not_there_opens_nothing(tmp_path: Path) -> None:
    async with scenario(tmp_path, whole()) as (gateway, who, seen):
        ann = await who(org={"id": "acme"}, ceiling=500)
        assert code(await call(gateway, ann, "list_orders")) == "ok"
        assert "tenant_id=acme" in seen.requests[-1][1]
        assert code(await call(gateway, ann, "list_orders", tenant_id="globex")) == "forbidden"
        assert code(await call(gateway, ann, "check_fraud")) == "ok"
        shown = next(tool for tool in gateway.tool_calls.catalog(ann) if tool.name == "orders__list_orders")
        assert "tenant_id" not in shown.input_schema["properties"]
        before = len(seen.requests)
        for claims in (
            {},
            {"org": {"id": ""}, "ceiling": 100},
            {"ceiling": "500"},
            {"ceiling": True},
            {"ceiling": [500]},
        ):
            user = await who(sub="eve", **claims)
            assert code(await call(gateway, user, "check_fraud")) == "forbidden", claims
        assert code(await call(gateway, await who(sub="eve"), "list_orders")) == "forbidden"
        guest = await who(iss=OTHER, org={"id": "acme"}, ceiling=500)
        assert code(await call(gateway, guest, "check_fraud")) == "forbidden"
        assert len(seen.requests) == before


async def test_users_of_two_providers_share_nothing_but_what_they_are_said_to(tmp_path: Path) -> None:
    policy = whole(
        limits=[
            {"id": "mine", "per": ["principal"], "rate": "2/h"},
            {"id": "ours", "per": ["attribute:tenant"], "rate": "3/h"},
        ]
    )

    async with scenario(tmp_path, policy) as (gateway, who, _):
        ann = await who(org={"id": "acme"})
        other = await who(iss=OTHER, org={"id": "acme"})
        elsewhere = await who(sub="bob", org={"id": "globex"})
        assert [code(await call(gateway, ann, "list_orders")) for _ in range(3)] == ["ok", "ok", "rate_limited"]
        assert [code(await call(gateway, other, "list_orders")) for _ in range(2)] == ["ok", "rate_limited"]
        assert code(await call(gateway, elsewhere, "list_orders")) == "ok"


async def test_a_user_whose_claims_make_it_an_approver_can_be_waited_for(tmp_path: Path) -> None:
    policy = whole(approvals={"approvers": ["lead"], "expires": "1h"})

    async with scenario(tmp_path, policy) as (gateway, who, _):
        ann = await who(org={"id": "acme"}, groups=["leads"])
        lead = await who(sub="lena", groups=["leads"])
        same_name = await who(iss=OTHER, org={"id": "acme"})
        asked = await call(gateway, ann, "send_mail", to="x")
        assert code(asked) == "approval_required"
        assert await gateway.approvals.calls.outcome(asked.call_id, same_name) is None
        refused = await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=ann)
        assert getattr(refused, "code", "") == "forbidden"
        await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=lead)
        ended = await gateway.approvals.calls.outcome(asked.call_id, ann, 10)
        assert ended is not None
        assert ended.status == "ok"


@pytest.mark.parametrize(
    ("revoked", "ending"),
    [
        ({"subject": "ann", "before": "2100-01-01T00:00:00Z"}, "expired"),
        ({"issuer": ISSUER, "before": "2100-01-01T00:00:00Z"}, "expired"),
        ({"subject": "ann", "before": "2000-01-01T00:00:00Z"}, "ok"),
        ({"issuer": OTHER, "before": "2100-01-01T00:00:00Z"}, "ok"),
        ({"issuer": ISSUER, "jwt_id": "t1"}, "expired"),
        ({"issuer": ISSUER, "jwt_id": "t2"}, "ok"),
    ],
)
async def test_a_call_that_waits_ends_with_the_tokens_of_its_caller(
    tmp_path: Path, revoked: dict[str, Any], ending: str
) -> None:
    policy = whole(approvals={"approvers": ["user"], "expires": "1h"})

    async with scenario(tmp_path, policy) as (gateway, who, _):
        ann = await who(org={"id": "acme"}, jti="t1")
        asked = await call(gateway, ann, "send_mail", to="x")
        policies = tmp_path / "p" / "policies"
        (policies / "keys.yaml").write_text(json.dumps({"revoked": [revoked]}))
        assert await gateway.operations.reload()
        await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=gateway.principal("eve"))
        ended = await gateway.approvals.calls.outcome(asked.call_id, ann, 10)
        assert ended is not None
        assert code(ended) == ending


BOT = {"id": "bots", "to": ["bot"], "tools": ["orders__*"], "effects": ["read", "write"], "verdict": "allow"}


def agent(**more: Any) -> dict[str, Any]:
    """A policy whose agent may act for every user of `staff` and for one of `guests`."""
    bot = {**PRINCIPALS["bot"], "acts_for": ["staff:*", "guests:ann", "ann"]}
    policy = whole(principals={**PRINCIPALS, "bot": bot}, **more)
    return {**policy, "rules": [*policy["rules"], BOT]}


@contextlib.asynccontextmanager
async def bot(gateway: Gateway) -> AsyncIterator[Callable[..., Awaitable[tuple[int, str]]]]:
    """Calls a tool over REST with the agent's key: the status, and the code of an error."""
    headers = {"authorization": "Bearer key-of-bot"}
    app = httpx.ASGITransport(App(gateway))
    async with httpx.AsyncClient(transport=app, base_url="http://127.0.0.1:8080", headers=headers) as client:

        async def post(tool: str, user: str, **more: str) -> tuple[int, str]:
            acting = {"x-on-behalf-of": user, **more}
            answer = await client.post(f"/v1/tools/orders__{tool}/call", json={"arguments": {}}, headers=acting)
            return answer.status_code, (answer.json().get("error") or {}).get("code", "")

        yield post


async def test_an_agent_acts_for_a_user_whose_token_it_shows(tmp_path: Path) -> None:
    async with scenario(tmp_path, agent()) as (gateway, _, seen), bot(gateway) as post:
        for _ in range(2):  # verified, and then remembered
            assert await post("list_orders", token(org={"id": "acme"})) == (200, "")
        assert "tenant_id=acme" in seen.requests[-1][1]
        last = next(entry for entry in audit_entries(gateway) if entry["event"] == "intent")
        assert (last["principal"], last["on_behalf_of"]) == ("bot", "staff:ann")
        assert await post("check_fraud", token(ceiling=500)) == (200, "")
        assert await post("check_fraud", token(ceiling=5)) == (403, "forbidden")
        assert await post("check_fraud", token(iss=OTHER, ceiling=500)) == (403, "forbidden")
        assert await post("get_health", token(ceiling=500)) == (404, "unknown_tool")


async def test_a_name_alone_or_a_token_that_is_not_accepted_makes_nobody_of_an_issuer(tmp_path: Path) -> None:
    async with scenario(tmp_path, agent()) as (gateway, _, seen), bot(gateway) as post:
        good = token(org={"id": "acme"})
        assert await post("list_orders", "staff:ann") == (403, "forbidden")
        assert await post("list_orders", "staff:*") == (403, "forbidden")
        assert await post("list_orders", token(iss=OTHER, sub="eve", org={"id": "acme"})) == (403, "forbidden")
        assert await post("list_orders", "key-of-eve") == (403, "forbidden")
        for bad in (good[:-4] + "AAAA", token(exp=1), token(aud="other"), "a.b.c"):
            assert await post("list_orders", bad) == (401, "unauthenticated")
        assert await post("list_orders", good, authorization=f"Bearer {good}") == (403, "forbidden")
        assert seen.requests == []
        assert await post("list_orders", "ann") == (
            404,
            "unknown_tool",
        )  # a principal: its name was enough, its rules are not


@pytest.mark.parametrize(("revoked", "ending"), [("bob", "ok"), ("ann", "expired")])
async def test_a_call_for_a_user_ends_with_the_tokens_of_that_user(tmp_path: Path, revoked: str, ending: str) -> None:
    asks = {"id": "bots", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow"}
    policy = {**agent(approvals={"approvers": ["user"], "expires": "1h"})}
    policy["rules"] = [*policy["rules"][:-1], asks]

    async with scenario(tmp_path, policy) as (gateway, who, _):
        acting = gateway.callers.acting_for(gateway.principal("bot"), await who(org={"id": "acme"}))
        assert acting is not None
        asked = await call(gateway, acting, "send_mail", to="x")
        assert code(asked) == "approval_required"
        taken = {"subject": revoked, "before": "2100-01-01T00:00:00Z"}
        (tmp_path / "p" / "policies" / "keys.yaml").write_text(json.dumps({"revoked": [taken]}))
        assert await gateway.operations.reload()
        await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=gateway.principal("eve"))
        ended = await gateway.approvals.calls.outcome(asked.call_id, acting, 10)
        assert ended is not None
        assert code(ended) == ending


@pytest.mark.parametrize(
    ("actors", "kept"), [(["staff:ann"], True), (["staff:*"], True), (["staff:bob"], False), ([], False)]
)
async def test_whoever_acts_for_long_acts_as_long_as_the_policy_says(
    tmp_path: Path, actors: list[str], kept: bool
) -> None:
    async with scenario(tmp_path, agent()) as (gateway, who, _):
        acting = gateway.callers.acting_for(gateway.principal("bot"), await who(org={"id": "acme"}))
        assert acting is not None
        changed = {**PRINCIPALS, "bot": {**PRINCIPALS["bot"], "acts_for": actors}}
        write_policy(tmp_path / "p", {**agent(), "principals": changed})
        assert await gateway.operations.reload()
        assert gateway.callers.current(acting) == (acting if kept else None)


async def test_python_names_a_user_with_its_claims(tmp_path: Path) -> None:
    async with scenario(tmp_path, agent()) as (gateway, who, _):
        claims = {"org": {"id": "acme"}, "groups": ["leads"]}
        assert gateway.principal("staff:ann", claims=claims) == await who(**claims)
        acting = gateway.principal("bot", "staff:ann", user_claims=claims)
        assert acting.on_behalf_of == await who(**claims)
        for name, given, said in (
            ("staff:ann", {"org": {"id": {}}}, "no token of 'staff:ann' with these claims would be accepted"),
            ("staff:", {}, "subject"),
            ("bot", {"org": {}}, "claims of a token do not apply"),
            ("stuff:ann", {}, "did you mean 'staff:ann'"),
        ):
            with pytest.raises(ConfigError, match=said):
                gateway.principal(name, claims=given)
        with pytest.raises(ConfigError, match=r"bot.*'guests:eve'"):
            gateway.principal("bot", "guests:eve")


@pytest.mark.parametrize("number", ["1e999", "-1e999", str(10**40), str(2**53)])
async def test_a_number_that_nobody_holds_exactly_makes_no_attribute(tmp_path: Path, number: str) -> None:
    async with scenario(tmp_path, whole()) as (gateway, _, _):
        claims = json.dumps(issuer_claims(sub="ann"))[:-1] + f', "ceiling": {number}}}'
        found = await gateway.callers.authenticate(signed({"alg": "RS256", "typ": "JWT", "kid": "rsa"}, claims))
        assert isinstance(found, TokenRejected)


async def test_what_is_wrong_with_a_credential_is_said_in_the_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = "k" * 40
    expired = {"hash": "sha256:" + hashlib.sha256(old.encode()).hexdigest(), "expires": "2020-01-01T00:00:00Z"}
    policy = whole(principals={**PRINCIPALS, "old": {"api_key": [expired], "roles": ["bot"]}})

    async with scenario(tmp_path, policy) as (gateway, _, _):
        good = token()
        wrong = [
            "k" * 39,
            old,
            token(exp=1),
            token(nbf=2**32),
            token(aud="other"),
            token(iss="https://nobody.example"),
            token(sub=""),
            good[:-4] + "AAAA",
            token(header={"kid": "none"}),
        ]
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            answers = [
                await client.get("/v1/tools", headers={"authorization": f"Bearer {text}"}) for text in (*wrong, good)
            ]
        told = {(answer.status_code, answer.content, str(answer.headers)) for answer in answers[:-1]}
        assert len(told) == 1, told
        assert [answers[0].status_code, answers[-1].status_code] == [401, 200]
    for reason in (
        "no principal has this key",
        "this key has expired",
        "it has expired",
        "another audience",
        "signature",
    ):
        assert reason in caplog.text
    assert old not in caplog.text


async def test_nobody_answers_for_a_call_of_their_own_by_another_identity(tmp_path: Path) -> None:
    """One subject of one provider: by one audience a user, by another a principal of the policy."""
    lead = {"issuer": ISSUER, "audience": "console", "jwks": "../keys.json"}
    policy = whole(
        principals={
            **PRINCIPALS,
            "ann-lead": {"jwt": {**lead, "subject": "ann"}, "roles": ["lead"]},
            "ben-lead": {"jwt": {**lead, "subject": "ben"}, "roles": ["lead"]},
        },
        approvals={"approvers": ["lead"], "expires": "1h"},
    )

    async with scenario(tmp_path, policy) as (gateway, who, _):
        ann, herself, ben = await who(), await who(aud="console"), await who(aud="console", sub="ben")
        assert (ann.id, herself.id, ben.id) == ("staff:ann", "ann-lead", "ben-lead")
        asked = await call(gateway, ann, "send_mail", to="x")
        assert await gateway.approvals.answerable(herself) == ()
        refused = await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=herself)
        assert getattr(refused, "code", "") == "forbidden"
        assert [item.id for item in await gateway.approvals.answerable(ben)] == [asked.call_id]
        await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=ben)
        ended = await gateway.approvals.calls.outcome(asked.call_id, ann, 10)
        assert ended is not None
        assert ended.status == "ok"
