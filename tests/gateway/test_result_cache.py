"""Kept answers in a whole gateway: every guard is asked every time, and what the policy says now is what counts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.failing import Server, saying
from tests.gateway.governed import project, upstream, write_policy
from toolgen.core.clock import FixedClock
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway

READS = {"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}
HEALTH = "orders__get_health"


def cached(root: Path, server: str, policy: dict[str, Any], **tools: Any) -> Gateway:
    return Gateway.load(project(root, server, policy, tools=tools or {HEALTH: {"cache": "60s"}}))


def outcomes(root: Path) -> list[dict[str, Any]]:
    """The outcomes on record."""
    return _entries(root, "outcome")


def intents(root: Path) -> list[dict[str, Any]]:
    """The calls that were begun, as they are on record."""
    return _entries(root, "intent")


def _entries(root: Path, event: str) -> list[dict[str, Any]]:
    lines = [line for path in sorted((root / "var/audit").glob("*.jsonl")) for line in path.read_text().split("\n")]
    entries = [json.loads(line.strip("\0")) for line in lines if line.strip("\0")]
    return [entry for entry in entries if entry["event"] == event]


async def test_a_hit_is_recorded_as_one_and_draws_on_limits_as_a_call(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        limits = [{"id": "few", "per": ["principal"], "rate": "1/h", "burst": 2}]
        async with cached(tmp_path, server, {"rules": [READS], "limits": limits}) as gateway:
            first, second, third = [await gateway.call(HEALTH, {}, principal="bot") for _ in range(3)]
    assert len(seen.requests) == 1
    assert first.data == second.data == {"ok": True}
    assert (first.meta.age_s, second.meta.age_s is not None) == (None, True)
    assert third.error.code == "rate_limited"
    assert [entry.get("code") for entry in outcomes(tmp_path)] == [None, "hit", "rate_limited"]
    assert [entry.get("attempts") for entry in outcomes(tmp_path)] == [1, None, None]


async def test_a_changed_policy_is_asked_and_what_it_hides_now_is_hidden(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        async with cached(tmp_path, server, {"rules": [READS]}) as gateway:
            found = [await gateway.call(HEALTH, {}, principal="bot")]
            redact = [{"tools": ["*"], "fields": ["$..ok"], "with": "hidden"}]
            write_policy(tmp_path, {"rules": [READS], "redact": redact})
            assert await gateway.operations.reload()
            found += [await gateway.call(HEALTH, {}, principal="bot") for _ in range(2)]
            write_policy(tmp_path, {"rules": [{**READS, "tools": ["orders__list_*"]}]})
            assert await gateway.operations.reload()
            found.append(await gateway.call(HEALTH, {}, principal="bot"))
        plain, hidden, again, gone = found
    assert plain.data == {"ok": True}
    assert hidden.data == again.data == {"ok": "hidden"}
    assert gone.error.code == "unknown_tool"
    assert len(seen.requests) == 2


async def test_nobody_is_given_what_another_was(tmp_path: Path) -> None:
    """Two bots with one question, and one bot for two users: the system is asked for each."""

    with upstream() as (seen, server):
        user = {"id": "users", "to": ["user"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}
        async with cached(tmp_path, server, {"rules": [READS, user]}) as gateway:
            people = [gateway.principal(*names) for names in (("bot",), ("bare",), ("bot", "ann"), ("bot", "eve"))]
            for _ in range(2):
                for person in people:
                    assert (await gateway.call(HEALTH, {}, principal=person)).status == "ok"
    assert len(seen.requests) == 4


async def test_a_write_by_anybody_is_seen_by_the_next_read(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        rule = {"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "write"], "verdict": "allow"}
        async with cached(tmp_path, server, {"rules": [rule]}) as gateway:
            for name, arguments in ((HEALTH, {}), ("orders__send_mail", {"to": "a"}), (HEALTH, {}), (HEALTH, {})):
                assert (await gateway.call(name, arguments, principal="bot")).status == "ok"
    assert [method for method, _, _ in seen.requests] == ["GET", "POST", "GET"]


async def test_a_crowd_that_waited_for_an_answer_of_one_is_served_within_the_places_of_its_system(
    tmp_path: Path,
) -> None:
    """As one burst, all but four of them would be refused: two places, and two to wait in line."""

    first, go = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        first.set()
        await go.wait()
        await private(writer)

    private = saying("200 OK", "Cache-Control: no-store\r\n")
    server = Server([slow, private])
    async with server.serving() as url:
        source = {"openapi": "specs/orders.json", "server": url, "concurrency": 2}
        tools = {HEALTH: {"cache": "60s"}}
        path = project(tmp_path, url, {"rules": [READS]}, tools=tools, sources={"orders": source})
        async with Gateway.load(path) as gateway:
            asking = [asyncio.ensure_future(gateway.call(HEALTH, {}, principal="bot")) for _ in range(40)]
            await first.wait()
            while len(intents(tmp_path)) < 40:  # noqa: ASYNC110 - all have come: the log calls nobody
                await asyncio.sleep(0.01)
            go.set()
            found, most = await asyncio.gather(*asking), server.most_inside
    assert [one.status for one in found] == ["ok"] * 40
    assert most <= 2


async def test_a_stale_answer_stands_in_for_a_system_that_broke(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        tools = {HEALTH: {"cache": {"ttl": "60s", "stale_if_error": "1h"}}}
        loaded, clock = cached(tmp_path, server, {"rules": [READS]}, **tools), FixedClock()
        async with Gateway(
            settings=loaded.settings, manifest=loaded.manifest, policy=loaded.policy, clock=clock
        ) as gateway:
            await gateway.call(HEALTH, {}, principal="bot")
            seen.status = 500
            clock.advance(61)
            stale = await gateway.call(HEALTH, {}, principal="bot")
    assert (stale.status, stale.data, stale.meta.age_s) == ("ok", {"ok": True}, 61)
    assert [entry.get("code") for entry in outcomes(tmp_path)] == [None, "stale"]


async def test_a_stale_answer_is_nobody_elses(tmp_path: Path) -> None:
    """Neither that of another of the same roles, nor of the same agent for another user, nor for itself."""

    with upstream() as (seen, server):
        tools = {HEALTH: {"cache": {"ttl": "60s", "stale_if_error": "1h"}}}
        everybody = {**READS, "to": ["bot", "user"]}
        loaded, clock = cached(tmp_path, server, {"rules": [everybody]}, **tools), FixedClock()
        async with Gateway(
            settings=loaded.settings, manifest=loaded.manifest, policy=loaded.policy, clock=clock
        ) as gateway:
            for_ann, for_eve = gateway.principal("bot", "ann"), gateway.principal("bot", "eve")
            await gateway.call(HEALTH, {}, principal=for_ann)
            seen.status = 500
            clock.advance(61)
            others = ["bot", "bare", "ann", for_eve, for_ann]
            found = [await gateway.call(HEALTH, {}, principal=one) for one in others]
    assert [one.status for one in found] == ["error", "error", "error", "error", "ok"]
    assert [entry.get("code") for entry in outcomes(tmp_path)] == [None, *["upstream_error"] * 4, "stale"]


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ({"orders__send_mail": {"cache": "60s"}}, "is for reads"),
        ({"orders__get_helth": {"cache": "60s"}}, "did you mean 'orders__get_health'"),
        ({HEALTH: {"cache": "forever"}}, "takes a time"),
        ({HEALTH: {"cache": "25h"}}, "up to 24h"),
        ({HEALTH: {"cache": {"tll": "60s"}}}, "did you mean 'ttl'"),
        ({HEALTH: {"cache": {"ttl": "60s", "stale_if_error": "x"}}}, "stale_if_error: takes a time"),
        ({HEALTH: {"cach": "60s"}}, "did you mean 'cache'"),
    ],
)
def test_what_cannot_be_kept_is_an_error_at_load(tmp_path: Path, tools: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cached(tmp_path, "http://127.0.0.1:9", {"rules": [READS]}, **tools)
    assert said in str(caught.value)
    assert "toolgen.yaml:" in str(caught.value)


def test_a_cache_is_no_part_of_a_build(tmp_path: Path) -> None:
    gateway = cached(tmp_path, "http://127.0.0.1:9", {"rules": [READS]})
    assert gateway.settings.overrides == ()
