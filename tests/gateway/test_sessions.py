"""Rules about earlier calls, in a running gateway: a check before a refund, a ceiling over a session, a label that closes the way out."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import PRINCIPALS, Upstream, project, upstream, write_policy
from tests.projects import audit_entries
from tests.redis_server import RedisServer
from toolgen.frontends.python.gateway import Gateway

EVERYTHING = {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}
CHECKED = {
    "id": "checked",
    "to": ["bot"],
    "tools": ["orders__create_order"],
    "verdict": "deny",
    "when": "!session.called('orders__check_fraud')",
}
CEILING = {
    "id": "ceiling",
    "to": ["bot"],
    "tools": ["orders__create_order"],
    "verdict": "deny",
    "when": "session.sum('orders__create_order', 'amount_cents') + args.amount_cents > 100",
}  # fmt: skip
PRIVATE = {"tools": ["orders__list_orders"], "add": ["private"]}
EGRESS = {
    "id": "egress",
    "to": ["bot"],
    "tools": ["orders__send_mail"],
    "verdict": "ask",
    "when": "'private' in session.labels",
}
Ask = Callable[..., Awaitable[str]]
_where: dict[str, str] = {}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True, params=["memory", "redis"])
def _state(request: pytest.FixtureRequest, redis: RedisServer) -> None:
    """Every test of this file, counted in the process and counted in Redis."""
    prefix = secrets.token_hex(4)
    _where["state"] = "memory" if request.param == "memory" else f"redis://127.0.0.1:{redis.port}/0?prefix={prefix}"


@asynccontextmanager
async def scenario(root: Path, policy: dict[str, Any]) -> AsyncIterator[tuple[Ask, Gateway, Upstream]]:
    with upstream() as (seen, server):
        path = project(root / "p", server, policy, gateway={"turn_limit": "never"}, **_where)
        async with Gateway.load(path) as gateway:

            async def ask(tool: str, session: str = "s", who: str = "bot", **arguments: Any) -> str:
                envelope = await gateway.call(f"orders__{tool}", arguments, principal=who, session=session)
                return envelope.status

            yield ask, gateway, seen


def create(ask: Ask, cents: int, **more: Any) -> Awaitable[str]:
    return ask("create_order", tenant_id="acme", amount_cents=cents, **more)


async def test_only_after_a_check_that_succeeded_in_this_session(tmp_path: Path) -> None:
    async with scenario(tmp_path, {"rules": [EVERYTHING, CHECKED]}) as (ask, gateway, seen):
        assert await create(ask, 5) == "refused"
        seen.status = 500
        assert await ask("check_fraud") == "error"
        assert await create(ask, 5) == "refused"
        seen.status = 200
        await gateway.preview("orders__check_fraud", {}, principal="bot")
        assert await create(ask, 5) == "refused"
        assert await ask("check_fraud", session="other") == "ok"
        assert await ask("check_fraud", session="") == "ok"
        assert await ask("check_fraud", who="bare") == "ok"
        assert await create(ask, 5) == "refused"
        assert await ask("check_fraud") == "ok"
        assert await create(ask, 5) == "ok"
        assert await create(ask, 5, session="other") == "ok"
        assert await create(ask, 5, session="") == "refused"


async def test_a_ceiling_holds_against_calls_in_flight(tmp_path: Path) -> None:
    async with scenario(tmp_path, {"rules": [EVERYTHING, CEILING]}) as (ask, _, seen):
        answers = await asyncio.gather(*[create(ask, 40) for _ in range(10)])
        assert sorted(answers) == ["ok"] * 2 + ["refused"] * 8
        assert await create(ask, 21) == "refused"
        assert await create(ask, 20) == "ok"
        assert await create(ask, 1) == "refused"
        assert len(seen.requests) == 3


async def test_a_refused_call_is_not_in_the_sum(tmp_path: Path) -> None:
    async with scenario(tmp_path, {"rules": [EVERYTHING, CEILING]}) as (ask, _, _):
        assert await ask("create_order", amount_cents=90) == "refused"  # the tenant is missing
        assert await create(ask, 90) == "ok"


async def test_what_was_read_closes_the_way_out_and_is_recorded(tmp_path: Path) -> None:
    async with scenario(tmp_path, {"rules": [EVERYTHING, EGRESS], "labels": [PRIVATE]}) as (ask, gateway, seen):
        assert await ask("send_mail", to="x") == "ok"
        assert await ask("list_orders", tenant_id="acme") == "ok"
        assert await ask("send_mail", to="x") in {"cancelled", "pending"}
        assert audit_entries(gateway)[0]["labels"] == ["private"]
        assert await ask("send_mail", to="x", session="another") == "ok"  # why `history` exists
        assert [path for _, path, _ in seen.requests] == ["/mail", "/orders?tenant_id=acme", "/mail"]


async def test_an_agent_that_changes_its_session_does_not_shed_its_history(tmp_path: Path) -> None:
    rule = {**EGRESS, "when": "'private' in history.labels"}
    async with scenario(tmp_path, {"rules": [EVERYTHING, rule], "labels": [PRIVATE]}) as (ask, _, _):
        assert await ask("list_orders", tenant_id="acme") == "ok"
        for session in ("another", "", "s"):
            assert await ask("send_mail", to="x", session=session) in {"cancelled", "pending"}
        assert await ask("send_mail", to="x", who="bare") == "ok"


async def test_history_survives_a_new_policy(tmp_path: Path) -> None:
    async with scenario(tmp_path, {"rules": [EVERYTHING]}) as (ask, gateway, _):
        assert await ask("check_fraud") == "ok"
        write_policy(tmp_path / "p", {"rules": [EVERYTHING, CHECKED]})
        assert await gateway.operations.reload()
        # For others calls are counted from when a policy asks: docs/reference/policy.md.
        assert await create(ask, 5) == ("ok" if _where["state"] == "memory" else "refused")
        assert await ask("check_fraud") == "ok"
        write_policy(tmp_path / "p", {"rules": [EVERYTHING, CHECKED, CEILING]})
        assert await gateway.operations.reload()
        assert await create(ask, 5) == "ok"
        assert await create(ask, 5, session="t") == "refused"


@pytest.mark.parametrize("verdict", ["deny", "ask"])
async def test_what_was_forgotten_closes(tmp_path: Path, verdict: str) -> None:
    async with scenario(tmp_path, {"rules": [EVERYTHING, {**EGRESS, "verdict": verdict}], "labels": [PRIVATE]}) as (
        ask,
        gateway,
        _,
    ):
        if _where["state"] != "memory":
            pytest.skip("nothing is pushed out in Redis")
        for number in range(1_002):
            gateway._runtime.histories.begin(f"c{number}", "bot", f"s{number}", "orders__send_mail", {}, ())
            gateway._runtime.histories.end(f"c{number}", "ok")
        assert await ask("send_mail", to="x", session="s0") in {"refused", "cancelled", "pending"}
        assert await ask("send_mail", to="x", session="s900") == "ok"
        assert next(e for e in audit_entries(gateway) if e["event"] == "decision")["status"] == "unevaluated"


def test_policies_test_their_own_sessions(tmp_path: Path) -> None:
    check = {"call": "orders__check_fraud"}
    tests: list[dict[str, Any]] = [
        {"expect": "deny", "rule": "checked"},
        {"expect": "allow", "after": [check]},
        {"expect": "deny", "after": [{**check, "outcome": "failed"}]},
        {"expect": "deny", "after": [{**check, "outcome": "running"}]},
        {"expect": "deny", "after": [{**check, "session": False}]},
        {"expect": "deny", "after": [check, {"call": "orders__create_order", "arguments": {"amount_cents": 96}, "outcome": "running"}]},
        {"expect": "deny", "after": [check], "at": "2027-01-31T23:00:00Z", "rule": "night"},
        {"expect": "allow", "after": [check], "at": "2027-01-31T12:00:00Z"},
    ]  # fmt: skip
    night = {
        "id": "night",
        "to": ["bot"],
        "tools": ["orders__create_order"],
        "verdict": "deny",
        "when": "now.getHours() > 21",
    }
    noon = {"at": "2027-01-31T12:00:00Z", "as": "bot", "call": "orders__create_order", "arguments": {"amount_cents": 5}}
    policy = {"rules": [EVERYTHING, CHECKED, CEILING, night], "tests": [{**noon, **test} for test in tests]}
    gateway = Gateway.load(project(tmp_path / "p", "http://127.0.0.1:9", policy))
    assert [
        result.to_dict() for result in asyncio.run(gateway.current.compiled_policy.check()) if not result.passed
    ] == []


async def test_a_user_is_asked_about_its_own_calls_whoever_made_them_for_it(tmp_path: Path) -> None:
    """Two agents and the user itself share what the user may do; what an agent did for others is not held against the user."""
    agents = {
        name: {**PRINCIPALS["bot"], "api_key": "sha256:" + number * 64} for name, number in (("bot", "1"), ("two", "2"))
    }
    few = {
        "id": "few",
        "to": ["user"],
        "tools": ["orders__check_fraud"],
        "verdict": "allow",
        "when": "history.count('orders__check_fraud') < 3",
    }
    agent = {"id": "agents", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}

    with upstream() as (_, server):
        policy = {"principals": {**PRINCIPALS, **agents}, "rules": [few, agent]}
        path = project(tmp_path / "p", server, policy)
        async with Gateway.load(path) as gateway:

            async def tried(who: str, user: str | None = None) -> str:
                made = await gateway.call("orders__check_fraud", {}, principal=gateway.principal(who, user))
                return made.status

            found = [
                *[await tried("bot", "ann") for _ in range(2)],
                *[await tried("bot", "eve") for _ in range(2)],
                await tried("two", "ann"),
                await tried("two", "ann"),
                await tried("ann"),
                await tried("bot", "eve"),
                await tried("bot", "eve"),
            ]
    assert found == ["ok", "ok", "ok", "ok", "ok", "refused", "refused", "ok", "refused"]
