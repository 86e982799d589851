"""Two workers of one gateway that end the same call: it has one outcome on record, and no question is given up that can be stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import Upstream, upstream
from tests.gateway.test_lost_state import outcomes, set_leases, told
from tests.gateway.test_shared_calls import POLICY, ask, machines
from tests.patient import until
from tests.redis_server import RedisServer
from toolgen.core.errors import StateUnavailableError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.operations import approval_runner
from toolgen.gateway.operations.lost_calls import lost
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.pipeline.middleware import CallerConnection
from toolgen.state.invocations import Invocation
from toolgen.state.invocations_redis import RedisInvocations

pytestmark = pytest.mark.redis_times_out

LEASE_S = 0.5
RULES: dict[str, Any] = {
    **POLICY,
    "rules": [*POLICY["rules"], {"id": "orders", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "allow"}],
}


@asynccontextmanager
async def workers(
    root: Path, server: RedisServer, *, idle: bool = False
) -> AsyncIterator[tuple[Gateway, Gateway, Upstream]]:
    """Two processes of one project in this one. If they are `idle`, nothing is done in the background."""
    with upstream() as (seen, url):
        (path,) = machines(root, server, url, RULES, count=1)
        one, two = (Gateway.load(path) for _ in range(2))
        async with one.short_session() if idle else one as first, two.short_session() if idle else two as second:
            async with asyncio.timeout(120):
                yield first, second, seen
            seen.answers.set()


async def test_a_question_that_one_worker_still_stores_is_not_given_up_by_another(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is so slow for one worker that no answer comes in time, and quick for the other one."""
    set_leases(monkeypatch, LEASE_S)
    monkeypatch.setattr(approval_runner, "_SWEEP_S", 0.1)
    write, missing, slow, swept = (
        RedisInvocations._write,
        RedisInvocations.missing,
        list[RedisInvocations](),
        list[float](),
    )

    async def unanswered(self: RedisInvocations, *arguments: str | bytes) -> Any:
        if self not in slow or arguments[0] not in {"add", "restore"}:
            return await write(self, *arguments)
        fault = StateUnavailableError("no answer in time")
        fault.unconfirmed = True
        raise fault

    async def seen_missing(self: RedisInvocations, before: float) -> tuple[Invocation, ...]:
        found = await missing(self, before)
        if self not in slow:
            swept.append(before)
        return found

    monkeypatch.setattr(RedisInvocations, "_write", unanswered)
    monkeypatch.setattr(RedisInvocations, "missing", seen_missing)
    async with workers(tmp_path, server) as (first, second, _):
        store = first._shared.invocations
        assert isinstance(store, RedisInvocations)
        slow.append(store)
        call_id = await ask(first, "x")
        asked = await store.now()
        await until(lambda: bool(swept) and swept[-1] > asked + 3 * LEASE_S)
        assert outcomes([first], call_id) == []
        slow.clear()
        stored = None
        while stored is None:  # nobody tells that it is stored
            await asyncio.sleep(0.02)
            stored = await second.approvals.calls.store.get(call_id)
        assert (stored.status, stored.arguments) == ("pending", {"to": "x"})
        assert outcomes([first], call_id) == []


