"""Whole rows of tables stand for the columns that are visible, and fields of a row are columns of its table."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed, refused


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c FROM customers c",
        "SELECT customers FROM customers",
        "SELECT to_json(c) FROM customers c",
        "SELECT list(c) FROM customers c JOIN orders o ON o.customer_id = c.id",
        "SELECT unnest(c) FROM customers c",
        "SELECT struct_extract(c, 'ssn') FROM customers c",
        "SELECT x.c FROM (SELECT customers AS c FROM customers) x",
    ],
)
def test_a_row_of_a_table_in_duckdb_has_its_visible_columns(sql: str) -> None:
    statement = allowed(sql, dialect="duckdb")
    assert '"country"' in statement.sql
    assert '"ssn"' not in statement.sql
    assert "customers.ssn" not in statement.columns


def test_a_row_of_a_table_in_duckdb_is_one_that_the_filter_lets_through() -> None:
    assert "WHERE (tenant = ?)" in allowed("SELECT t FROM tickets t", dialect="duckdb").sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s FROM users_secret s",
        "SELECT hash(c) FROM customers c",
        "SELECT c = c FROM customers c",
        "SELECT id FROM customers c ORDER BY c",
    ],
)
def test_other_rows_are_refused(sql: str) -> None:
    refused(sql, dialect="duckdb")


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT (c).id FROM customers c", "SELECT c.id FROM"),
        ("SELECT (customers).name FROM customers", "SELECT customers.name FROM"),
        ("SELECT (c).* FROM customers c", 'SELECT c."id", c."name", c."country" FROM'),
        ("SELECT (SELECT (c).name) AS x FROM customers c", "SELECT (SELECT c.name) AS x FROM"),
        ("SELECT (t).name FROM customers c, LATERAL (SELECT c.name) t", "SELECT t.name FROM"),
    ],
)
def test_a_field_of_a_row_is_a_column_in_postgresql(sql: str, found: str) -> None:
    assert allowed(sql, dialect="postgres").sql.startswith(found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (c).ssn FROM customers c",
        "SELECT (SELECT (c).ssn) AS x FROM customers c",
        "SELECT id FROM customers c WHERE (c).ssn = '1'",
        'SELECT ("Customers").secret FROM "Customers"',
        "SELECT (c).id FROM customers c, (SELECT 1 AS c) q",
    ],
)
def test_a_field_that_is_hidden_or_could_be_of_a_column_is_refused(sql: str) -> None:
    refused(sql, dialect="postgres")
