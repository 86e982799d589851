"""Accounts of several gateways of a project that share a Redis: linked at one, used and unlinked at another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.accounts.offices import TOOL, link_of, office
from tests.redis_server import RedisServer
from tests.services.account_provider import AccountProvider
from toolgen.frontends.python.gateway import Gateway


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own."""
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    server.start()
    yield server
    server.stop()


async def test_an_account_is_linked_at_one_and_used_at_another(
    tmp_path: Path, provider: AccountProvider, redis: RedisServer
) -> None:
    async with office(tmp_path / "project", provider, state=f"redis://127.0.0.1:{redis.port}/0") as here:
        async with Gateway.load(tmp_path / "project" / "toolgen.yaml") as other:
            link = link_of(await other.call(TOOL, {}, principal="ann"))
            assert (await here.link("ann", link)).status_code == 303
            for gateway in (other, here.gateway):
                assert (await gateway.call(TOOL, {}, principal="ann")).unwrap() == {"owner": "octocat"}
            (account,) = await other.accounts.all()
            assert await other.accounts.unlink(account, by="ann")
            link_of(await other.call(TOOL, {}, principal="ann"))
            assert await here.gateway.accounts.all() == ()
        assert len(here.recorded("linked")) == 1


async def test_a_redis_that_is_away_refuses_calls_and_keeps_nothing_open(
    tmp_path: Path, provider: AccountProvider, redis: RedisServer
) -> None:
    async with office(tmp_path / "project", provider, state=f"redis://127.0.0.1:{redis.port}/0") as here:
        await here.link("ann")
        redis.stop()
        found = await here.call("bob")
        assert found.status in {"error", "refused"}
        assert provider.used == []
