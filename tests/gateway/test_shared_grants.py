"""Grants of two gateways on one Redis: counted once, ended for both, and nothing that somebody writes in Redis makes or lengthens one."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.gateway.governed import PRINCIPALS, upstream
from tests.gateway.test_shared_approvals import agree, status_of
from tests.gateway.test_shared_calls import ask, both, ended, machines
from tests.redis_server import RedisServer
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.terms import DecisionOptions, GrantRequest
from toolgen.model.result import Error
from toolgen.state.grants import CallGrant

POLICY: dict[str, Any] = {
    "principals": {**PRINCIPALS, "ann": {**PRINCIPALS["ann"], "roles": ["user"]}},
    "rules": [{"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"}],
    "approvals": {"approvers": ["user"], "remember": {"max_duration": "1h", "max_calls": 50}},
}


async def grant(gateway: Gateway, calls: int) -> str:
    call_id = await ask(gateway, "x")
    answer = await agree(gateway, call_id, "eve", DecisionOptions(remember=GrantRequest(calls=calls)))
    assert status_of(answer) == "approved"
    assert await ended(gateway, call_id) == "ok"
    assert not isinstance(answer, Error)
    return answer.approval.grant


async def status(gateway: Gateway) -> str:
    return (await gateway.call("orders__send_mail", {"to": "x"}, principal="bot")).status


async def shown(gateway: Gateway) -> tuple[CallGrant, ...]:
    assert gateway.approvals.grants is not None
    return await gateway.approvals.grants.listed(gateway.principal("ann"))


async def revoked(gateway: Gateway, grant_id: str, who: str = "ann") -> str:
    assert gateway.approvals.grants is not None
    answer = await gateway.approvals.grants.end(grant_id, gateway.principal(who))
    return answer.code if isinstance(answer, Error) else "ended"


async def test_fifty_calls_at_two_gateways_take_no_more_than_were_granted(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server, POLICY) as (first, second, seen):
        await grant(first, 12)
        found = await asyncio.gather(*(status((first, second)[number % 2]) for number in range(50)))
        # What is asked about is bounded too: 20 calls of one principal wait.
        assert (found.count("ok"), found.count("pending") + found.count("refused")) == (12, 38)
        assert len(seen.requests) == 13
        assert (await shown(first), await shown(second)) == ((), ())


async def test_a_grant_of_one_gateway_holds_at_another_until_it_is_revoked_at_either(
    tmp_path: Path, server: RedisServer
) -> None:
    async with both(tmp_path, server, POLICY) as (first, second, seen):
        grant_id = await grant(first, 20)
        assert [await status(one) for one in (second, first, second)] == ["ok"] * 3
        assert [(one.id, one.used) for one in await shown(second)] == [(grant_id, 3)]
        assert await revoked(second, grant_id, "bot") == "forbidden"
        assert await status(first) == "ok"
        assert await revoked(second, grant_id) == "ended"
        assert [await status(one) for one in (first, second)] == ["pending"] * 2
        assert await revoked(first, grant_id) == "not_found"
        assert len(seen.requests) == 5


async def test_votes_of_one_quorum_on_the_same_terms_come_to_each_gateway(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server, {**copy.deepcopy(POLICY), "approvals": {**POLICY["approvals"], "quorum": 2}}) as (
        first,
        second,
        _,
    ):
        call_id = await ask(first, "x")
        terms = DecisionOptions(remember=GrantRequest(calls=1))
        assert status_of(await agree(first, call_id, "eve", terms)) == "pending"
        assert await shown(second) == ()
        assert status_of(await agree(second, call_id, "ann", terms)) == "approved"
        assert await ended(first, call_id) == "ok"
        assert [await status(one) for one in (first, second)] == ["ok", "pending"]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("attack", ["used", "revoked"])
async def test_an_older_state_that_is_put_back_in_redis_grants_nothing(
    tmp_path: Path, server: RedisServer, attack: str, restart: bool
) -> None:
    with upstream() as (seen, url):
        one, _ = machines(tmp_path, server, url, POLICY)
        redis = Redis(host="127.0.0.1", port=server.port)

        async def put_back(kept: dict[bytes, bytes]) -> None:
            for name, box in kept.items():
                await redis.restore(name, 0, box, replace=True)

        async with Gateway.load(one) as first:
            grant_id = await grant(first, 1)
            names = [name async for name in redis.scan_iter("toolgen:grants:*")]
            kept = {name: await redis.dump(name) for name in names}
            if attack == "used":
                assert await status(first) == "ok"
            else:
                assert await revoked(first, grant_id) == "ended"
            sent = len(seen.requests)
            if not restart:
                await put_back(kept)
                assert await status(first) == "pending"
                assert await shown(first) == ()
        if restart:
            await put_back(kept)
            async with Gateway.load(one) as first:
                assert await status(first) == "pending"
        assert len(seen.requests) == sent
        await redis.aclose()


@pytest.mark.parametrize("attack", ["bytes", "version", "other", "key"])
async def test_what_is_written_in_redis_by_others_grants_nothing(
    tmp_path: Path, server: RedisServer, attack: str
) -> None:
    async with both(tmp_path, server, POLICY) as (first, second, seen):
        grant_id = await grant(first, 20)
        redis = Redis(host="127.0.0.1", port=server.port)
        name = f"toolgen:grants:grant:{grant_id}"
        box: bytes = await redis.hget(name, "box")  # type: ignore[misc, assignment]
        match attack:
            case "bytes":
                await redis.hset(name, "box", box[:-1] + bytes([box[-1] ^ 1]))  # type: ignore[misc, arg-type]
            case "version":
                await redis.hset(name, "version", "7")  # type: ignore[misc]
            case "other":
                await redis.hset(name, "version", "1")  # type: ignore[misc]
                await redis.copy(name, "toolgen:grants:grant:grant_other")
                await redis.delete(name)
                async for group in redis.scan_iter("toolgen:grants:of:*"):
                    await redis.zrem(group, grant_id)
                    await redis.zadd(group, {"grant_other": 9e9})
            case _:
                await redis.set("toolgen:grants:key", "another")
        if attack == "key":
            async with Gateway.load(second.settings.path) as third:  # a process that begins now
                assert await status(third) in {"pending", "refused"}
        else:
            assert [await status(one) for one in (first, second)] == ["pending"] * 2
        assert len(seen.requests) == 1
        await redis.aclose()


async def test_while_redis_is_away_nothing_is_granted(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server, POLICY) as (first, _, seen):
        await grant(first, 20)
        server.stop()
        assert await status(first) == "refused"
        assert len(seen.requests) == 1
