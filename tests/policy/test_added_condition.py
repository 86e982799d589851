"""A condition of rules is an edit of four files: `largest:`, added to a copy of the package, from the schema of policies to a decision."""

from __future__ import annotations

import json
from pathlib import Path

from tests.edited_package import Edit, EditedPackage

MOST_FILES = 5
# Text to insert, by file, and the text that it comes before: `largest: N` holds for calls whose arguments are at most N.
EDITS = (
    Edit("policy/document/schema.py", "    bind: dict[str, str] = {}\n    tell:", "    largest: int | None = None\n"),
    Edit(
        "policy/document/rules.py",
        "        verdict=given.verdict,\n        where=where,\n",
        "        largest=given.largest,\n",
    ),
    Edit("policy/rules.py", "    bind: Mapping[str, Expression] = field(", "    largest: Condition[int] = None\n"),
    Edit(
        "policy/rules.py",
        "        when = self.rule.when\n",
        "        most = self.rule.largest\n"
        "        if most is not None and any(value > most for value in facts.arguments.values()):\n"
        "            return False\n",
    ),
    Edit(
        "policy/rules.py",
        "    if rule.when is not None:\n        asked",
        "    if rule.largest is not None:\n        return None\n",
    ),
    Edit(
        "config/described/policy.yaml",
        '  bind: {text: "Arguments that the gateway sets,',
        '  largest: {text: "Largest argument that the call has.", example: 2}\n',
    ),
)
TOOLS = """
from toolgen import tool

@tool(effect="read")
def add(a: int, b: int) -> int:
    '''Add numbers.'''
    return a + b
"""
POLICY = """
principals:
  agent: {roles: [reader]}
rules:
  - {id: small, to: [reader], tools: [sums__add], largest: 2, verdict: allow}
tests:
  - {as: agent, call: sums__add, arguments: {a: 1, b: 2}, expect: allow, rule: small}
  - {as: agent, call: sums__add, arguments: {a: 1, b: 3}, expect: deny}
"""


def test_a_condition_of_rules_is_an_edit_of_at_most_five_files(tmp_path: Path) -> None:
    assert len({edit.file for edit in EDITS}) <= MOST_FILES
    edited = EditedPackage(tmp_path, EDITS)
    edited.write(
        {
            "toolgen.yaml": "sources:\n  sums: {python: sums}\n",
            "sums.py": TOOLS,
            "policies/policy.yaml": POLICY,
        }
    )

    edited.toolgen("build")
    edited.toolgen("policy", "check")
    allowed = edited.toolgen("call", "sums__add", "--as", "agent", "--args", '{"a": 1, "b": 2}', "--json")
    refused = edited.toolgen("call", "sums__add", "--as", "agent", "--args", '{"a": 1, "b": 3}', "--json", fails=True)
    assert json.loads(allowed.stdout)["data"] == 3
    assert json.loads(refused.stdout)["error"]["code"] == "forbidden"
