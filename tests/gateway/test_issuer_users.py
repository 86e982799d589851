"""Users of an identity provider through the whole gateway: what a policy says of its own principals holds for them alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.issuer import AUDIENCE, ISSUER, PRIVATE, jwk, token
from toolgen.gateway.service import Gateway
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


def scenario(root: Path, policy: dict[str, Any], steps: Callable[[Gateway, Who, Upstream], Awaitable[None]]) -> None:
    async def main(path: Path, seen: Upstream) -> None:
        async with Gateway.load(path) as gateway:

            async def who(**claims: Any) -> Principal:
                found = await gateway.authenticate(token(**claims))
                assert isinstance(found, Principal), found
                return found

            await steps(gateway, who, seen)

    with upstream() as (seen, server):
        (root / "p").mkdir()
        (root / "p" / "keys.json").write_text(json.dumps({"keys": [jwk(name) for name in PRIVATE]}))
        asyncio.run(main(project(root / "p", server, policy), seen))


async def call(gateway: Gateway, who: Principal, tool: str, session: str = "s", **arguments: Any) -> Envelope:
    return await gateway.call(f"orders__{tool}", arguments, principal=who, session=session)


def code(envelope: Envelope) -> str:
    return envelope.status if envelope.error is None else envelope.error.code


def test_claims_bind_and_fill_conditions_and_what_is_not_there_opens_nothing(tmp_path: Path) -> None:
    async def steps(gateway: Gateway, who: Who, seen: Upstream) -> None:
        ann = await who(org={"id": "acme"}, ceiling=500)
        assert code(await call(gateway, ann, "list_orders")) == "ok"
        assert "tenant_id=acme" in seen.requests[-1][1]
        assert code(await call(gateway, ann, "list_orders", tenant_id="globex")) == "forbidden"
        assert code(await call(gateway, ann, "check_fraud")) == "ok"
        shown = next(tool for tool in gateway.catalog(ann) if tool.name == "orders__list_orders")
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

    scenario(tmp_path, whole(), steps)


def test_users_of_two_providers_share_nothing_but_what_they_are_said_to(tmp_path: Path) -> None:
    policy = whole(
        limits=[
            {"id": "mine", "per": ["principal"], "rate": "2/h"},
            {"id": "ours", "per": ["attribute:tenant"], "rate": "3/h"},
        ]
    )

    async def steps(gateway: Gateway, who: Who, seen: Upstream) -> None:
        ann = await who(org={"id": "acme"})
        other = await who(iss=OTHER, org={"id": "acme"})
        elsewhere = await who(sub="bob", org={"id": "globex"})
        assert [code(await call(gateway, ann, "list_orders")) for _ in range(3)] == ["ok", "ok", "rate_limited"]
        assert [code(await call(gateway, other, "list_orders")) for _ in range(2)] == ["ok", "rate_limited"]
        assert code(await call(gateway, elsewhere, "list_orders")) == "ok"

    scenario(tmp_path, policy, steps)


def test_a_user_whose_claims_make_it_an_approver_can_be_waited_for(tmp_path: Path) -> None:
    policy = whole(approvals={"approvers": ["lead"], "expires": "1h"})

    async def steps(gateway: Gateway, who: Who, seen: Upstream) -> None:
        ann = await who(org={"id": "acme"}, groups=["leads"])
        lead = await who(sub="lena", groups=["leads"])
        same_name = await who(iss=OTHER, org={"id": "acme"})
        asked = await call(gateway, ann, "send_mail", to="x")
        assert code(asked) == "approval_required"
        assert await gateway.approvals.outcome(asked.call_id, same_name) is None
        refused = await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=ann)
        assert getattr(refused, "code", "") == "forbidden"
        await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=lead)
        ended = await gateway.approvals.outcome(asked.call_id, ann, 10)
        assert ended is not None
        assert ended.status == "ok"

    scenario(tmp_path, policy, steps)


@pytest.mark.parametrize(
    ("revoked", "ending"),
    [
        ({"subject": "ann", "before": "2100-01-01T00:00:00Z"}, "expired"),
        ({"issuer": ISSUER, "before": "2100-01-01T00:00:00Z"}, "expired"),
        ({"subject": "ann", "before": "2000-01-01T00:00:00Z"}, "ok"),
        ({"issuer": OTHER, "before": "2100-01-01T00:00:00Z"}, "ok"),
    ],
)
def test_a_call_that_waits_ends_with_the_tokens_of_its_caller(
    tmp_path: Path, revoked: dict[str, Any], ending: str
) -> None:
    policy = whole(approvals={"approvers": ["user"], "expires": "1h"})

    async def steps(gateway: Gateway, who: Who, seen: Upstream) -> None:
        ann = await who(org={"id": "acme"})
        asked = await call(gateway, ann, "send_mail", to="x")
        policies = tmp_path / "p" / "policies"
        (policies / "keys.yaml").write_text(json.dumps({"revoked": [revoked]}))
        assert await gateway.reload()
        await gateway.approvals.decide(asked.call_id, approve=True, note="", principal=gateway.principal("eve"))
        ended = await gateway.approvals.outcome(asked.call_id, ann, 10)
        assert ended is not None
        assert code(ended) == ending

    scenario(tmp_path, policy, steps)
