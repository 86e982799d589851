"""Two gateways over one Redis: a call is made at one, fetched and answered at the other, and each answer counts once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.exhaustive import size
from tests.gateway.devices import ALLOW, HERE, Served, device_project, recorded
from tests.redis_server import RedisServer
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import StateUnavailableError
from toolgen.gateway.operations import approval_runner, background_calls, device_calls, waiting_calls
from toolgen.gateway.state.shared_state import seal_file
from toolgen.pipeline.stages import idempotency
from toolgen.state import store_watch
from toolgen.state.encryption import seal_of
from toolgen.state.invocations_redis import RedisInvocations

ASKS = {
    "rules": [{"id": "asks", "to": ["user"], "tools": ["phone__copy_text"], "verdict": "ask"}],
    "approvals": {"approvers": ["bot"]},
}
COUNT = size("TOOLGEN_DEVICE_CALLS", 100, 1_000)


def machines(root: Path, server: RedisServer, policy: dict[str, Any] = ALLOW) -> tuple[Path, Path]:
    """The same project on two machines: all its files are copies."""
    first = device_project(root / "m0", policy, state=f"redis://127.0.0.1:{server.port}/0")
    seal_of(seal_file(load_settings(first)))
    shutil.copytree(first.parent, root / "m1")
    return first, root / "m1" / first.name


def records(*gateways: Served) -> list[dict[str, Any]]:
    """Entries of the audit logs of gateways, which verify."""
    return [entry for one in gateways for entry in recorded(one.settings)]


@asynccontextmanager
async def both(root: Path, server: RedisServer, policy: dict[str, Any] = ALLOW) -> AsyncIterator[tuple[Served, Served]]:
    """Two gateways that share a Redis."""
    one, two = machines(root, server, policy)

    async with asyncio.timeout(240), Served(one) as first, Served(two) as second:
        yield first, second
    records(first, second)  # they verify


async def test_a_device_at_one_gateway_answers_a_call_at_the_other(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server) as (first, second):
        async with asyncio.TaskGroup() as group:
            poll = group.create_task(second.get("/v1/device/requests?wait=60", "ann"))
            call = group.create_task(first.call("phone__get_location", {"reason": "x"}, wait=100))
            (shown,) = (await poll).json()["requests"]
            assert (await second.answer(shown["request"]["id"], result=HERE)).status_code == 200
        assert call.result()["data"]["owner"] == "Ann"
        assert (await second.outcome(call.result()["call_id"]))["status"] == "ok"
        assert await first.requests() == []


async def test_of_many_answers_at_both_gateways_one_counts(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server) as (first, second):
        for _ in range(5):
            call_id = await first.asked()
            answers = await asyncio.gather(
                *(place.answer(call_id, result=HERE) for _ in range(5) for place in (first, second))
            )
            assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    assert sum(entry["event"] == "outcome" and entry["status"] == "ok" for entry in records(first, second)) == 5
    assert sum(entry["event"] == "refusal" and entry["code"] == "conflict" for entry in records(first, second)) == 45


async def test_an_approved_call_goes_to_the_device_over_either_gateway(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server, ASKS) as (first, second):
        call_id = (await first.call("phone__copy_text", {"text": "x"}))["call_id"]
        approved = await second.post(f"/v1/approvals/{call_id}", "bare", {"decision": "approve"})
        assert approved.status_code == 200, approved.text
        poll = await second.get("/v1/device/requests?wait=60", "ann")
        assert [one["request"]["id"] for one in poll.json()["requests"]] == [call_id]
        assert (await second.answer(call_id, result=None)).status_code == 200
        assert (await first.outcome(call_id))["status"] == "ok"


async def test_an_approved_call_of_which_nobody_knows_whether_it_waits_for_the_device_is_lost_and_asks_nothing(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis was not told that it waits, and can be asked again only after the gateway gave that up."""
    for module in (approval_runner, background_calls, waiting_calls, device_calls, idempotency, store_watch):
        monkeypatch.setattr(module, "LEASE_S", 1.0)
    write, get, tries = RedisInvocations._write, RedisInvocations.get, list[int]()

    async def cut_off(self: RedisInvocations, *arguments: str | bytes) -> Any:
        if arguments[0] == "replace" and arguments[3] == "device pending":
            tries.append(1)
            fault = StateUnavailableError("the connection was lost")
            fault.unconfirmed = True
            raise fault
        return await write(self, *arguments)

    async def away(self: RedisInvocations, call_id: str) -> Any:
        if 0 < len(tries) < device_calls._TRIES:
            tries.append(1)
            raise StateUnavailableError("Redis is away")
        return await get(self, call_id)

    async with both(tmp_path, server, ASKS) as (first, second):
        monkeypatch.setattr(RedisInvocations, "_write", cut_off)
        monkeypatch.setattr(RedisInvocations, "get", away)
        call_id = (await first.call("phone__copy_text", {"text": "x"}))["call_id"]
        approval = partial(second.post, f"/v1/approvals/{call_id}", "bare", {"decision": "approve"})
        while (approved := await approval()).status_code == 503:  # noqa: ASYNC110 - a lease this short may be over
            await asyncio.sleep(0.05)
        assert approved.status_code == 200, approved.text
        for one in (first, second):
            while (told := await one.outcome(call_id))["status"] == "pending":  # noqa: ASYNC110 - others end it
                await asyncio.sleep(0.05)
            assert told["error"]["code"] == "outcome_unknown"
        assert await second.requests() == []
    assert len(tries) >= device_calls._TRIES
    assert ends(records(first, second)) == ["outcome_unknown"]


