"""`/metrics`: names for who may read the record alone; what an operator sees of breakers, limits, people and edits of the policy."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import BASE, bearer
from tests.gateway.governed import PRINCIPALS, project, upstream, write_policy
from tests.gateway.metrics.test_metrics import read, value
from tests.messages import line_names
from toolgen.audit.keys import make_key
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.prometheus import DETAILS, Snapshot, rendered
from toolgen.model.call import Call, Principal
from toolgen.model.result import Error, Refused
from toolgen.model.tool import absent

RITA = {"api_key": "sha256:" + hashlib.sha256(b"key-of-rita").hexdigest(), "roles": ["reviewer"]}
POLICY: dict[str, Any] = {
    "principals": {**PRINCIPALS, "rita": RITA},
    "rules": [
        {"id": "reads", "to": ["bot"], "tools": ["orders__get_*", "orders__check_*"], "verdict": "allow"},
        {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"},
    ],
    "approvals": {"approvers": ["reviewer"], "expires": "1h"},
    "limits": [{"id": "checks", "per": ["principal"], "rate": "5/h", "cost": {"orders__check_*": 1, "*": 0}}],
}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@asynccontextmanager
async def within(path: Path) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    async with asyncio.timeout(300), Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as http:
            yield gateway, http


async def told(http: httpx.AsyncClient, detail: str = "all") -> Samples:
    answer = await http.get(f"/metrics?detail={detail}", headers=bearer("key-of-rita"))
    assert answer.status_code == 200, answer.text
    return read(answer.text)


async def told_until(http: httpx.AsyncClient, so: Callable[[Samples], bool]) -> Samples:
    while not so(samples := await told(http)):  # noqa: ASYNC110 - what is counted tells nobody
        await asyncio.sleep(0.01)
    return samples


async def test_names_are_told_to_reviewers_and_to_nobody_else(tmp_path: Path) -> None:
    with upstream() as (_, server):
        async with within(project(tmp_path / "p", server, POLICY)) as (gateway, http):
            for name in ("orders__get_health", "orders__get_health", "orders__made_up", "orders__create_order"):
                await gateway.call(name, {}, principal="bot")
            for headers, status in (({}, 401), (bearer("wrong"), 401), (bearer("key-of-bot"), 403)):
                answer = await http.get("/metrics?detail=all", headers=headers)
                assert (answer.status_code, "orders" in answer.text) == (status, False)
            unknown = await http.get("/metrics?detail=tools,everything", headers=bearer("key-of-rita"))
            assert (unknown.status_code, "everything" in unknown.text) == (400, False)
            assert (await http.get("/metrics?details=all", headers=bearer("key-of-rita"))).status_code == 400
            samples = await told(http)
            tool = {"tool": "orders__get_health", "source": "orders"}
            assert value(samples, "toolgen_tool_calls_total", **tool, status="ok") == 2
            assert value(samples, "toolgen_tool_call_seconds_total", **tool) > 0
            assert value(samples, "toolgen_principal_calls_total", principal="bot", status="ok") == 2
            assert value(samples, "toolgen_rule_refusals_total", code="unknown_tool") == 2
            assert value(samples, "toolgen_system_attempts_total", source="orders", outcome="answered") == 2
            assert value(samples, "toolgen_info", policy=gateway.policy.digest) == 1
            assert not any("made_up" in label for _, labels in samples for _, label in labels)
            names = {name for name, _ in await told(http, "principals,rules")}
            assert {"toolgen_principal_calls_total", "toolgen_rule_refusals_total"} <= names
            assert not {"toolgen_tool_calls_total", "toolgen_system_breaker"} & names
            # What is told without a query, and so to anybody, is the same for a reviewer: no name.
            sums = await http.get("/metrics", headers=bearer("key-of-rita"))
            assert not {"orders", "bot", "checks"} & set(sums.text.replace('"', " ").split())


async def test_a_breaker_that_opens_is_seen_with_what_it_holds_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with upstream() as (seen, server):
        seen_port = int(server.rpartition(":")[2])
        async with within(project(tmp_path / "p", server, POLICY)) as (gateway, http):
            seen.faults["/health"] = 500
            for _ in range(12):
                await gateway.call("orders__get_health", {}, principal="bot")
            samples = await told(http, "sources")
            system = {"source": "orders", "system": f"127.0.0.1:{seen_port}"}
            assert value(samples, "toolgen_breakers_open") == 1
            assert value(samples, "toolgen_breaker_openings_total") == 1
            assert value(samples, "toolgen_breaker_refusals_total") >= 2
            assert value(samples, "toolgen_upstream_attempts_total", outcome="failed") == 10
            assert value(samples, "toolgen_system_breaker", **system, state="open") == 1
            assert value(samples, "toolgen_system_breaker", **system, state="closed") == 0
            assert value(samples, "toolgen_system_attempts_total", **system, outcome="failed") == 10
    opened = [record.getMessage() for record in caplog.records if "breaker is open" in record.getMessage()]
    assert len(opened) == 1
    assert opened[0].startswith(f"orders: 127.0.0.1:{seen_port} failed too often")


async def test_limits_that_refuse_and_calls_in_flight_are_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with upstream() as (seen, server):
        async with within(project(tmp_path / "p", server, POLICY)) as (gateway, http):
            for _ in range(9):
                await gateway.call("orders__check_fraud", {"order": "canary"}, principal="bot")
            seen.answers.clear()
            waiting = asyncio.create_task(gateway.call("orders__get_health", {}, principal="bot"))
            await asyncio.to_thread(seen.reached, 6)
            samples = await told(http)
            seen.answers.set()
            await waiting
            assert value(samples, "toolgen_limit_refusals_total") == 4
            assert value(samples, "toolgen_rule_refusals_total", rule="checks", code="rate_limited") == 4
            assert value(samples, "toolgen_upstream_in_flight") == 1
            assert value(samples, "toolgen_system_in_flight", source="orders") == 1
            assert value(samples, "toolgen_calls_waiting") == 0
    said = [record.getMessage() for record in caplog.records if "limit checks" in record.getMessage()]
    assert len(said) == 1
    assert "canary" not in caplog.text


async def test_a_call_that_waits_for_its_turn_is_seen(tmp_path: Path) -> None:
    limits = [{"id": "one", "concurrency": 1, "wait": "30s"}]
    with upstream() as (seen, server):
        async with within(project(tmp_path / "p", server, {**POLICY, "limits": limits})) as (gateway, http):
            seen.answers.clear()
            calls = [asyncio.create_task(gateway.call("orders__get_health", {}, principal="bot")) for _ in range(3)]
            await asyncio.to_thread(seen.reached, 1)
            samples = await told_until(http, lambda found: value(found, "toolgen_calls_waiting", reason="limit") == 2)
            assert value(samples, "toolgen_calls_in_flight") == 3
            seen.answers.set()
            await asyncio.gather(*calls)
            assert value(await told(http), "toolgen_calls_waiting") == 0


async def test_calls_that_wait_for_a_person_are_seen_until_somebody_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolgen")

    with upstream() as (_, server):
        async with within(project(tmp_path / "p", server, POLICY)) as (gateway, http):
            asked = await gateway.call("orders__send_mail", {"to": "canary"}, principal="bot")
            assert asked.status == "pending"
            samples = await told_until(http, lambda found: value(found, "toolgen_approvals_waiting") > 0)
            assert value(samples, "toolgen_approvals_waiting") == 1
            assert value(samples, "toolgen_approvals_oldest_seconds") >= 0
            path = f"/v1/approvals/{asked.call_id}"
            answer = await http.post(path, json={"decision": "deny"}, headers=bearer("key-of-rita"))
            assert answer.status_code == 200, answer.text
            samples = await told_until(http, lambda found: value(found, "toolgen_approvals_waiting") == 0)
            assert value(samples, "toolgen_approvals_oldest_seconds") == 0
            assert value(samples, "toolgen_audit_entries_total", event="decision") == 1
            assert line_names(caplog.text, f"call {asked.call_id} of orders__send_mail ", "waits", "(rule mail)")
            assert line_names(caplog.text, f"call {asked.call_id} of orders__send_mail: ", "deny, by rita")
            assert "canary" not in caplog.text


async def test_edits_of_the_policy_and_the_record_are_seen(tmp_path: Path) -> None:
    with upstream() as (_, server):
        root = tmp_path / "p"
        path = project(root, server, POLICY)
        (root / "var" / "audit").mkdir(parents=True)
        make_key(root / "var" / "audit" / "checkpoint.key", root / "var" / "audit")
        async with within(path) as (gateway, http):
            before = read((await http.get("/metrics")).text)
            assert value(before, "toolgen_policy_edit_unused") == 0
            write_policy(
                root, {**POLICY, "rules": [*POLICY["rules"], {"id": "x", "to": ["bot"], "tools": ["no__such"]}]}
            )
            await gateway.operations.reload()
            broken = read((await http.get("/metrics")).text)
            assert value(broken, "toolgen_policy_edit_unused") == 1
            assert value(broken, "toolgen_policy_reloads_total", status="error") >= 1
            assert value(broken, "toolgen_warnings") == 1
            assert value(broken, "toolgen_ready") == 1
            write_policy(root, {**POLICY, "limits": []})
            await gateway.operations.reload()
            mended = read((await http.get("/metrics")).text)
            assert value(mended, "toolgen_policy_edit_unused") == 0
            assert value(mended, "toolgen_policy_reloads_total", status="ok") == 1
            assert value(mended, "toolgen_policy_in_force_since_seconds") >= value(
                before, "toolgen_policy_in_force_since_seconds"
            )
            await gateway.call("orders__get_health", {}, principal="bot")
            after = read((await http.get("/metrics")).text)
            for event in ("intent", "outcome"):
                assert value(after, "toolgen_audit_entries_total", event=event) == 1
            assert value(after, "toolgen_audit_writes_total") >= 2
            assert value(after, "toolgen_audit_writing_seconds_total") > 0
            assert 0 < value(after, "toolgen_audit_unsigned") <= value(after, "toolgen_audit_entries_total")
            assert value(after, "toolgen_audit_undelivered_seconds") == 0


def test_names_cannot_grow_without_end_or_break_the_format() -> None:
    metrics = Metrics()
    for number in range(5_000):
        call = Call(id="c", tool=absent(f"t{number}"), arguments={}, principal=Principal(id=f'staff:{number}\n"x'))
        metrics.begin()
        metrics.end(call, Refused(error=Error(code="forbidden", message="", rule=f"r{number}")), 0.1)
    samples = read(rendered(metrics, Snapshot(), labels={"worker": "w"}, detail=DETAILS).decode())
    for name in ("toolgen_principal_calls_total", "toolgen_rule_refusals_total"):
        assert len([1 for found, _ in samples if found == name]) <= 2_001
        assert value(samples, name) == 5_000
    assert not [1 for found, _ in samples if found == "toolgen_tool_calls_total"]
