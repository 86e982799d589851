"""What `toolgen audit show CALL_ID` tells of a call before its entries."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.cli.audit_story import story_of

INTENT: dict[str, Any] = {
    "event": "intent",
    "time": "2026-01-31T12:00:00.123456Z",
    "principal": "bot",
    "tool": "shop__cancel",
}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"event": "intent"}, "bot calls shop__cancel {}"),
        (
            {"event": "intent", "on_behalf_of": "ann", "arguments": {"id": "ö"}},
            'bot for ann calls shop__cancel {"id": "ö"}',
        ),
        ({"event": "identity", "arguments": {"roles": ["a", "b"]}}, "bot has the roles a, b"),
        ({"event": "identity", "arguments": {"roles": []}}, "bot has no role"),
        ({"event": "decision", "verdict": "ask", "rule": "cancels"}, "the policy says ask by the rule cancels"),
        (
            {"event": "decision", "principal": "lead", "verdict": "approve", "arguments": {"note": "by phone"}},
            'lead answers: approve, "by phone"',
        ),
        ({"event": "decision", "principal": "lead", "verdict": "deny"}, "lead answers: deny"),
        ({"event": "attempt", "attempts": 1, "code": "upstream_timeout"}, "attempt 1 failed: upstream_timeout"),
        (
            {
                "event": "outcome",
                "status": "ok",
                "verdict": "allow",
                "rule": "r",
                "attempts": 2,
                "rows": 3,
                "duration_ms": 4.4,
            },
            "ended: ok, allow by the rule r, 2 attempts, 3 rows, 4 ms",
        ),
        ({"event": "outcome", "status": "error", "code": "upstream_error"}, "ended: upstream_error"),
        (
            {"event": "question", "verdict": "allow", "rule": "r", "arguments": {"method": "roots/list"}},
            "the server requests roots/list of the caller: allow by the rule r",
        ),
        ({"event": "answer", "status": "decline"}, "the caller answers: decline"),
        ({"event": "recovered", "status": "error"}, "recovered: error"),
        ({"event": "something", "arguments": None}, "something"),
        ({"event": "intent", "tool": "a\x1b[31m\u202eb"}, "bot calls a\\x1b[31m\\u202eb {}"),
    ],
)
def test_an_entry_is_one_sentence(entry: dict[str, Any], told: str) -> None:
    (_, line) = story_of([INTENT, {**INTENT, **entry}])
    assert line == f"2026-01-31 12:00:00  {told}"
