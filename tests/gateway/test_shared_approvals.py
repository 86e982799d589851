"""Two gateways on one Redis, one vote at each: a quorum, an edit, and many answers for one call, which is carried out once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import PRINCIPALS
from tests.gateway.test_shared_calls import POLICY, ask, both, ended
from tests.redis_server import RedisServer
from toolgen.audit.reader import entries
from toolgen.core.errors import StateUnavailableError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.terms import AS_ASKED, DecisionOptions
from toolgen.model.result import Error
from toolgen.state.invocations import Invocation

MANY = {
    f"p{number}": {"api_key": PRINCIPALS["eve"]["api_key"][:-2] + f"{number:02x}", "roles": ["user"]}
    for number in range(50)
}


def policy_of(**approvals: Any) -> dict[str, Any]:
    return {**POLICY, "principals": {**PRINCIPALS, **MANY}, "approvals": POLICY["approvals"] | approvals}


async def agree(gateway: Gateway, call_id: str, who: str, terms: DecisionOptions = AS_ASKED) -> Invocation | Error:
    """Approve a call, again where the gateway could not ask Redis a moment ago, as on a busy machine."""
    while True:
        with suppress(StateUnavailableError):
            return await gateway.approvals.decide(
                call_id, approve=True, note="", principal=gateway.principal(who), terms=terms
            )
        await asyncio.sleep(0.1)


def status_of(answer: Invocation | Error) -> str:
    return answer.code if isinstance(answer, Error) else answer.status


def decisions(gateway: Gateway) -> list[tuple[str, object]]:
    found = entries(gateway.settings.audit_dir)
    told = {"votes", "enough"}
    return [
        (str(one["principal"]), {name: said for name, said in one.get("arguments", {}).items() if name in told})
        for one in found
        if one["event"] == "decision"
    ]


async def test_one_vote_comes_to_each_gateway(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server, policy_of(quorum=2)) as (first, second, seen):
        call_id = await ask(first, "x")
        assert status_of(await agree(first, call_id, "p0")) == "pending"
        assert status_of(await agree(second, call_id, "p0")) == "conflict"  # the same person, elsewhere
        assert seen.requests == []
        assert status_of(await agree(second, call_id, "p1")) == "approved"
        assert [await ended(gateway, call_id) for gateway in (first, second)] == ["ok", "ok"]
        assert [body for _, _, body in seen.requests] == ['{"to":"x"}']
        assert decisions(first) == [("p0", {"votes": 1, "enough": False})]
        assert decisions(second) == [("p1", {"votes": 2, "enough": True})]


async def test_votes_that_race_at_two_gateways_all_count(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server, policy_of(quorum=4)) as (first, second, seen):
        call_id = await ask(first, "x")
        answers = await asyncio.gather(
            *(agree((first, second)[number % 2], call_id, f"p{number}") for number in range(4))
        )
        assert sorted(map(status_of, answers)) == ["approved", "pending", "pending", "pending"]
        assert await ended(second, call_id) == "ok"
        assert len(seen.requests) == 1


async def test_an_edit_at_one_gateway_voids_the_vote_at_another(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server, policy_of(quorum=2)) as (first, second, seen):
        call_id = await ask(first, "x")
        (shown,) = await first.approvals.answerable(first.principal("p0"))
        await agree(first, call_id, "p0")
        edited = await agree(second, call_id, "p1", DecisionOptions(arguments={"to": "y"}, digest=shown.digest))
        assert status_of(edited) == "pending"
        assert status_of(await agree(first, call_id, "p2", DecisionOptions(digest=shown.digest))) == "conflict"
        (now,) = await first.approvals.answerable(first.principal("p2"))
        assert (now.arguments, now.approval.original, now.approval.edited_by) == ({"to": "y"}, {"to": "x"}, "p1")
        assert status_of(await agree(first, call_id, "p2", DecisionOptions(digest=now.digest))) == "approved"
        assert [await ended(gateway, call_id) for gateway in (first, second)] == ["ok", "ok"]
        assert [body for _, _, body in seen.requests] == ['{"to":"y"}']


@pytest.mark.parametrize("quorum", [1, 2])
async def test_fifty_answers_at_two_gateways_carry_a_call_out_once(
    tmp_path: Path, server: RedisServer, quorum: int
) -> None:
    async with both(tmp_path, server, policy_of(quorum=quorum)) as (first, second, seen):
        call_id = await ask(first, "x")
        answers = await asyncio.gather(
            *(agree((first, second)[number % 2], call_id, f"p{number}") for number in range(50))
        )
        found = sorted(map(status_of, answers))
        assert (found.count("approved"), found.count("pending")) == (1, quorum - 1), found
        assert set(found) <= {"approved", "pending", "conflict"}
        assert [await ended(gateway, call_id) for gateway in (first, second)] == ["ok", "ok"]
        later = await ask(second, "later")
        for who in ("p0", "p1")[:quorum]:
            await agree(first, later, who)
        assert await ended(first, later) == "ok"  # so whatever was approved was looked at again
        assert [body for _, _, body in seen.requests] == ['{"to":"x"}', '{"to":"later"}']
