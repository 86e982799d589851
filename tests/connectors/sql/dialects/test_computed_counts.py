"""A count of repeat and of its kind that is worked out is bounded: the same text up to the bound, and an error beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.honest import open_engine
from toolgen.connectors.sql.dialects.computed_counts import bounded_count
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.text import parse
from toolgen.model.call import Statement

_DIALECTS: Final = ("postgres", "mysql", "duckdb")
_LARGEST: Final = 1_000


def _count(number: int) -> str:
    return f"(id - 101 + {number})"  # of the invoice 101, where no engine knows it before it runs


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_a_text_is_the_engines_up_to_the_bound_and_an_error_beyond_it(dialect: str, tmp_path: Path) -> None:
    with open_engine(dialect, tmp_path) as engine:
        scope = open_scope(engine.database)
        for number in (-3, 0, 1, 7, 999, _LARGEST):
            for call in (f"repeat('ab', {_count(number)})", f"lpad('x', {_count(number)}, '-')"):
                sql = f"SELECT {call} AS x FROM invoices WHERE id = 101"
                verdict = guard(sql, [], database=engine.database, scope=scope, attributes={})
                assert isinstance(verdict, Statement), f"{sql}: {verdict}"
                assert engine.rows(verdict.sql) == engine.rows(sql)
        for number in (_LARGEST + 24, 100_000, 2_000_000_000):
            sql = f"SELECT repeat('ab', {_count(number)}) AS x FROM invoices WHERE id = 101"
            verdict = guard(sql, [], database=engine.database, scope=scope, attributes={})
            assert isinstance(verdict, Statement)
            with pytest.raises(Exception, match=r"(?i)out of range"):
                engine.rows(verdict.sql)


@pytest.mark.parametrize("dialect", _DIALECTS)
@pytest.mark.parametrize(
    ("count", "is_bounded"),
    [
        ("id", True),
        ("-id", True),
        ("-(0 - 100000000)", True),
        ("(SELECT max(id) FROM invoices)", True),
        ("7", False),
        ("-7", False),
        ("least(id, 7)", False),
    ],
)
def test_a_count_that_is_not_written_out_is_bounded(dialect: str, count: str, is_bounded: bool) -> None:
    call = parse(f"SELECT repeat('x', {count}) FROM invoices", dialect).root.expressions[0]
    assert (bounded_count(call.expressions[1]) > 0) == is_bounded


def test_a_division_by_another_number_bounds_nothing() -> None:
    for count in ("CAST((id * 33) AS SMALLINT) / 32", "CAST((id + 32) AS SMALLINT) / 32", "id * 32 / 32"):
        call = parse(f"SELECT least(1, {count}) FROM invoices", "postgres").root.expressions[0]
        assert bounded_count(call.expressions[1]) == 0
