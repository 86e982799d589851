"""Conditions in a running gateway: what they decide, what they do without an answer, and what the record says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import project, upstream
from tests.projects import audit_entries
from toolgen.frontends.python.gateway import Gateway

BROKEN = "args.amount_cents < principal.attributes.limit"  # `bare` has no such attribute


def rule(verdict: str, **more: Any) -> dict[str, Any]:
    return {"id": f"r-{verdict}", "to": ["bot"], "tools": ["orders__create_order"], "verdict": verdict, **more}


async def outcome(
    root: Path, rules: Sequence[dict[str, Any]], who: str = "bot", amount: Any = 5
) -> tuple[str, str, int, list[tuple[str, str, str]]]:
    """How the call ended, its code, how many requests arrived, and the decision entries as (rule, verdict, status)."""

    with upstream() as (seen, server):
        path = project(root / "p", server, {"rules": [*rules]})
        async with Gateway.load(path) as gateway:
            arguments = {"amount_cents": amount, "tenant_id": "acme"}
            envelope = await gateway.call("orders__create_order", arguments, principal=who)
            notes = [
                (entry["rule"], entry["verdict"], entry["status"])
                for entry in audit_entries(gateway)
                if entry["event"] == "decision"
            ]
            status, code = envelope.status, envelope.error.code if envelope.error else ""
        return status, code, len(seen.requests), notes


ALLOW = rule("allow", id="always")
CASES: list[tuple[list[dict[str, Any]], str, Any, tuple[str, str, int]]] = [
    ([rule("allow", when=BROKEN)], "bot", 499, ("ok", "", 1)),
    ([rule("allow", when=BROKEN)], "bot", 500, ("refused", "forbidden", 0)),
    ([rule("allow", when=BROKEN)], "bare", 5, ("refused", "forbidden", 0)),
    ([ALLOW, rule("deny", when=BROKEN)], "bot", 499, ("refused", "forbidden", 0)),
    ([ALLOW, rule("deny", when=BROKEN)], "bot", 500, ("ok", "", 1)),
    ([ALLOW, rule("deny", when=BROKEN)], "bare", 5, ("refused", "forbidden", 0)),
    ([ALLOW, rule("deny", when="args.note == 'x'")], "bot", 5, ("refused", "forbidden", 0)),
    ([ALLOW, rule("ask", when=BROKEN)], "bot", 500, ("ok", "", 1)),
    ([ALLOW, rule("ask", when=BROKEN)], "bare", 5, ("cancelled", "cancelled", 0)),
    ([ALLOW, rule("deny", shadow=True)], "bot", 5, ("ok", "", 1)),
    ([ALLOW, rule("ask", shadow=True)], "bot", 5, ("ok", "", 1)),
    ([rule("allow", shadow=True)], "bot", 5, ("refused", "unknown_tool", 0)),
    ([rule("allow", when="now > timestamp('2020-01-01T00:00:00Z')")], "bot", 5, ("ok", "", 1)),
    ([rule("allow", when="now < timestamp('2020-01-01T00:00:00Z')")], "bot", 5, ("refused", "forbidden", 0)),
]


@pytest.mark.parametrize(("rules", "who", "amount", "expected"), CASES)
async def test_conditions_decide(
    tmp_path: Path, rules: list[dict[str, Any]], who: str, amount: Any, expected: tuple[str, str, int]
) -> None:
    assert (await outcome(tmp_path, rules, who, amount))[:3] == expected


async def test_a_condition_without_an_answer_is_recorded(tmp_path: Path) -> None:
    *_, notes = await outcome(tmp_path, [ALLOW, rule("deny", when=BROKEN)], "bare")
    assert notes == [("r-deny", "deny", "unevaluated")]


async def test_what_a_shadow_would_have_said_is_recorded_and_nothing_else(tmp_path: Path) -> None:
    rules = [ALLOW, rule("deny", id="s1", shadow=True), rule("ask", id="s2", shadow=True, when="args.amount_cents > 9")]
    status, _, requests, notes = await outcome(tmp_path, rules)
    assert (status, requests) == ("ok", 1)
    assert notes == [("s1", "deny", "shadow")]


async def test_a_shadow_that_would_allow_what_is_closed_is_recorded(tmp_path: Path) -> None:
    status, code, requests, notes = await outcome(tmp_path, [rule("allow", shadow=True)])
    assert (status, code, requests) == ("refused", "unknown_tool", 0)
    assert notes == [("r-allow", "allow", "shadow")]
