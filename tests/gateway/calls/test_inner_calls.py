"""Calls that a call makes: each through every stage as itself, for the same caller, and bounded in depth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.gateway.governed import nested, project, upstream, write_policy
from tests.gateway.workflows import record
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.inner_calls import NestedCalls
from toolgen.gateway.calls.nesting import MAX_DEPTH
from toolgen.model.call import Call

HEALTH, LIST, MAIL = "orders__get_health", "orders__list_orders", "orders__send_mail"
RULES = [
    {"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"},
    {"id": "no-mail", "to": ["bot"], "tools": [MAIL], "verdict": "deny"},
]


@asynccontextmanager
async def opened(root: Path, **policy: Any) -> AsyncIterator[tuple[Gateway, NestedCalls, Call, list[Any]]]:
    """Gateway, its calls inside of calls, a call, and what reached the API."""
    with upstream() as (seen, server):
        async with Gateway.load(project(root, server, {"rules": RULES, **policy})) as gateway:
            outer = gateway.current.compiled_policy.call("other__outer", {}, gateway.principal("bot"), "talk", "client")
            yield gateway, nested(gateway), outer, seen.requests


async def test_an_inner_call_is_made_as_itself_and_says_inside_of_which_it_was(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, inner, outer, reached):
        answer: Any = await inner.call(outer, LIST, {"tenant_id": "acme"})
    assert (answer.envelope.status, answer.envelope.data, answer.http_status) == ("ok", {"ok": True}, 200)
    (intent,) = [entry for entry in record(tmp_path) if entry["event"] == "intent"]
    told = {name: intent[name] for name in ("tool", "principal", "parent", "session", "client")}
    assert told == {"tool": LIST, "principal": "bot", "parent": outer.id, "session": "talk", "client": "client"}
    assert [path for _, path, _ in reached] == ["/orders?tenant_id=acme"]


async def test_the_policy_decides_about_an_inner_call_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, inner, outer, reached):
        denied: Any = (await inner.call(outer, MAIL, {"to": "ann"})).envelope
        unknown: Any = (await inner.call(outer, "orders__nothing", {})).envelope
    assert (denied.status, denied.error.code, unknown.error.code) == ("refused", "unknown_tool", "unknown_tool")
    assert [entry["event"] for entry in record(tmp_path)].count("outcome") == 2
    assert reached == []


async def test_an_inner_call_is_decided_by_the_policy_in_force_when_it_is_made(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, inner, outer, reached):
        write_policy(tmp_path, {"rules": [{**RULES[0], "tools": [LIST]}]})
        assert await gateway.operations.reload()
        names = [tool.name for tool in inner.catalog(outer)]
        envelope: Any = (await inner.call(outer, HEALTH, {})).envelope
    assert (names, envelope.error.code, reached) == ([LIST], "unknown_tool", [])


async def test_calls_inside_of_calls_are_limited(tmp_path: Path) -> None:
    policy = {"limits": [{"id": "few", "per": ["principal"], "rate": "2/hour", "burst": 2}]}
    async with opened(tmp_path, **policy) as (_, inner, outer, reached):
        statuses = [(await inner.call(outer, HEALTH, {})).envelope.status for _ in range(3)]
    assert (statuses, len(reached)) == (["ok", "ok", "refused"], 2)


async def test_calls_are_nested_only_so_deep(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, inner, outer, reached):
        last = (await inner.call(replace(outer, ancestry=(LIST,) * (MAX_DEPTH - 1)), HEALTH, {})).envelope
        beyond: Any = (await inner.call(replace(outer, ancestry=(LIST,) * MAX_DEPTH), HEALTH, {})).envelope
    assert (last.status, beyond.status, beyond.error.rule, len(reached)) == ("ok", "refused", "depth", 1)


async def test_what_is_no_json_is_refused_before_anything(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, inner, outer, reached):
        envelope: Any = (await inner.call(outer, LIST, {"tenant_id": float("nan")})).envelope
    assert (envelope.error.code, reached) == ("validation", [])


async def test_what_waits_inside_of_a_call_that_ends_is_not_sent_later(tmp_path: Path) -> None:
    limit = {"id": "one", "per": ["tool"], "concurrency": 1, "wait": "30s"}
    allowed = {**RULES[0], "tools": [MAIL], "effects": ["write"]}

    with upstream() as (seen, server):
        path = project(tmp_path, server, {"rules": [allowed], "limits": [limit]})
        async with Gateway.load(path) as gateway:
            inner = nested(gateway)
            outer = gateway.current.compiled_policy.call("other__outer", {}, gateway.principal("bot"), "talk", "client")
            seen.answers.clear()
            first = asyncio.create_task(inner.call(outer, MAIL, {"to": "a"}))
            await asyncio.to_thread(seen.reached, 1)
            second = asyncio.create_task(inner.call(outer, MAIL, {"to": "b"}))
            while len(recorded(tmp_path)) < 2:  # noqa: ASYNC110 - the record tells nobody
                await asyncio.sleep(0.01)
            for task in (second, first):
                task.cancel()
            await asyncio.wait((first, second))
            assert await asyncio.to_thread(seen.closed)
            seen.answers.set()
    assert [body for *_, body in seen.requests] == ['{"to":"a"}']
    ended = [entry["code"] for entry in recorded(tmp_path) if entry["event"] == "outcome"]
    assert sorted(ended) == ["cancelled", "outcome_unknown"]


def recorded(root: Path) -> list[dict[str, Any]]:
    """Every entry of the record but checkpoints."""
    lines = [line for path in (root / "var/audit").glob("*.jsonl") for line in path.read_text().splitlines()]
    return [
        entry for line in lines if (entry := json.loads(line.strip("\0") or "{}")) and entry["event"] != "checkpoint"
    ]
