"""Common table expressions with the name of a table, defined behind a query that uses it: engines differ in what the name means there."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import duckdb
import pytest

from tests.connectors.sql.guard.lab import judge
from toolgen.model.call import Statement
from toolgen.model.verdict import Deny

FORWARD = "WITH {recursive} a AS (SELECT COUNT(*) AS n FROM orders), orders AS (SELECT 1 AS x) SELECT n FROM a"
INNER = (
    "WITH {recursive} a AS (SELECT n FROM (WITH b AS (SELECT COUNT(*) AS n FROM orders) SELECT n FROM b) AS q), "
    "orders AS (SELECT 1 AS x) SELECT n FROM a"
)
AROUND = (
    "WITH orders AS (SELECT 1 AS x) SELECT n FROM (WITH a AS (SELECT COUNT(*) AS n FROM orders), "
    "orders AS (SELECT 2 AS x UNION ALL SELECT 3) SELECT n FROM a) AS q"
)
SEES = {("sqlite", ""), ("sqlite", "RECURSIVE"), ("postgres", "RECURSIVE"), ("mysql", "RECURSIVE")}
"""Where the query of a common table expression sees a later one, as the engines say."""


@pytest.mark.parametrize("text", [FORWARD, INNER])
@pytest.mark.parametrize("recursive", ["", "RECURSIVE"])
@pytest.mark.parametrize("dialect", ["sqlite", "postgres", "mysql", "duckdb"])
def test_a_name_that_means_a_later_query_is_refused_and_a_table_is_read_elsewhere(
    text: str, recursive: str, dialect: str
) -> None:
    verdict = judge(text.format(recursive=recursive), dialect=dialect)
    if (dialect, recursive) in SEES:
        assert isinstance(verdict, Deny)
        assert verdict.rule == "sql:ambiguous"
        assert "defined later" in verdict.reason
    else:
        assert isinstance(verdict, Statement), verdict
        assert "orders" in verdict.tables


@pytest.mark.parametrize(
    ("dialect", "taken"), [("sqlite", False), ("postgres", True), ("mysql", False), ("duckdb", True)]
)
def test_a_query_around_it_is_read_where_the_engine_does(dialect: str, taken: bool) -> None:
    verdict = judge(AROUND, dialect=dialect)
    assert isinstance(verdict, Statement) is taken
    if isinstance(verdict, Statement):
        assert verdict.tables == frozenset()


def test_the_engines_here_see_what_the_rule_says() -> None:
    script = "CREATE TABLE orders (x INT); INSERT INTO orders VALUES (1), (2), (3)"
    with closing(sqlite3.connect(":memory:")) as lite, closing(duckdb.connect()) as duck:
        lite.executescript(script)
        duck.execute(script)
        for recursive in ("", "RECURSIVE"):
            for text in (FORWARD, INNER):
                statement = text.format(recursive=recursive)
                assert lite.execute(statement).fetchall() == [(1,)]
                assert duck.execute(statement).fetchall() == [(3,)]
