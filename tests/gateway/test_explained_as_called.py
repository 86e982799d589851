"""Explanations against real calls: for drawn statements and documents, the verdict, the rule and what would run are those of the call."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.connectors.sql.guard.attack_forms import attack_forms
from tests.connectors.sql.guard.lab import SCHEMA
from tests.databases import duckdb_file
from tests.exhaustive import part
from tests.gateway.test_explained_guards import SDL
from tests.gateway.test_graphql_outcomes import HASH
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Principal
from toolgen.policy.access import EvaluationContext

pytestmark = pytest.mark.usefixtures("sql_processes")

_EVERY: Final = 61  # attack in the default run
_POLICY: Final[dict[str, Any]] = {
    "principals": {"bot": {"api_key": HASH, "roles": ["bot"], "attributes": {"tenant": "acme"}}},
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["lab__*", "g__*"], "effects": ["read", "write", "destructive"], "verdict": "allow"},
    ],
    "sql": {
        "lab": {
            "tables": {
                "customers": {"columns": ["id", "name", "country"]},
                "orders": {},
                "tickets": {"rows": "tenant = :tenant"},
                "germans": {},
            }
        }
    },
    "egress": {"allow": ["api.example:443"]},
}  # fmt: skip
_HONEST: Final = (
    "SELECT id, name FROM customers ORDER BY id LIMIT 2",
    "SELECT body FROM tickets ORDER BY id",
    "SELECT c.name, count(*) AS n FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.name ORDER BY n DESC",
    "WITH t AS (SELECT * FROM orders) SELECT status, sum(total) FROM t GROUP BY status",
    "SELECT upper(name) FROM germans",
    "SELECT 1 AS one",
)
_OTHERS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("lab__explain", {"sql": "SELECT id FROM orders"}),
    ("lab__explain", {"sql": "SELECT id FROM tickets"}),
    ("lab__explain", {"sql": "SELECT id FROM germans"}),
    ("lab__explain", {"sql": "SELECT ssn FROM customers"}),
    ("lab__query", {"sql": "SELECT id FROM orders WHERE id = ?", "parameters": [1]}),
    ("lab__query", {"sql": "SELECT id FROM orders WHERE id = ?", "parameters": []}),
    ("lab__query", {"sql": "SELECT id FROM orders", "parameters": [1]}),
    ("lab__query", {"sql": "SELECT id FROM orders WHERE detail = ?", "parameters": ["x" * 2_000_000]}),
    ("lab__query", {"sql": "SELECT id FROM orders", "cursor": "1-nonsense"}),
    ("lab__describe_table", {"table": "customers"}),
    ("lab__describe_table", {"table": "users_secret"}),
    ("lab__list_tables", {}),
    ("g__run_query", {"query": "{ drafts(first: 1) { nope } }"}),
    ("g__run_query", {"query": "{ posts { id } "}),
    ("g__run_query", {"query": "query ($n: Int) { posts(first: $n) { id } }", "variables": {"n": "x"}}),
    ("g__run_query", {"query": "{ __schema { types { name } } }"}),
    ("g__run_query", {"query": "{ " + " ".join(f"a{n}: posts(first: 1) {{ id }}" for n in range(200)) + " }"}),
    ("g__run_query", {"query": "{ ...F } fragment F on Query { ...F }"}),
]


@pytest.fixture(name="path", params=["sqlite", "duckdb"])
def _path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(json.dumps(_POLICY), encoding="utf-8")
    (tmp_path / "g.graphql").write_text(SDL, encoding="utf-8")
    if request.param == "duckdb":
        duckdb_file(tmp_path / "lab.db", SCHEMA.read_text(encoding="utf-8").replace("REFERENCES customers", ""))
    else:
        with closing(sqlite3.connect(tmp_path / "lab.db")) as connection:
            connection.executescript(SCHEMA.read_text(encoding="utf-8"))
    sources = {
        "lab": {"sql": f"{request.param}:///lab.db"},
        "g": {"graphql": "g.graphql", "endpoint": "https://api.example/graphql", "queries": True},
    }
    path = tmp_path / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources}), encoding="utf-8")
    return path


def _calls(path: Path) -> list[tuple[str, dict[str, Any]]]:
    dialect = "duckdb" if "duckdb" in path.read_text(encoding="utf-8") else "sqlite"
    drawn = part([*dict.fromkeys(attack_forms(dialect))], _EVERY)
    return [*(("lab__query", {"sql": sql}) for sql in (*_HONEST, *drawn)), *_OTHERS]


@pytest.mark.sweep
async def test_a_call_is_decided_as_it_was_explained(path: Path) -> None:
    faults, ran, refused = await _compare(path)
    assert not faults, "\n".join(faults)
    assert ran > 5
    assert refused > 30


async def _compare(path: Path) -> tuple[list[str], int, int]:
    """Faults, and how many calls ran and were refused."""
    faults = []
    ran = refused = 0
    async with Gateway.load(path) as gateway:
        policy = gateway.current.compiled_policy
        bot = Principal(id="bot", roles=frozenset({"bot"}), attributes={"tenant": "acme"})
        for name, arguments in _calls(path):
            tool = policy.tool(name)
            assert tool is not None
            told = await policy.judge(bot, tool, arguments, EvaluationContext(now=0.0))
            if name.startswith("g__") and told.word == "allow":
                continue  # no service is there
            answer = await gateway.call(name, arguments, principal="bot")
            ran, refused = ran + (answer.status == "ok"), refused + (answer.status == "refused")
            rule = answer.error.rule if answer.status == "refused" and answer.error is not None else ""
            if (told.word == "deny") != (answer.status == "refused") or (rule and rule != told.verdict.rule):
                faults.append(
                    f"{name} {arguments}: {told.word} by {told.verdict.rule}, and {answer.status} {answer.error}"
                )
            if answer.status == "ok" and told.statement and told.statement != (sql := _recorded_sql(path.parent)):
                faults.append(f"{name} {arguments}: {told.statement} was explained, and {sql} ran")
    return faults, ran, refused


def _recorded_sql(folder: Path) -> str:
    """The statement of the last call in the audit log."""
    lines = [
        line for file in sorted((folder / "var" / "audit").glob("*.jsonl")) for line in file.read_bytes().split(b"\n")
    ]
    found = [json.loads(text) for line in lines if (text := line.strip(b"\0 "))]
    return next((str(entry["sql"]) for entry in reversed(found) if entry.get("sql")), "")
