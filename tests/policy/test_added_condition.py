"""A condition of rules is an edit of four files: `largest:`, added to a copy of the package, from the schema of policies to a decision."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_FILES = 5
# Text to insert, by file, and the text that it comes before: `largest: N` holds for calls whose arguments are at most N.
EDITS = (
    ("policy/document/schema.py", "    bind: dict[str, str] = {}\n    tell:", "    largest: int | None = None\n"),
    (
        "policy/document/rules.py",
        "        verdict=given.verdict,\n        where=where,\n",
        "        largest=given.largest,\n",
    ),
    ("policy/rules.py", "    bind: Mapping[str, Expression] = field(", "    largest: Condition[int] = None\n"),
    (
        "policy/rules.py",
        "        when = self.rule.when\n",
        "        most = self.rule.largest\n"
        "        if most is not None and any(value > most for value in facts.arguments.values()):\n"
        "            return False\n",
    ),
    (
        "policy/rules.py",
        "    if rule.when is not None:\n        asked",
        "    if rule.largest is not None:\n        return None\n",
    ),
    (
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
    assert len({file for file, *_ in EDITS}) <= MOST_FILES
    package, project = tmp_path / "package", tmp_path / "project"
    shutil.copytree(ROOT / "toolgen", package / "toolgen", ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, added in EDITS:
        path = package / "toolgen" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, (file, before)
        path.write_text(text.replace(before, added + before), encoding="utf-8")
    (project / "policies").mkdir(parents=True)
    (project / "toolgen.yaml").write_text("sources:\n  sums: {python: sums}\n", encoding="utf-8")
    (project / "sums.py").write_text(TOOLS, encoding="utf-8")
    (project / "policies" / "policy.yaml").write_text(POLICY, encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "toolgen", *arguments],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    built = run("build")
    assert built.returncode == 0, built.stdout + built.stderr
    checked = run("policy", "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    called = {
        text: json.loads(run("call", "sums__add", "--as", "agent", "--args", text, "--json").stdout)
        for text in ('{"a": 1, "b": 2}', '{"a": 1, "b": 3}')
    }
    assert [one.get("data") or one["error"]["code"] for one in called.values()] == [3, "forbidden"]
