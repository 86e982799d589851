"""Statements broken and spliced at random keep the guard's promises in every dialect; `bench.fuzz_sql` does the same for hours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.fuzz_sql import faults, mutated
from tests.connectors.sql.guard.lab import database
from toolgen.connectors.sql.guard.guard import DIALECTS
from toolgen.model.sql_scope import SqlScope, TableScope

HERE = Path(__file__).parent
# Without row filters: what they put into the text names columns that no statement may name.
SCOPE = SqlScope(
    tables={
        "customers": TableScope(columns=("id", "name", "country")),
        "orders": TableScope(),
        "germans": TableScope(),
    }
)


IN_CAPITALS = SqlScope(
    tables={
        "CUSTOMERS": TableScope(columns=("ID", "NAME", "COUNTRY")),
        "ORDERS": TableScope(),
        "GERMANS": TableScope(),
    }
)


def scope_of(dialect: str) -> SqlScope:
    """The scope under the names of the dialect's database."""
    return IN_CAPITALS if dialect == "snowflake" else SCOPE


def statements() -> list[str]:
    """Honest ones and attacks, of which the mutations are made."""
    files = (HERE / "honest.jsonl", HERE.parents[2] / "attacks" / "sql" / "refused.jsonl")
    return [json.loads(line)["sql"] for file in files for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_mutated_statement_is_refused_or_runs_within_the_policy(dialect: str) -> None:
    known, given = database(dialect), statements()

    for seed in range(600):
        sql = mutated(given, seed)
        assert list(faults(sql, known, scope_of(dialect))) == [], f"seed {seed}: {sql}"


@pytest.mark.parametrize("sql", ["SELECT id FROM ..  orders", "SELECT id FROM .orders", "SELECT id FROM orders.."])
def test_a_schema_that_is_no_name_is_refused(sql: str) -> None:
    for dialect in DIALECTS:
        assert list(faults(sql, database(dialect), scope_of(dialect))) == []
