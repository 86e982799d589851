"""State that survives each fault: a test for each row of docs/reference/shared-state.md, of calls, keys, limits and histories together."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import patient
from tests.cli.commands import Run, runner
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.test_lost_state import (
    LEASE_S,
    Copies,
    accepted,
    approve,
    approved,
    losses,
    outcomes,
    over_redis,
    told,
)
from tests.gateway.test_shared_calls import ask
from tests.patient import until
from tests.redis_server import RedisServer
from tests.served_workers import Served, serving
from tests.served_workers import until as so
from toolgen.audit import segment
from toolgen.audit.reader import entries
from toolgen.core.errors import AuditError, StateError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.operations import approval_runner, background_calls, waiting_calls
from toolgen.gateway.state.shared_state import seal_file
from toolgen.pipeline.stages import idempotency
from toolgen.state import store_watch
from toolgen.state.encryption import seal_of

pytestmark = pytest.mark.redis_times_out

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"},
        {"id": "reads", "to": ["bot"], "tools": ["orders__get_health", "orders__list_orders"], "verdict": "allow"},
        {"id": "writes", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "allow"},
        {
            "id": "often",
            "to": ["bot"],
            "tools": ["orders__list_orders"],
            "verdict": "deny",
            "when": "history.count('orders__list_orders') > 1",
        },
    ],
    "approvals": {"approvers": ["user"], "expires": "1h"},
    "limits": [{"id": "few", "per": ["principal"], "rate": "4/h", "cost": {"orders__get_health": 1, "*": 0}}],
}
ORDER = {"tenant_id": "acme", "amount_cents": 1}
BOT, EVE = ({"authorization": f"Bearer key-of-{name}"} for name in ("bot", "eve"))


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (approval_runner, background_calls, waiting_calls, idempotency, store_watch):
        monkeypatch.setattr(module, "LEASE_S", LEASE_S)


async def code(gateway: Gateway, tool: str, arguments: dict[str, Any] | None = None, key: str = "") -> str:
    """How a call ends: its code, or else its status."""
    answer = await gateway.call(tool, arguments or {}, principal="bot", idempotency_key=key)
    return answer.status if answer.error is None else answer.error.code


async def health(gateway: Gateway, times: int) -> list[str]:
    return [await code(gateway, "orders__get_health") for _ in range(times)]


async def listing(gateway: Gateway, times: int) -> list[str]:
    return [await code(gateway, "orders__list_orders", {"tenant_id": "acme"}) for _ in range(times)]


async def order(gateway: Gateway, key: str = "k") -> str:
    return await code(gateway, "orders__create_order", ORDER, key)


def orders(seen: Upstream) -> int:
    return sum((method, path) == ("POST", "/orders") for method, path, _ in seen.requests)


async def finally_told(gateway: Gateway, call_id: str) -> str:
    """How a call ended. A gateway that did not take it on may not know it until its own has put it back."""
    async with asyncio.timeout(60):
        while True:
            with suppress(StateError):
                if await gateway.approvals.calls.outcome(call_id, gateway.principal("bot"), tells=False) is not None:
                    return await told(gateway, call_id)
            await asyncio.sleep(0.02)


class Begun:
    """Two gateways with a call that is carried out at the second, one that waits at the first, and a key, a limit and a history in use."""

    def __init__(self, first: Gateway, second: Gateway, seen: Upstream, copies: Copies) -> None:
        self.first, self.second, self.seen, self.copies = first, second, seen, copies
        self.waiting = self.running = ""
        self.copy: dict[bytes, tuple[bytes, int]] = {}

    async def begin(self) -> None:
        self.waiting, self.running = await ask(self.first), await ask(self.second)
        self.copy = await self.copies.take()
        assert await order(self.first) == "ok"
        assert await health(self.first, 2) == ["ok"] * 2
        assert await listing(self.first, 1) == ["ok"]
        self.seen.answers.clear()
        sent = len(self.seen.requests)
        await accepted(approve, self.first, self.running)
        await asyncio.to_thread(self.seen.reached, sent + 1)

    async def lost(self) -> None:
        await until(lambda: losses(self.first) and losses(self.second))

    async def end(self, waiting: str, key: str, spent: list[str], listed: list[str]) -> None:
        """What has become of each: the running call ended once, as it did."""
        self.seen.answers.set()
        gateways = [self.second, self.first]
        assert [await finally_told(gateway, self.running) for gateway in gateways] == ["ok"] * 2
        assert outcomes(gateways, self.running) == ["ok"]
        if waiting == "ok":
            async with asyncio.timeout(60):
                while not await approved(self.second, self.waiting):  # noqa: ASYNC110 - nobody tells that an answer counts again
                    await asyncio.sleep(0.05)
        assert [await finally_told(gateway, self.waiting) for gateway in gateways] == [waiting] * 2
        assert outcomes(gateways, self.waiting) == [waiting]
        assert await order(self.first) == key
        assert orders(self.seen) == 1
        assert await health(self.first, 3) == spent
        assert await listing(self.first, 2) == listed


USED_UP, NO_ANSWER = ["rate_limited"] * 3, ["forbidden"] * 2


@pytest.mark.usefixtures("short_leases")
async def test_what_survives_a_redis_that_is_away_for_a_while(tmp_path: Path, server: RedisServer) -> None:
    async with over_redis(tmp_path, server, POLICY) as (first, second, seen, copies):
        begun = Begun(first, second, seen, copies)
        await begun.begin()
        await copies.redis.client_pause(int(3000 * LEASE_S))
        assert await health(first, 1) == ["upstream_unavailable"]
        async with asyncio.timeout(60):
            while await order(first) == "upstream_unavailable":  # noqa: ASYNC110 - until Redis is back
                await asyncio.sleep(0.05)
        await begun.end("ok", "ok", ["ok", "ok", "rate_limited"], ["ok", "forbidden"])


@pytest.mark.usefixtures("short_leases")
async def test_what_survives_a_redis_that_comes_back_with_an_older_copy(tmp_path: Path, server: RedisServer) -> None:
    async with over_redis(tmp_path, server, POLICY) as (first, second, seen, copies):
        begun = Begun(first, second, seen, copies)
        await begun.begin()
        await copies.put_back(begun.copy)
        await begun.lost()
        await begun.end("ok", "outcome_unknown", USED_UP, NO_ANSWER)


@pytest.mark.usefixtures("short_leases")
async def test_what_survives_a_redis_that_is_emptied(tmp_path: Path, server: RedisServer) -> None:
    async with over_redis(tmp_path, server, POLICY) as (first, second, seen, copies):
        begun = Begun(first, second, seen, copies)
        over = await ask(first)
        await accepted(approve, second, over)
        assert await told(second, over) == "ok"
        await begun.begin()
        await copies.redis.flushall()
        await begun.lost()
        await begun.end("expired", "outcome_unknown", USED_UP, NO_ANSWER)
        assert [await finally_told(gateway, over) for gateway in (first, second)] == [
            "ok"
        ] * 2  # how it ended was put back


async def test_what_survives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with upstream() as (seen, url):
        path = project(tmp_path / "p", url, POLICY)
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            waiting = await ask(gateway)
            assert await order(gateway, "before") == "ok"
            assert await health(gateway, 2) == ["ok"] * 2
            assert await listing(gateway, 1) == ["ok"]
            seen.answers.clear()
            running = asyncio.create_task(order(gateway, "meanwhile"))
            await asyncio.to_thread(seen.reached, 5)
            with monkeypatch.context() as patch:
                patch.setattr(segment, "_sync_content", full)
                sent = len(seen.requests)
                seen.answers.set()
                assert await running == "outcome_unknown"
                assert await order(gateway, "new") == "audit_unavailable"
                with pytest.raises(AuditError):
                    await approve(gateway, waiting)
                assert await told(gateway, waiting, 0) == "approval_required"
                assert len(seen.requests) == sent
            async with asyncio.timeout(60):
                while await order(gateway, "before") != "ok":  # noqa: ASYNC110 - until the record is written again
                    await asyncio.sleep(0.05)
            assert await approved(gateway, waiting)
            assert await told(gateway, waiting) == "ok"
            assert await order(gateway, "meanwhile") == "ok"  # which its key knows
            assert orders(seen) == 2
            assert await health(gateway, 3) == ["ok", "ok", "rate_limited"]
            assert await listing(gateway, 2) == ["ok", "forbidden"]


async def test_what_survives_a_restore(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    toolgen: Run = runner(capfdbinary)

    with upstream() as (seen, url):
        path = project(tmp_path / "p", url, POLICY)
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            assert await order(gateway, "kept") == "ok"
            assert await health(gateway, 5) == ["ok"] * 4 + ["rate_limited"]
            waiting, over = await ask(gateway), await ask(gateway)
        assert toolgen("backup", str(tmp_path / "b"), "--config", str(path)).code == 0
        call_id = over
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            await approve(gateway, call_id)
            assert await told(gateway, call_id) == "ok"
            assert await order(gateway, "new") == "ok"
        (path.parent / "var" / "state").rename(tmp_path / "old")
        restored = toolgen("restore", str(tmp_path / "b"), "--config", str(path))
        assert restored.code == 0, restored.err
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            assert await told(gateway, over) == "outcome_unknown"
            assert await told(gateway, waiting, 0) == "approval_required"
            sent = orders(seen)
            assert [await order(gateway, key) for key in ("kept", "new")] == ["ok"] * 2
            assert orders(seen) == sent + 1  # the backup does not have the other key
            assert await health(gateway, 5) == ["ok"] * 4 + ["rate_limited"]
    assert [entry["status"] for entry in entries(path.parent / "var" / "audit") if _ends(entry, over)] == ["ok"]


def _ends(entry: dict[str, Any], call_id: str) -> bool:
    return entry.get("call_id") == call_id and entry["event"] == "outcome" and entry["status"] != "pending"


class Client:
    """The bot, and what it is told by a gateway in a process."""

    def __init__(self, url: str) -> None:
        self._url = url

    def post(self, tool: str, arguments: dict[str, Any] | None = None, **body: Any) -> httpx.Response:
        made = {"arguments": arguments or {}, **body}
        return patient.post(f"{self._url}/v1/tools/orders__{tool}/call", json=made, headers=BOT)

    def leave(self, tool: str, arguments: dict[str, Any] | None = None, **body: Any) -> str:
        """The id of a call that waits, or runs on."""
        answer = self.post(tool, arguments, wait=0, **body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["call_id"])

    def told(self, call_id: str) -> str:
        answer = patient.get(f"{self._url}/v1/calls/{call_id}", headers=BOT).json()
        return str(answer.get("error", {}).get("code", answer["status"]))

    def health(self, times: int) -> list[int]:
        return [self.post("get_health").status_code for _ in range(times)]

    def approve(self, call_id: str) -> int:
        answer = patient.post(f"{self._url}/v1/approvals/{call_id}", json={"decision": "approve"}, headers=EVE)
        return answer.status_code

    def listing(self, times: int) -> list[int]:
        return [self.post("list_orders", {"tenant_id": "acme"}).status_code for _ in range(times)]


def begun(client: Client, seen: Upstream) -> tuple[str, str, str]:
    """Ids of a call that waits for a person, of one that reads and of one that writes, with limit, key and history in use."""
    waiting = client.leave("send_mail", {"to": "x"})
    assert client.health(2) == [200] * 2
    assert client.listing(1) == [200]
    seen.answers.clear()
    writing = client.leave("create_order", ORDER, idempotency_key="k")
    reading = client.leave("list_orders", {"tenant_id": "acme", "status": "open"})
    seen.reached(5)
    return waiting, reading, writing


def assert_ended_by_effect(client: Client, seen: Upstream, reading: str, writing: str, *, others: bool = False) -> None:
    """`others`: another gateway may have ended them, which cannot know what was on record of a call that reads."""
    so(lambda: client.told(reading) != "deferred")
    assert client.told(reading) in ({"cancelled", "outcome_unknown"} if others else {"cancelled"})
    so(lambda: client.told(writing) != "deferred")
    assert client.told(writing) == "outcome_unknown"
    seen.answers.set()
    repeated = client.post("create_order", ORDER, idempotency_key="k").json()
    assert (repeated["error"]["code"], repeated["call_id"]) == ("outcome_unknown", writing)
    assert orders(seen) == 1


def assert_carried_out(client: Client, waiting: str) -> None:
    so(lambda: client.told(waiting) not in {"approval_required", "deferred"})
    assert client.told(waiting) == "ok"


def kill(served: Served, *, workers_alone: bool) -> None:
    old = served.workers()
    if not workers_alone:
        served.process.kill()
        served.process.wait()
    for worker in old:
        try:
            os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:
            assert not workers_alone  # it ends by itself
    if workers_alone:
        so(lambda: len(served.workers()) == 2 and not {*old} & {*served.workers()})


def _state(redis: RedisServer | None) -> str:
    return "memory" if redis is None else f"redis://127.0.0.1:{redis.port}/0"


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.exhaustive)])
def place(request: pytest.FixtureRequest) -> RedisServer | None:
    return request.getfixturevalue("server") if request.param == "redis" else None


def test_what_survives_the_kill_of_workers(tmp_path: Path, place: RedisServer | None) -> None:
    with upstream() as (seen, url):
        path = project(tmp_path / "p", url, POLICY, state=_state(place))
        with serving(path, "--workers", "2") as served:
            client = Client(served.url)
            waiting, reading, writing = begun(client, seen)
            kill(served, workers_alone=True)
            assert_ended_by_effect(client, seen, reading, writing)
            assert client.told(waiting) == "approval_required"
            assert client.approve(waiting) == 200
            assert_carried_out(client, waiting)
            assert client.health(3) == [200, 200, 429]
            assert client.listing(1) == [403]  # the one that was under way counts too
            assert served.end() == 0


def test_what_survives_the_kill_of_a_gateway(tmp_path: Path, place: RedisServer | None) -> None:
    async def approve_at_another(path: Path, call_id: str) -> None:
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            until_counted = time.monotonic() + 60
            while not await approved(gateway, call_id):
                assert time.monotonic() < until_counted
                await asyncio.sleep(0.05)
            known = await gateway.approvals.calls.store.get(call_id)
            assert known is not None
            assert known.status == "approved"

    with upstream() as (seen, url):
        path = project(tmp_path / "one", url, POLICY, state=_state(place))
        if place is not None:
            seal_of(seal_file(Gateway.load(path).settings))
            shutil.copytree(path.parent, tmp_path / "two")
        with serving(path, "--workers", "2") as served:
            waiting, reading, writing = begun(Client(served.url), seen)
            kill(served, workers_alone=False)
        if place is not None:
            asyncio.run(approve_at_another(tmp_path / "two" / path.name, waiting))
            assert not any(what == "/mail" for _, what, _ in seen.requests)  # it waits for its own gateway
        with serving(path, "--workers", "2") as served:
            client = Client(served.url)
            assert_ended_by_effect(client, seen, reading, writing, others=place is not None)
            if place is None:
                assert client.told(waiting) == "approval_required"
                assert client.approve(waiting) == 200
            assert_carried_out(client, waiting)
            in_memory = place is None
            assert client.health(5) == ([200] * 4 + [429] if in_memory else [200] * 2 + [429] * 3)
            assert client.listing(1) == ([200] if in_memory else [403])
            assert served.end() == 0
