"""Each guarantee of docs/explanation/security-model.md is one short sentence, and names a test that there is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security-model.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?\.) \| (.+) \|$", TEXT, re.MULTILINE)


ATTACKS = re.findall(r"^\| ((?:4\.\d+|MCP:|tokens|names) .+?) \| (.+) \|$", TEXT, re.MULTILINE)


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_the_page_has_guarantees_and_says_what_is_not_protected() -> None:
    assert len(ROWS) >= 30
    assert "(not-protected.md)" in TEXT


@pytest.mark.parametrize(("guarantee", "held_by"), ROWS)
def test_a_guarantee_is_short_and_its_test_exists(guarantee: str, held_by: str) -> None:
    assert len(guarantee.split()) <= 25
    links = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", held_by)
    assert links, "link the test that holds it"
    for name, target in links:
        assert name in functions_of((PAGE.parent / target).resolve()), f"{target} has no {name}"


def test_every_row_of_its_tables_was_read() -> None:
    """No sentence stands in a table of guarantees without being held against a test above."""
    tables = re.findall(r"^\| Guarantee \| Held by \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert len(ROWS) == sum(table.count("\n") for table in tables)


def test_every_attack_of_rfc_9700_and_of_mcp_has_tests_that_exist() -> None:
    sections = [name.partition(" ")[0] for name, _ in ATTACKS if name.startswith("4.")]
    assert sections == [f"4.{number}" for number in range(1, 18)]
    topics = ("confused deputy", "token passthrough", "request forgery", "session hijacking", "local servers", "scopes")
    assert all(any(name.startswith("MCP:") and topic in name for name, _ in ATTACKS) for topic in topics)
    table = re.search(r"^\| Attack \| Tried by \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert table is not None
    assert len(ATTACKS) == table[1].count("\n")
    for attack, tried_by in ATTACKS:
        links = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", tried_by)
        assert links, attack
        for name, target in links:
            assert name in functions_of((PAGE.parent / target).resolve()), f"{target} has no {name}"
