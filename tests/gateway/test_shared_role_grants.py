"""Roles for some time in every worker and gateway: two processes of one project, and two machines on one Redis."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.cli.commands import Run
from tests.gateway.governed import project, upstream
from tests.gateway.test_role_grants import POLICY
from tests.gateway.test_shared_calls import both, machines
from tests.redis_server import RedisServer
from toolgen.core.errors import StateError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.role_grants import RoleWish
from toolgen.model.result import Error

ONCALL = RoleWish(role="oncall", to="bot", seconds=3600.0, reason="incident 7")
ADMIN = RoleWish(role="admin", to="bot", seconds=600.0, reason="incident 7")


async def status(gateway: Gateway, tool: str = "orders__get_health") -> str:
    return (await gateway.call(tool, {}, principal="bot")).status


async def become(gateway: Gateway, wanted: str, tool: str = "orders__get_health") -> None:
    while await status(gateway, tool) != wanted:  # noqa: ASYNC110 - another process gave or took it
        await asyncio.sleep(0.02)


async def given(gateway: Gateway, grant_request: RoleWish = ONCALL, who: str = "eve") -> str:
    found = await gateway.role_grants.ask(grant_request, gateway.principal(who))
    assert not isinstance(found, Error), found
    return found.id


async def test_two_workers_of_one_project_go_by_the_same(tmp_path: Path, toolgen: Run) -> None:
    with upstream() as (_, url):
        path = project(tmp_path / "project", url, POLICY)

        async with Gateway.load(path) as first, Gateway.load(path) as second, asyncio.timeout(120):
            grant = await given(first)
            assert await status(first) == "ok"
            await become(second, "ok")
            found = await second.role_grants.end(grant, second.principal("ann"))
            assert not isinstance(found, Error)
            assert await status(second) == "refused"
            await become(first, "refused")
            done = await asyncio.to_thread(
                toolgen,
                "grant",
                "oncall",
                "--to",
                "bot",
                "--for",
                "1h",
                "--reason",
                "r",
                "--as",
                "eve",
                "--config",
                str(path),
            )
            assert done.code == 0, done.err
            for one in (first, second):
                await become(one, "ok")


async def test_two_machines_go_by_the_same_and_one_person_is_at_each(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server, POLICY) as (first, second, _):
        grant = await given(first)
        await become(second, "ok")
        pending = await given(first, ADMIN, "bot")
        assert await status(second, "orders__send_mail") == "refused"
        agreed = await asyncio.gather(
            *(
                (first, second)[n % 2].role_grants.decide(
                    pending, approve=True, principal=first.principal(("ann", "eve")[n % 2])
                )
                for n in range(8)
            )
        )
        assert sum(not isinstance(one, Error) for one in agreed) == 1
        for one in (first, second):
            await become(one, "ok", "orders__send_mail")
        for one in (grant, pending):
            assert not isinstance(await second.role_grants.end(one, second.principal("ann")), Error)
        for tool in ("orders__get_health", "orders__send_mail"):
            await become(first, "refused", tool)
        assert await first.role_grants.listed(None) == ()


async def test_while_redis_is_away_nobody_has_a_role_that_was_given(tmp_path: Path, server: RedisServer) -> None:
    policy = {**POLICY, "limits": [{"id": "few", "rate": "100/s", "on_failure": "share"}]}

    async with both(tmp_path, server, policy) as (first, second, _):
        await given(first)
        await become(second, "ok")
        server.stop()
        for one in (first, second):
            await become(one, "refused")
        assert "oncall" not in second.principal("bot").roles


@pytest.mark.parametrize("attack", ["ended", "pending", "bytes"])
async def test_what_is_put_in_redis_by_others_gives_nobody_a_role(
    tmp_path: Path, server: RedisServer, attack: str
) -> None:
    with upstream() as (_, url):
        one, _ = machines(tmp_path, server, url, POLICY)
        redis = Redis(host="127.0.0.1", port=server.port)
        async with Gateway.load(one) as first:
            grant = await given(first) if attack != "pending" else await given(first, ADMIN, "bot")
            names = [name async for name in redis.scan_iter("toolgen:roles:*")]
            kept = {name: await redis.dump(name) for name in names}
            if attack == "ended":
                assert not isinstance(await first.role_grants.end(grant, first.principal("ann")), Error)
            elif attack == "pending":
                assert not isinstance(
                    await first.role_grants.decide(grant, approve=False, principal=first.principal("ann")), Error
                )
        for name, box in kept.items():
            await redis.restore(name, 0, box, replace=True)
        if attack == "bytes":
            box = await redis.hget(f"toolgen:roles:grant:{grant}", "box")  # type: ignore[misc]
            assert box is not None
            await redis.hset(f"toolgen:roles:grant:{grant}", "box", box[:-1] + bytes([box[-1] ^ 1]))  # type: ignore[misc]
        async with Gateway.load(one) as first:
            assert await status(first) == "refused"
            with suppress(StateError):
                found = await first.role_grants.decide(grant, approve=True, principal=first.principal("eve"))
                assert isinstance(found, Error)
            assert await status(first, "orders__send_mail") == "refused"
        await redis.aclose()
