"""`+x`, `@ x` and words that are names behind a dot, as each engine reads them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.connectors.sql.guard.lab import allowed, refused
from toolgen.connectors.sql.guard.guard import DIALECTS


@pytest.mark.parametrize("dialect", sorted(DIALECTS - {"tsql"}))  # after TOP (n) a + is refused: it could be a sum
@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("+id", "+(id)"),
        ("+ o.id", "+(o.id)"),
        ("+(id)", "+(id)"),
        ("-+id", "-+(id)"),
        ("+abs(id) + 1", "+(abs(id)) + 1"),
        ("1 + +id", "1 + +(id)"),
        ("+5", "+(5)"),
    ],
)
def test_a_plus_before_a_value_is_sent(dialect: str, written: str, sent: str) -> None:
    text = allowed(f"SELECT {written} AS x FROM orders AS o", dialect=dialect).sql
    if dialect == "snowflake":  # names are written in capital letters and quotes
        text = text.replace('"', "").replace("ID", "id").replace("O.", "o.").replace("AS X", "AS x")
    assert f"SELECT {sent} AS x" in text.replace("`", "")


def test_a_plus_takes_the_affinity_of_a_column_away() -> None:
    statement = "SELECT count(*) FROM (SELECT 5 AS id) AS q WHERE +id = '5'"
    with closing(sqlite3.connect(":memory:")) as engine:
        engine.execute("CREATE TABLE orders (id INTEGER)")
        engine.execute("ATTACH ':memory:' AS aux1")
        engine.execute("INSERT INTO orders VALUES (5)")
        assert engine.execute("SELECT count(*) FROM orders WHERE id = '5'").fetchall() == [(1,)]
        sent = allowed(statement.replace("(SELECT 5 AS id) AS q", "orders")).sql
        assert engine.execute(sent).fetchall() == [(0,)]


def test_a_signed_number_is_no_place_of_a_column() -> None:
    assert "ORDER BY +(2)" in allowed("SELECT id, status FROM orders ORDER BY +2").sql
    assert "LIMIT 3" in allowed("SELECT id FROM orders LIMIT +3").sql


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
@pytest.mark.parametrize(("written", "sent"), [("@ total", "@(total)"), ("@(total - 1)", "@(total - 1)")])
def test_an_absolute_value_is_sent(dialect: str, written: str, sent: str) -> None:
    assert f"SELECT {sent} AS x" in allowed(f"SELECT {written} AS x FROM orders", dialect=dialect).sql


@pytest.mark.parametrize("written", ["@ total + 1", "@ total::int", "@ total * 2"])
def test_an_absolute_value_before_a_tighter_operator_is_refused(written: str) -> None:
    assert "abs(x)" in refused(f"SELECT {written} AS x FROM orders", dialect="postgres").suggestion


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("written", ["+ssn", "+(ssn)", "+c.ssn", "+length(ssn)", "1 + +ssn", "@ ssn", "@(ssn)"])
def test_no_sign_hides_a_hidden_column(dialect: str, written: str) -> None:
    refused(f"SELECT {written} AS x FROM customers AS c", dialect=dialect)
    refused(f"SELECT id FROM customers AS c WHERE {written} > 0", dialect=dialect)
    refused(f"SELECT id FROM customers AS c ORDER BY {written}", dialect=dialect)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize(
    "written", ["+load_file('/etc/passwd')", "+(SELECT password FROM users_secret)", "+(1, 2)", '"+"(1)', "+sleep(5)"]
)
def test_a_sign_is_no_way_around_the_guard(dialect: str, written: str) -> None:
    refused(f"SELECT {written} AS x FROM orders", dialect=dialect)


@pytest.mark.parametrize("word", ["first", "next"])
def test_a_word_behind_a_dot_is_a_name(word: str) -> None:
    sql = f"SELECT q.{word} + 1 AS x, q.{word} + id AS y FROM orders, (SELECT 1 AS {word}) AS q"
    assert f"q.{word} + id" in allowed(sql, dialect="postgres").sql


@pytest.mark.parametrize("kind", ["SEMI", "ANTI"])
def test_a_star_of_duckdb_has_no_columns_of_rows_that_are_looked_for(kind: str) -> None:
    sql = f"SELECT * FROM customers {kind} JOIN orders ON orders.customer_id = customers.id"
    assert '"orders"."' not in allowed(sql, dialect="duckdb").sql.partition(" FROM ")[0]
    refused(sql.replace("*", "orders.id"), dialect="duckdb")
    refused(f"SELECT * FROM orders {kind} JOIN customers ON customers.ssn = orders.detail", dialect="duckdb")