async def test_a_question_whose_worker_is_gone_ends_once(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_leases(monkeypatch, LEASE_S)
    monkeypatch.setattr(approval_runner, "_SWEEP_S", 0.1)
    write = RedisInvocations._write

    async def unanswered(self: RedisInvocations, *arguments: str | bytes) -> Any:
        if arguments[0] != "add":
            return await write(self, *arguments)
        fault = StateUnavailableError("no answer in time")
        fault.unconfirmed = True
        raise fault

    monkeypatch.setattr(RedisInvocations, "_write", unanswered)
    async with workers(tmp_path, server, idle=True) as (first, _, _seen):
        call_id = await ask(first)
        async with Gateway.load(first.settings.path) as third, Gateway.load(first.settings.path) as fourth:
            assert [await told(gateway, call_id) for gateway in (third, fourth)] == ["expired"] * 2
        assert outcomes([first], call_id) == ["expired"]


async def running(gateway: Gateway, seen: Upstream) -> Invocation:
    """A call of this worker that runs in the background, and whose lease is over."""
    seen.answers.clear()
    connection = CallerConnection()
    making = gateway.tool_calls.call(
        "orders__create_order", {"tenant_id": "a", "amount_cents": 1}, principal="bot", caller_connection=connection
    )
    answer = await gateway.approvals.background.call(
        "orders__create_order", making, caller=gateway.principal("bot"), wait=0, caller_connection=connection
    )
    assert answer.status == "pending", answer
    store = gateway.approvals.calls.store
    while (known := await store.get(answer.call_id)) is None or known.lease > await store.now():  # noqa: ASYNC110 - time passes
        await asyncio.sleep(0.02)
    return known


@pytest.mark.parametrize("faster", ["its own", "another"])
async def test_two_workers_that_give_a_call_up_record_that_once(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch, faster: str
) -> None:
    """Its own worker, which knows that its question was lost, and another one, which takes that worker for gone as its lease is over."""
    set_leases(monkeypatch, 0.2)
    async with workers(tmp_path, server, idle=True) as (first, second, seen):
        known = await running(first, seen)
        set_leases(monkeypatch, 60.0)
        mine, others = first.approvals.calls, second.approvals.calls
        steps: list[Callable[[], Awaitable[object]]] = [
            lambda: mine.end_forgotten(known),
            lambda: others.give_up(known, verdict="lose", error=lost(known)),
        ]
        if faster == "another":
            steps.reverse()
        await both_at_once(monkeypatch, *steps)
        assert len(outcomes([first], known.id)) == 1
        ended = await others.store.get(known.id)
        assert ended is not None
        assert ended.envelope is not None
        assert ended.envelope["error"]["code"] == outcomes([first], known.id)[0]
        assert await mine.end_forgotten(ended) is not None
        assert len(outcomes([first], known.id)) == 1


async def test_a_call_whose_caller_cancels_it_while_it_is_given_up_has_one_outcome(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stored form is another one when the outcome is stored, so that it is ended again."""
    set_leases(monkeypatch, 0.2)
    async with workers(tmp_path, server, idle=True) as (first, second, seen):
        known = await running(first, seen)
        store = second.approvals.calls.store
        monkeypatch.setattr("toolgen.gateway.operations.background_calls._CALLED_OFF_S", 0.0)

        async def cancelled() -> None:
            await second.approvals.background.cancel(known.id, second.principal("bot"))

        await both_at_once(monkeypatch, lambda: first.approvals.calls.end_forgotten(known), cancelled)
        while (now := await store.get(known.id)) is not None and now.status != "ended":
            await first.approvals.calls.end_forgotten(now)
        assert outcomes([first], known.id) == ["expired"]


@pytest.mark.parametrize("by", ["give_up", "end_forgotten"])
async def test_a_call_is_held_while_its_outcome_is_being_recorded(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """A slow disk keeps the record for longer than a lease."""
    set_leases(monkeypatch, 0.2)
    async with workers(tmp_path, server, idle=True) as (first, second, seen):
        known = await running(first, seen)
        mine, others = first.approvals.calls, second.approvals.calls

        async def taken_over() -> None:
            for _ in range(12):
                now = await others.store.get(known.id)
                assert now is not None
                await others.give_up(now, verdict="lose", error=lost(now))
                await asyncio.sleep(0.05)

        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "give_up": lambda: mine.give_up(known, verdict="lose", error=lost(known)),
            "end_forgotten": lambda: mine.end_forgotten(known),
        }
        await both_at_once(monkeypatch, steps[by], taken_over)
        assert len(outcomes([first], known.id)) == 1


async def both_at_once(
    monkeypatch: pytest.MonkeyPatch, first: Callable[[], Awaitable[object]], second: Callable[[], Awaitable[object]]
) -> None:
    """Runs the second step while the first one is about to record."""
    record, about, done = WaitingCalls.record, asyncio.Event(), asyncio.Event()

    async def paused(self: WaitingCalls, known: Invocation, **fields: Any) -> int:
        if not about.is_set():
            about.set()
            await done.wait()
        return await record(self, known, **fields)

    monkeypatch.setattr(WaitingCalls, "record", paused)
    ending = asyncio.ensure_future(first())
    await about.wait()
    await second()
    done.set()
    await ending
