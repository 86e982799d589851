"""Equal calls: one that waits is asked about once and carried out once, however often and wherever it is made again."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.gateway.clients import listening
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.operations.test_background_calls import http
from tests.gateway.operations.test_call_results import peer_of, read, text
from tests.messages import line_names
from tests.redis_server import RedisServer
from toolgen.audit.reader import entries
from toolgen.config.settings import load as load_settings
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.operations import waiting_calls
from toolgen.gateway.state.shared_state import seal_file
from toolgen.state.encryption import seal_of

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "asks", "to": ["bot"], "tools": ["orders__create_open_order", "orders__check_fraud"], "verdict": "ask"},
        {"id": "allows", "to": ["bot"], "tools": ["orders__send_mail", "orders__get_health"], "verdict": "allow"},
    ],
    "approvals": {"approvers": ["user"]},
}
ASKED = {"name": "orders__create_open_order", "arguments": {"tenant_id": "acme", "amount_cents": 5}}
READ = {"name": "orders__check_fraud", "arguments": {"order": "7"}}
MAIL = {"name": "orders__send_mail", "arguments": {"to": "x"}}


@pytest.fixture(name="redis", params=[False, True], ids=["files", "redis"])
def _redis(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer | None]:
    if not request.param:
        yield None
        return
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@asynccontextmanager
async def play(
    root: Path, redis: RedisServer | None, policy: dict[str, Any] | None = None, **given: Any
) -> AsyncIterator[tuple[list[str], Upstream, list[Gateway]]]:
    """Two gateways: workers of one project, or machines that share a Redis."""

    with upstream() as (seen, server):
        settings = {"gateway": given} if given else {}
        if redis is None:
            path = project(root / "p", server, policy or POLICY, **settings)
            paths = [path, path]
        else:
            path = project(root / "m0", server, policy or POLICY, state=f"redis://127.0.0.1:{redis.port}/0", **settings)
            seal_of(seal_file(load_settings(path)))
            shutil.copytree(path.parent, root / "m1")
            paths = [path, root / "m1" / path.name]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(asyncio.timeout(120))
            gateways = [await stack.enter_async_context(Gateway.load(path)) for path in paths]
            urls = [await stack.enter_async_context(listening(App(gateway))) for gateway in gateways]
            try:
                yield urls, seen, gateways
            finally:
                seen.answers.set()
                await close_peers()


def id_of(said: str) -> str:
    found = re.search(r"call id (call_[0-9a-f]{24})", said)
    assert found is not None, said
    return found[1]


async def at_rest(client: httpx.AsyncClient, call: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer = await client.post(f"/v1/tools/{call['name']}/call", json={"arguments": call["arguments"], **body})
    found: dict[str, Any] = answer.json()
    return found


async def everywhere(urls: list[str], call: dict[str, Any], **body: Any) -> list[str]:
    """The ids that twenty equal calls are answered with: over REST, MCP of both styles, directly and inside `run_tool`."""
    asked: list[Awaitable[str]] = []

    async def of_rest(client: httpx.AsyncClient) -> str:
        return str((await at_rest(client, call, **body))["call_id"])

    async def of_mcp(peer: Peer, given: dict[str, Any]) -> str:
        return id_of(text(await peer.ask("tools/call", **given)))

    async with http(urls[0]) as one, http(urls[1]) as two:
        peers = [await peer_of(kind, url) for url in urls for kind in (Peer, OldPeer)]
        for _ in range(2):
            asked += [of_rest(client) for client in (one, two)]
            asked += [of_mcp(peer, call) for peer in peers]
            asked += [of_mcp(peer, {"name": "run_tool", "arguments": call}) for peer in peers]
        return await asyncio.gather(*asked)


async def waiting(gateway: Gateway) -> list[str]:
    return [known.id for known in await gateway.approvals.answerable(gateway.principal("ann"))]


async def approve(gateway: Gateway, call_id: str, *, yes: bool = True) -> None:
    await gateway.approvals.decide(call_id, approve=yes, note="", principal=gateway.principal("ann"))


async def ended(gateway: Gateway, call_id: str) -> None:
    """Returns once a call has ended, and tells nobody."""
    assert await gateway.approvals.calls.outcome(call_id, gateway.principal("bot"), 60, tells=False) is not None


@pytest.mark.parametrize("call", [ASKED, READ])
async def test_twenty_equal_calls_at_once_are_asked_about_once(
    tmp_path: Path, redis: RedisServer | None, call: dict[str, Any]
) -> None:
    async with play(tmp_path, redis) as (urls, seen, gateways):
        ids = await everywhere(urls, call, wait=0)
        assert (len(ids), len(set(ids))) == (20, 1)
        assert await waiting(gateways[0]) == ids[:1]
        again = await everywhere(urls, call, wait=0)
        assert set(again) == set(ids)
        await approve(gateways[1], ids[0])
        peer = await peer_of(Peer, urls[0])
        assert '{"ok":true}' in text(await read(peer, call_id=ids[0], wait_s=60))
        assert len(seen.requests) == 1


async def test_other_arguments_callers_and_keys_are_other_calls(tmp_path: Path, redis: RedisServer | None) -> None:
    async with play(tmp_path, redis) as (urls, _, gateways):
        other = {**ASKED, "arguments": {**ASKED["arguments"], "amount_cents": 6}}
        async with http(urls[0]) as bot, http(urls[1], "bare") as bare:
            asked = [
                await at_rest(bot, ASKED, wait=0),
                await at_rest(bot, other, wait=0),
                await at_rest(bare, ASKED, wait=0),
                await at_rest(bot, ASKED, wait=0, idempotency_key="a"),
                await at_rest(bot, ASKED, wait=0, idempotency_key="b"),
                await at_rest(bot, ASKED, wait=0, idempotency_key="b"),
                await at_rest(bot, ASKED, wait=0),
            ]
        ids = [one["call_id"] for one in asked]
        assert {one["status"] for one in asked} == {"pending"}
        assert len(set(ids)) == 5
        assert (ids[4], ids[0]) == (ids[5], ids[6])
        assert sorted(await waiting(gateways[0])) == sorted(set(ids))


async def test_an_end_that_nobody_read_is_told_to_an_equal_call_and_once_read_it_is_another(
    tmp_path: Path, redis: RedisServer | None
) -> None:
    async with play(tmp_path, redis) as (urls, seen, gateways):
        peer = await peer_of(OldPeer, urls[0])
        call_id = id_of(text(await peer.ask("tools/call", **ASKED)))
        await approve(gateways[0], call_id)
        await ended(gateways[1], call_id)
        for url in urls:
            said = text(await (await peer_of(Peer, url)).ask("tools/call", **ASKED))
            assert said.startswith('{"ok":true}')
            assert line_names(said, f" already ran as {call_id}", "not made again")
        async with http(urls[1]) as client:
            told = await at_rest(client, ASKED)
            assert (told["call_id"], told["meta"]["joined"], told["data"]) == (call_id, True, {"ok": True})
        assert len(seen.requests) == 1
        await read(peer, call_id=call_id)
        another = id_of(text(await peer.ask("tools/call", **ASKED)))
        assert another != call_id
        await approve(gateways[1], another, yes=False)
        await ended(gateways[0], another)
        assert text(await peer.ask("tools/call", **ASKED)).startswith("approval_denied:")  # and nobody is asked again
        assert await waiting(gateways[0]) == []


async def test_after_a_minute_it_is_another_call(
    tmp_path: Path, redis: RedisServer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_calls, "JOINED_S", 0.0)

    async with play(tmp_path, redis) as (urls, _, gateways):
        peer = await peer_of(OldPeer, urls[0])
        call_id = id_of(text(await peer.ask("tools/call", **ASKED)))
        await approve(gateways[0], call_id)
        await ended(gateways[0], call_id)
        assert id_of(text(await peer.ask("tools/call", **ASKED))) != call_id


@pytest.mark.parametrize("after", ["0s", "300ms"])
async def test_twenty_equal_calls_at_once_are_carried_out_once_where_they_become_pending(
    tmp_path: Path, redis: RedisServer | None, after: str
) -> None:
    async with play(tmp_path, redis, pending_after=after) as (urls, seen, gateways):
        seen.answers.clear()
        ids = await everywhere(urls, MAIL)
        assert (len(ids), len(set(ids))) == (20, 1)
        assert set(await everywhere(urls, MAIL)) == set(ids)
        seen.answers.set()
        await ended(gateways[0], ids[0])
        assert len(seen.requests) == 1
        logs = {gateway.settings.audit_dir for gateway in gateways}
        events = [one["event"] for log in logs for one in entries(log) if one.get("call_id") == ids[0]]
        assert sorted(events) == ["intent", "outcome"]


async def test_equal_calls_whose_callers_wait_are_all_carried_out(tmp_path: Path, redis: RedisServer | None) -> None:
    for number, settings in enumerate(({}, {"pending_after": "1h"})):
        async with play(tmp_path / str(number), redis, **settings) as (urls, seen, _):
            async with http(urls[0]) as one, http(urls[1]) as two:
                made = await asyncio.gather(*(at_rest(client, MAIL) for client in (one, two, one, two)))
            assert {(call["status"], "joined" in call["meta"]) for call in made} == {("ok", False)}
            assert len(seen.requests) == 4


@pytest.mark.parametrize("way", [Peer, OldPeer, None])
async def test_a_client_that_disconnects_finds_its_call_by_asking_again(
    tmp_path: Path, redis: RedisServer | None, way: type[Peer] | None
) -> None:
    async with play(tmp_path, redis) as (urls, seen, gateways):
        seen.answers.clear()
        if way is None:
            leaver = http(urls[0])
            first = asyncio.create_task(at_rest(leaver, MAIL))
        else:
            peer = await peer_of(way, urls[0])
            leaver = peer.http
            first = asyncio.create_task(peer.ask("tools/call", **MAIL))
        await asyncio.to_thread(seen.reached, 1)
        first.cancel()  # which closes its connection
        await asyncio.gather(first, return_exceptions=True)
        await leaver.aclose()
        again = await peer_of(Peer, urls[0])
        while not (known := json.loads(text(await read(again)))["calls"]):  # noqa: ASYNC110 - until the gateway saw it
            await asyncio.sleep(0.01)
        said = text(await again.ask("tools/call", **MAIL))
        call_id = id_of(said)
        assert said.startswith(f"deferred: the same call, {call_id}, is already waiting")
        assert [one["call_id"] for one in known] == [call_id]
        assert id_of(text(await (await peer_of(OldPeer, urls[1])).ask("tools/call", **MAIL))) == call_id
        seen.answers.set()
        await ended(gateways[1], call_id)
        async with http(urls[1]) as client:
            told = await at_rest(client, MAIL)
            assert (told["call_id"], told["data"], told["meta"]["joined"]) == (call_id, {"ok": True}, True)
            assert len(seen.requests) == 1
            keyed = await at_rest(client, MAIL, idempotency_key="new")
        assert keyed["call_id"] != call_id
        assert len(seen.requests) == 2


async def test_a_repetition_in_the_same_moment_finds_the_call_too(tmp_path: Path, redis: RedisServer | None) -> None:
    async with play(tmp_path, redis) as (urls, seen, _):
        seen.answers.clear()
        async with http(urls[0]) as one, http(urls[0]) as two:
            first = asyncio.create_task(at_rest(one, MAIL))
            await asyncio.to_thread(seen.reached, 1)
            await two.get("/v1/tools")  # it has a connection
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            assert (await at_rest(two, MAIL, wait=0))["status"] == "pending"
        assert len(seen.requests) == 1


async def test_reads_run_again(tmp_path: Path, redis: RedisServer | None) -> None:
    async with play(tmp_path, redis, pending_after="0s") as (urls, seen, _):
        seen.answers.clear()
        read_ = {"name": "orders__get_health", "arguments": {}}
        async with http(urls[0]) as one:
            ids = [(await at_rest(one, read_))["call_id"] for _ in range(2)]
        assert len(set(ids)) == 2
        await asyncio.to_thread(seen.reached, 2)


async def test_what_stands_in_redis_makes_no_call_join_another(tmp_path: Path) -> None:
    """Whoever can write in Redis names a call that another one is to be taken for."""
    server = RedisServer(tmp_path)
    server.start()

    try:
        async with play(tmp_path, server) as (urls, seen, gateways):
            async with http(urls[0]) as one:
                waits = (await at_rest(one, ASKED, wait=0))["call_id"]
                connection = gateways[0].approvals.calls.equal_calls
                assert connection is not None
                names: list[str] = []

                found = connection.find

                async def find(name: str) -> Any:
                    names.append(name)
                    await connection.hold(name, waits, 60)
                    return await found(name)

                connection.find = find  # type: ignore[method-assign]
                assert (await at_rest(one, MAIL))["status"] == "ok"
            assert len(names) > 1
            assert len(seen.requests) == 1
    finally:
        server.stop()
