"""Two gateways over one Redis: a call is made at one, fetched and answered at the other, and each answer counts once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.exhaustive import size
from tests.gateway.devices import ALLOW, HERE, Served, device_project, recorded
from tests.redis_server import RedisServer
from toolgen.config.settings import load as load_settings
from toolgen.gateway import device_calls
from toolgen.gateway.project_files import seal_file
from toolgen.state.encryption import seal_of

COUNT = size("TOOLGEN_DEVICE_CALLS", 100, 1_000)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


def machines(root: Path, server: RedisServer, policy: dict[str, Any] = ALLOW) -> tuple[Path, Path]:
    """The same project on two machines: all its files are copies."""
    first = device_project(root / "m0", policy, state=f"redis://127.0.0.1:{server.port}/0")
    seal_of(seal_file(load_settings(first)))
    shutil.copytree(first.parent, root / "m1")
    return first, root / "m1" / first.name


Work = Callable[[Served, Served], Awaitable[None]]


def both(root: Path, server: RedisServer, work: Work, policy: dict[str, Any] = ALLOW) -> list[dict[str, Any]]:
    """What the records of both say."""
    one, two = machines(root, server, policy)

    async def main() -> None:
        async with asyncio.timeout(240), Served(one) as first, Served(two) as second:
            await work(first, second)

    asyncio.run(main())
    return recorded(one) + recorded(two)


def test_a_device_at_one_gateway_answers_a_call_at_the_other(tmp_path: Path, server: RedisServer) -> None:
    async def work(first: Served, second: Served) -> None:
        async with asyncio.TaskGroup() as group:
            poll = group.create_task(second.get("/v1/device/requests?wait=60", "ann"))
            call = group.create_task(first.call("phone__get_location", {"reason": "x"}, wait=100))
            (shown,) = (await poll).json()["requests"]
            assert (await second.answer(shown["request"]["id"], result=HERE)).status_code == 200
        assert call.result()["data"]["owner"] == "Ann"
        assert (await second.outcome(call.result()["call_id"]))["status"] == "ok"
        assert await first.requests() == []

    both(tmp_path, server, work)


def test_of_many_answers_at_both_gateways_one_counts(tmp_path: Path, server: RedisServer) -> None:
    async def work(first: Served, second: Served) -> None:
        for _ in range(5):
            call_id = await first.asked()
            answers = await asyncio.gather(
                *(place.answer(call_id, result=HERE) for _ in range(5) for place in (first, second))
            )
            assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9

    record = both(tmp_path, server, work)
    assert sum(entry["event"] == "outcome" and entry["status"] == "ok" for entry in record) == 5
    assert sum(entry["event"] == "refusal" and entry["code"] == "conflict" for entry in record) == 45


def test_an_approved_call_goes_to_the_device_over_either_gateway(tmp_path: Path, server: RedisServer) -> None:
    policy = {
        "rules": [{"id": "asks", "to": ["user"], "tools": ["phone__copy_text"], "verdict": "ask"}],
        "approvals": {"approvers": ["bot"]},
    }

    async def work(first: Served, second: Served) -> None:
        call_id = (await first.call("phone__copy_text", {"text": "x"}))["call_id"]
        approved = await second.post(f"/v1/approvals/{call_id}", "bare", {"decision": "approve"})
        assert approved.status_code == 200, approved.text
        poll = await second.get("/v1/device/requests?wait=60", "ann")
        assert [one["request"]["id"] for one in poll.json()["requests"]] == [call_id]
        assert (await second.answer(call_id, result=None)).status_code == 200
        assert (await first.outcome(call_id))["status"] == "ok"

    both(tmp_path, server, work, policy)


def test_what_is_put_back_in_redis_is_answered_no_second_time_and_nothing_of_it_can_be_read_there(
    tmp_path: Path, server: RedisServer
) -> None:
    one, _ = machines(tmp_path, server)

    async def main() -> None:
        redis = Redis(host="127.0.0.1", port=server.port)
        async with asyncio.timeout(240):
            async with Served(one) as first:
                call_id = await first.asked(reason="a secret reason")
                name = f"toolgen:calls:call:{call_id}"
                kept = await redis.dump(name)
                assert (await first.answer(call_id, result=HERE)).status_code == 200
                for key in await redis.keys("*"):
                    assert b"secret reason" not in (await redis.dump(key) or b"")
            await redis.restore(name, 0, kept, replace=True)
            async with Served(one) as first:
                refused = await first.answer(call_id, result={**HERE, "owner": "another"})
                assert refused.status_code == 409  # it ended before
        await redis.aclose()

    asyncio.run(main())
    assert sum(entry["event"] == "outcome" and entry["status"] == "ok" for entry in recorded(one)) == 1


@pytest.mark.sweep
def test_many_calls_wait_at_once_and_each_is_answered_at_the_other_gateway(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_calls, "MAX_EACH", 2_000)

    async def work(first: Served, second: Served) -> None:
        made = await asyncio.gather(
            *(first.gateway.call("phone__get_location", {"reason": f"{n}"}, principal="ann") for n in range(COUNT))
        )
        calls = {envelope.call_id for envelope in made}
        assert {envelope.status for envelope in made} == {"pending"}
        assert len(calls) == COUNT
        async with second.http("ann") as device, first.http("ann") as caller:
            shown = (await device.get("/v1/device/requests")).json()["requests"]
            assert {one["request"]["id"] for one in shown} == calls
            for call_id in calls:
                message = {"jsonrpc": "2.0", "id": call_id, "result": {**HERE, "owner": call_id}}
                assert (await device.post("/v1/tool-messages", json=message)).status_code == 200
            for call_id in sorted(calls)[::10]:
                assert (await caller.get(f"/v1/calls/{call_id}")).json()["data"]["owner"] == call_id
            assert (await device.get("/v1/device/requests")).json()["requests"] == []

    record = both(tmp_path, server, work)
    assert sum(entry["event"] == "outcome" and entry["status"] == "ok" for entry in record) == COUNT
