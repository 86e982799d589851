"""Payloads in every place of a statement: nothing that is hidden stands in what runs, and every refusal says what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.connectors.sql.guard.attack_forms import HIDDEN_NAMES, attack_forms
from tests.connectors.sql.guard.lab import judge
from tests.exhaustive import part
from toolgen.connectors.sql.guard.text import parse
from toolgen.model.call import Statement

_EVERY: Final = 9  # attack in the default run
_AT_LEAST: Final = 4000


def _attacks(dialect: str) -> Iterator[str]:
    yield from part([*dict.fromkeys(attack_forms(dialect))], _EVERY)


@pytest.mark.sweep
@pytest.mark.parametrize("dialect", ["bigquery", "clickhouse", "duckdb", "snowflake", "sqlite"])
def test_nothing_hidden_stands_in_what_runs(dialect: str) -> None:
    assert sum(1 for _ in attack_forms(dialect)) > _AT_LEAST
    faults = []
    ran = 0
    for sql in _attacks(dialect):
        verdict = judge(sql, dialect=dialect)
        if not isinstance(verdict, Statement):
            assert verdict.rule != "sql:internal", sql
            assert verdict.suggestion, sql
            continue
        ran += 1
        parse(verdict.sql, dialect)
        if any(name in verdict.sql.lower() for name in HIDDEN_NAMES):
            faults.append(f"{sql}\n  {verdict.sql}")
    assert not faults, "\n".join(faults)
    assert ran > 5


_GENERAL: Final = ("write it with SELECT, joins", "write it more simply", "compute it another way", "send a SELECT;")
_ADVICE: Final = {
    "SELECT id FROM customers WHERE name LIKE 'a' ESCAPE (SELECT 'x')": "ESCAPE and one character",
    "SELECT id FROM customers WHERE name GLOB (SELECT 'x')": "q.p",
    "SELECT id FROM customers ORDER id": "id does not fit there",
    "SELECT id FROM memory.main.customers": "the database out",
    "SELECT id FROM customers USING SAMPLE ssn": "USING SAMPLE 10 ROWS",
    "SELECT getenv('HOME')": "closed",
    "SELECT setseed(0.5)": "its own session",
    "SELECT query('SELECT 1')": "FROM (SELECT",
    "SELECT error('x')": "WHERE",
    "SELECT alias(name) FROM customers": "describe_table",
    "SELECT json_made_up('{}')": "json",
    "COPY customers TO 'x.csv'": "rows are the answer",
    "ATTACH 'x.db'": "list_tables",
    "CALL f()": "SELECT",
    "DROP TABLE customers": "reads",
}


@pytest.mark.parametrize("sql", _ADVICE)
def test_a_refusal_says_what_to_write(sql: str) -> None:
    verdict = judge(sql, dialect="duckdb")
    assert not isinstance(verdict, Statement)
    assert _ADVICE[sql] in verdict.suggestion


@pytest.mark.sweep
@pytest.mark.parametrize("dialect", ["bigquery", "clickhouse", "duckdb", "snowflake", "sqlite"])
def test_no_refusal_of_an_attack_has_general_advice_alone(dialect: str) -> None:
    for sql in _attacks(dialect):
        verdict = judge(sql, dialect=dialect)
        assert isinstance(verdict, Statement) or not verdict.suggestion.startswith(_GENERAL), f"{sql}\n  {verdict}"
