"""The sample shop's database: the same bytes every time, something to hide in it, and a guard that hides it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from examples.shop.database import write
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.scope import check_scope
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.model.call import Statement
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

SCOPE = SqlScope(
    tables={
        "customers": TableScope(columns=("id", "name", "city"), rows="tenant = :tenant"),
        "products": TableScope(),
        "orders": TableScope(),
        "order_items": TableScope(),
        "sales_by_category": TableScope(),
    }
)


def test_it_is_the_same_database_every_time(tmp_path: Path) -> None:
    write(tmp_path / "a" / "shop.db")
    write(tmp_path / "shop.db")
    write(tmp_path / "shop.db")
    assert (tmp_path / "shop.db").read_bytes() == (tmp_path / "a" / "shop.db").read_bytes()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a", "shop.db"]


def test_its_rows_belong_together(tmp_path: Path) -> None:
    write(tmp_path / "shop.db")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        summed = "SELECT total, round((SELECT sum(quantity * unit_price) FROM order_items WHERE order_id = orders.id), 2) FROM orders"
        assert all(total == lines for total, lines in connection.execute(summed))


JUDGED = [
    ("SELECT name, city FROM customers", True),
    ("SELECT * FROM customers", True),
    ("SELECT c.name, sum(o.total) FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.id", True),
    ("SELECT * FROM sales_by_category ORDER BY revenue DESC", True),
    ("SELECT card_number FROM customers", False),
    ("SELECT id FROM customers WHERE card_number LIKE '4000%'", False),
    ("SELECT * FROM salaries", False),
    ("SELECT (SELECT max(amount) FROM salaries) FROM products", False),
]


@pytest.mark.parametrize(("sql", "runs"), JUDGED)
def test_what_nobody_may_see_stays_hidden(tmp_path: Path, sql: str, runs: bool) -> None:
    write(tmp_path / "shop.db")
    database = read_sql(
        SourceConfig(name="shop", kind="sql", location=f"sqlite:///{tmp_path / 'shop.db'}")
    ).info.database
    assert database is not None
    assert check_scope(SCOPE, database) == []
    verdict = guard(sql, [], database=database, scope=SCOPE, attributes={"tenant": "acme"})
    assert isinstance(verdict, Statement if runs else Deny)
