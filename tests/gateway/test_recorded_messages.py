"""Messages of the record: what the gateway said about calls that did not succeed, and nothing that others said or that is concealed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.governed import Upstream, project, upstream
from toolgen.audit.index.row import RecordFilter
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.audit.reader import index_of

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "write"], "verdict": "allow"},
        {"id": "no-mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "deny"},
        {"id": "ask", "to": ["bot"], "tools": ["orders__delete_order"], "verdict": "ask"},
    ],
    "approvals": {"approvers": ["user"]},
    "sensitive": ["$..note", "$.amount_cents"],
}


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Gateway, Upstream]]:
    """Gateway of a project, and its API."""
    with upstream() as (seen, server):
        async with Gateway.load(project(tmp_path / "project", server, POLICY)) as gateway:
            yield gateway, seen


def recorded(gateway: Gateway) -> list[dict[str, Any]]:
    """Entries that end calls."""
    found = entries(gateway.settings.audit_dir)
    return [dict(one) for one in found if one["event"] == "outcome" or "code" in one]


async def test_a_message_is_on_record_for_each_call_that_did_not_succeed_and_for_no_other(tmp_path: Path) -> None:
    said: list[str] = []

    async with opened(tmp_path) as (gateway, seen):

        async def call(tool: str, arguments: dict[str, Any]) -> None:
            answer = await gateway.call(tool, arguments, principal="bot")
            said.append("" if answer.error is None else answer.error.message)

        await call("orders__get_health", {})
        await call("orders__send_mail", {"to": "x"})
        await call("orders__list_orders", {"tenant_id": 5, "status": ["late"]})
        await call("orders__no_such_tool", {})
        seen.status, seen.body = 418, b'{"detail": "the secret of the teapot"}'
        await call("orders__list_orders", {"tenant_id": "a"})
    found = recorded(gateway)
    assert "message" not in found[0]
    assert [one["message"] for one in found[1:4]] == said[1:4]
    assert all(said[1:4])
    assert "teapot" in said[4]
    assert found[4]["message"]
    assert said[4].startswith(found[4]["message"] + ":")
    assert "teapot" not in str(found[4])


async def test_a_message_has_nothing_that_the_record_conceals(tmp_path: Path) -> None:
    said: list[str] = []

    async with opened(tmp_path) as (gateway, _):
        for given in (
            {"amount_cents": "tango-5150"},
            {"amount_cents": 7, "note": ["tango-5150"]},
            {"amount_cents": {"tango-5150": 1}},
        ):
            answer = await gateway.call("orders__create_order", {"tenant_id": "a", **given}, principal="bot")
            assert answer.error is not None
            said.append(answer.error.message)
    assert any("tango" in text for text in said)  # the caller is told what it sent
    found = recorded(gateway)
    assert all(one["message"] for one in found)
    assert "tango" not in str(found)
    assert "5150" not in str(found)


async def test_a_check_of_the_project_may_say_what_is_no_text(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, _):
        compiled_policy = gateway.current.compiled_policy
        call = compiled_policy.call("orders__get_health", {}, gateway.principal("bot"), "", "", "")
        assert compiled_policy.concealing.message(call, "half \ud800 a pair") == "half ? a pair"
    assert recorded(gateway) == []


async def test_a_denial_has_its_message_and_is_found_by_it(tmp_path: Path) -> None:
    calls: list[str] = []

    async with opened(tmp_path) as (gateway, _):
        asked = await gateway.call("orders__delete_order", {"id": "1"}, principal="bot")
        calls.append(asked.call_id)
        await gateway.approvals.decide(asked.call_id, principal=gateway.principal("ann"), approve=False, note="")
        refused = await gateway.call("orders__send_mail", {"to": "x"}, principal="bot")
        assert refused.error is not None
        calls.append(refused.call_id)
        with index_of(gateway.settings) as index:
            index.fill()
            for words, found in (
                ("a person denied", calls[:1]),
                ("A PERSON", calls[:1]),
                (calls[0], []),
                ("no-mail", []),
                (refused.error.message, calls[1:]),
            ):
                rows = index.calls(RecordFilter(words=words)).rows
                assert [row["call_id"] for row in rows] == found, words
            (denied,) = index.calls(RecordFilter(words="a person denied")).rows
            assert denied["call_id"] == calls[0]
            assert index.check() == []
    first, second, third = recorded(gateway)
    assert "message" not in first
    assert "a person denied" in second["message"]
    assert third["message"]