def ends(record: list[dict[str, Any]]) -> list[str]:
    """How calls ended, other than that they wait."""
    found = [one for one in record if one["event"] == "outcome" or (one["event"] == "decision" and "code" in one)]
    return [str(one.get("code", one["status"])) for one in found if one["status"] != "pending"]


@pytest.mark.parametrize("answered_first", [False, True])
@pytest.mark.parametrize("said", ["nothing", "that it was not"])
async def test_an_approved_call_of_which_redis_says_late_that_it_waits_for_the_device_ends_as_that_answers(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch, said: str, answered_first: bool
) -> None:
    """Redis was told that the call waits for the device, and `said` so too late, or nothing: perhaps the device has answered by then."""
    write, kept, answered = RedisInvocations._write, asyncio.Event(), asyncio.Event()

    async def late(self: RedisInvocations, *arguments: str | bytes) -> Any:
        done = await write(self, *arguments)
        if arguments[0] == "replace" and arguments[3] == "device pending" and not kept.is_set():
            kept.set()
            if answered_first:
                await answered.wait()
            if said == "nothing":
                fault = StateUnavailableError("the connection was lost")
                fault.unconfirmed = True
                raise fault
            return [0]
        return done

    async with both(tmp_path, server, ASKS) as (first, second):
        monkeypatch.setattr(RedisInvocations, "_write", late)
        call_id = (await first.call("phone__copy_text", {"text": "x"}))["call_id"]
        approved = await second.post(f"/v1/approvals/{call_id}", "bare", {"decision": "approve"})
        assert approved.status_code == 200, approved.text
        await kept.wait()
        poll = await second.get("/v1/device/requests?wait=60", "ann")
        assert [one["request"]["id"] for one in poll.json()["requests"]] == [call_id]
        assert (await second.answer(call_id, result=None)).status_code == 200
        answered.set()
        for one in (first, second):
            assert (await one.outcome(call_id))["status"] == "ok"
    assert ends(records(first, second)) == ["ok"]


async def test_what_is_put_back_in_redis_is_answered_no_second_time_and_nothing_of_it_can_be_read_there(
    tmp_path: Path, server: RedisServer
) -> None:
    one, _ = machines(tmp_path, server)

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
    assert sum(entry["event"] == "outcome" and entry["status"] == "ok" for entry in recorded(one)) == 1


@pytest.mark.sweep
async def test_many_calls_wait_at_once_and_each_is_answered_at_the_other_gateway(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_calls, "MAX_EACH", 2_000)

    async with both(tmp_path, server) as (first, second):
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
    assert sum(entry["event"] == "outcome" and entry["status"] == "ok" for entry in records(first, second)) == COUNT
