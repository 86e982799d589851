"""`toolgen policy explain`, `replay` and `suggest` over calls that a real gateway made and recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import runner
from tests.gateway.governed import project, upstream, write_policy
from toolgen.gateway.service import Gateway

READS = {"id": "reads", "to": ["bot"], "tools": ["orders__*"], "effects": ["read"], "verdict": "allow"}
BOUND = {
    "id": "bound",
    "to": ["bot"],
    "tools": ["orders__create_order"],
    "verdict": "allow",
    "bind": {"tenant_id": "principal.attributes.tenant"},
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("orders__check_fraud", {"order": "1"}),
    ("orders__create_order", {"amount_cents": 5}),
    ("orders__send_mail", {"to": "x"}),
    ("orders__send_mail", {"to": "y"}),
    ("orders__delete_order", {"id": "a"}),
]


def recorded(root: Path, policy: dict[str, Any]) -> str:
    """A project whose gateway took the calls above; its toolgen.yaml."""

    async def main(path: Path) -> None:
        async with Gateway.load(path) as gateway:
            for tool, arguments in CALLS:
                await gateway.call(tool, arguments, principal="bot", session="s")

    with upstream() as (_, server):
        path = project(root / "p", server, policy)
        asyncio.run(main(path))
    return str(path)


def test_replay_lists_what_would_differ_and_suggest_what_would_allow(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run = runner(capfdbinary)
    path = recorded(tmp_path, {"rules": [READS, BOUND]})
    same = run("policy", "replay", "--since", "1h", "--json", "--config", path)
    assert (same.code, same.json()["calls"], same.json()["differ"]) == (0, len(CALLS), [])
    suggested = run("policy", "suggest", "--config", path)
    rules = yaml.safe_load(suggested.out)["rules"]
    assert [(rule["tools"], rule["verdict"], rule["arguments"]) for rule in rules] == [
        (["orders__delete_order"], "ask", {"properties": {"id": {"enum": ["a"]}}}),
        (["orders__send_mail"], "allow", {"properties": {"to": {"enum": ["x", "y"]}}}),
    ]
    late = {
        "id": "late",
        "to": ["bot"],
        "tools": ["orders__create_order"],
        "verdict": "deny",
        "when": "session.called('orders__check_fraud')",
    }
    write_policy(tmp_path / "p", {"rules": [READS, BOUND, late, *rules]})
    changed = run("policy", "replay", "--json", "--config", path)
    assert changed.code == 1
    assert [(item["tool"], item["before"], item["now"], item["rule"]) for item in changed.json()["differ"]] == [
        ("orders__create_order", "allow", "deny", "late"),
        ("orders__send_mail", "deny", "allow", "suggested-bot-orders__send_mail"),
        ("orders__send_mail", "deny", "allow", "suggested-bot-orders__send_mail"),
        ("orders__delete_order", "deny", "ask", "suggested-bot-orders__delete_order"),
    ]


def test_what_the_record_hides_is_undecidable(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    mail = {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow", "when": "args.to != 'eve'"}
    path = recorded(tmp_path, {"rules": [READS, mail], "sensitive": ["$.to"]})
    found = runner(capfdbinary)("policy", "replay", "--json", "--config", path).json()
    assert found["differ"] == []
    assert [item["tool"] for item in found["undecidable"]] == ["orders__send_mail"] * 2
    assert "/to is recorded as a keyed digest" in found["undecidable"][0]["why"]


def test_explain_says_of_every_rule_why(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    rule = {"to": ["bot"], "tools": ["orders__create_order"], "verdict": "deny"}
    rules = [
        READS,
        BOUND,
        {**rule, "id": "users", "to": ["user"]},
        {**rule, "id": "mail", "tools": ["orders__send_mail"]},
        {**rule, "id": "large", "arguments": {"properties": {"amount_cents": {"minimum": 100}}}},
        {**rule, "id": "noted", "when": "args.note == 'x'"},
        {**rule, "id": "poor", "when": "args.amount_cents > principal.attributes.limit"},
        {**rule, "id": "tried", "shadow": True},
    ]
    path = str(project(tmp_path / "p", "http://127.0.0.1:9", {"rules": rules}))
    run = runner(capfdbinary)
    shown = run(
        "policy", "explain", "orders__create_order", "amount_cents=5", "--as", "bot", "--json", "--config", path
    )
    found = shown.json()
    assert (found["verdict"], found["rule"], found["bound"]) == ("deny", "noted", ["tenant_id"])
    why = {item["rule"]: (item["speaks"], item["why"].partition(":")[0]) for item in found["rules"]}
    assert why == {
        "bound": (True, "it is about this call"),
        "large": (False, "arguments"),
        "mail": (False, "tool"),
        "noted": (True, "when"),
        "poor": (False, "when"),
        "reads": (False, "effect"),
        "tried": (True, "it is about this call"),
        "users": (False, "role"),
    }
    text = run("policy", "explain", "orders__create_order", "amount_cents=5", "--as", "bot", "--config", path).out
    assert "deny by noted" in text
    wrong = run("policy", "explain", "orders__create_ordr", "--as", "bot", "--config", path)
    assert (wrong.code, "did you mean 'orders__create_order" in wrong.err) != (0, False)
