"""Orders of joined rows that need no tie-break, and those that do."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed

_ONE = "FROM g a, orders o WHERE o.id = '1' ORDER BY a.country"
_GROUPED = "WITH g AS (SELECT country, name, count(*) AS n FROM customers GROUP BY country, name)"


def _order(sql: str, *parameters: object, dialect: str = "postgres") -> str:
    return allowed(sql, *parameters, dialect=dialect).sql.rpartition(" ORDER BY ")[2].partition(" LIMIT ")[0]


@pytest.mark.parametrize(
    ("sql", "order"),
    [
        (
            "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id ORDER BY c.id, o.id",
            "c.id, o.id",
        ),
        ("SELECT c.name FROM customers c, orders o WHERE c.id = o.id ORDER BY o.id", "o.id"),
        (
            "SELECT c.name FROM customers c, orders o WHERE c.id = o.id AND o.id = c.id ORDER BY 1, c.id DESC",
            "1, c.id DESC",
        ),
        (
            "SELECT c.name FROM customers c CROSS JOIN orders o WHERE (c.id = '1' AND o.total > '2') ORDER BY o.id",
            "o.id",
        ),
        ("SELECT c.name FROM customers c CROSS JOIN orders o WHERE c.id = $1 ORDER BY o.id", "o.id"),
        (
            f"{_GROUPED} SELECT a.n FROM g a, g b WHERE a.country = b.country AND a.name = b.name ORDER BY b.country, a.name",
            "b.country, a.name",
        ),
        (
            f"{_GROUPED} SELECT a.n FROM g a, g b WHERE a.country = b.country AND a.name = 'x' AND b.name = 'y' ORDER BY a.country",
            "a.country",
        ),
    ],
)
def test_an_order_by_keys_of_all_sources_stays(sql: str, order: str) -> None:
    assert _order(sql, *(["1"] if "$1" in sql else [])) == order


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id ORDER BY c.id",
        "SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.id = c.id ORDER BY o.id",
        "SELECT c.name, o.total FROM customers c JOIN orders o ON o.id <> c.id ORDER BY c.id",
        "SELECT c.name, o.total FROM customers c JOIN orders o ON o.id = c.id OR o.total = '1' ORDER BY c.id",
        "SELECT c.name, o.total FROM customers c JOIN orders o ON NOT o.id = c.id ORDER BY c.id",
        "SELECT c.name, o.total FROM customers c JOIN orders o USING (id) ORDER BY o.id",
        "SELECT c.name, o.total FROM customers c JOIN orders o ON o.id = lower(c.id) ORDER BY c.id",
        "SELECT c.name, generate_series(1, 2) FROM customers c JOIN orders o ON o.id = c.id ORDER BY c.id",
        "SELECT c.name, o.total FROM customers c, orders o, LATERAL (SELECT 1 AS x) l WHERE o.id = c.id ORDER BY c.id",
        "SELECT c.name, o.total FROM customers c JOIN (SELECT * FROM orders) o ON o.id = c.id ORDER BY c.id",
        "SELECT C.name FROM customers \"C\", customers c WHERE C.id = '1' ORDER BY c.id",
        f"{_GROUPED} SELECT a.n FROM g a, g b WHERE a.country = b.country ORDER BY a.country, a.name",
        f"{_GROUPED} SELECT a.n FROM g a, g b WHERE a.country = b.country AND a.name > 'x' AND b.name = 'y' ORDER BY a.country",
        "WITH g(y, country) AS (SELECT country, name FROM customers GROUP BY country, name) SELECT y " + _ONE,
        "WITH g AS (SELECT country, count(*) AS n FROM customers GROUP BY country, name) SELECT a.n, o.total " + _ONE,
        "WITH g AS (SELECT country, n FROM customers, LATERAL (SELECT 1 AS n) l GROUP BY country, n) SELECT a.n, o.id " + _ONE,
        "WITH g AS (SELECT country FROM customers GROUP BY ROLLUP (country)) SELECT a.country, o.total " + _ONE,
        "WITH g AS (SELECT upper(country) AS country FROM customers GROUP BY country) SELECT a.country, o.total " + _ONE,
    ],
)  # fmt: skip
def test_another_order_has_a_tie_break(sql: str) -> None:
    asked = sql.rpartition(" ORDER BY ")[2]
    assert _order(sql).startswith(f"{asked}, ")


@pytest.mark.parametrize("dialect", ["mysql", "sqlite", "duckdb"])
def test_engines_that_group_otherwise_than_they_compare_have_a_tie_break(dialect: str) -> None:
    sql = "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id ORDER BY c.id, o.id"
    assert len(_order(sql, dialect=dialect)) > len("c.id, o.id")
