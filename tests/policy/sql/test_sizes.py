"""What a statement multiplies in one row stays small: servers do not look at the clock inside of a function."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.policy.sql.lab import allowed, refused

_CASES = yaml.safe_load(Path(__file__).with_name("sizes.yaml").read_text(encoding="utf-8"))


def _cases(kind: str) -> list[tuple[str, str]]:
    return [(dialect, sql) for dialect, given in _CASES[kind].items() for sql in given]


def _nested(before: str, value: str, behind: str, depth: int) -> str:
    return f"SELECT {before * depth}{value}{behind * depth} FROM customers"


def _doubled(depth: int) -> str:
    steps = [f"t{step} AS (SELECT v || v || v || v AS v FROM t{step - 1})" for step in range(1, depth)]
    return f"WITH t0 AS (SELECT repeat('x', 1000) AS v), {', '.join(steps)} SELECT length(v || v) FROM t{depth - 1}"


NESTED = [
    _nested("quote_literal(", "repeat(name, 1000)", ")", 18),
    _nested("encode(convert_to(", "repeat(name, 1000)", ", 'UTF8'), 'hex')", 14),
    _nested("to_json(CAST(", "repeat(name, 1000)", " AS text))", 14),
    _doubled(8),
    f"SELECT {' + '.join(['div(10.0 ^ id / 7, 10.0 ^ (id / 2) / 3)'] * 12)} FROM orders",
]


@pytest.mark.parametrize(("dialect", "sql"), [*_cases("large"), *(("postgres", sql) for sql in NESTED)])
def test_what_multiplies_in_one_row_is_refused_with_what_to_do(dialect: str, sql: str) -> None:
    assert refused(sql, dialect=dialect).rule == "sql:size"


@pytest.mark.parametrize(("dialect", "sql"), _cases("small"))
def test_what_analysts_join_repeat_and_replace_is_allowed(dialect: str, sql: str) -> None:
    allowed(sql, dialect=dialect)
