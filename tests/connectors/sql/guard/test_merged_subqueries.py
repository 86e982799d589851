"""Queries of MariaDB with a subquery in HAVING are answered by the groups that are asked for, with columns and rows hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.sql.guard.honest import open_engine, same_rows
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.sql_scope import SqlScope, TableScope

_QUERIES = (
    "SELECT invoice_id, SUM(qty) AS t FROM invoice_lines GROUP BY invoice_id"
    " HAVING SUM(qty * price) <> (SELECT amount FROM invoices WHERE id = invoice_id) ORDER BY invoice_id",
    "SELECT client, COUNT(*) FROM invoices GROUP BY client"
    " HAVING EXISTS (SELECT 1 FROM invoices j WHERE j.client = invoices.client AND j.amount > 100) ORDER BY client",
    "SELECT client, MAX(amount) AS m FROM invoices GROUP BY client"
    " HAVING m = (SELECT MAX(amount) FROM invoices j WHERE j.client = invoices.client) ORDER BY client",
)


@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_a_subquery_in_having_sees_its_own_group(rows: str | None, tmp_path: Path) -> None:
    with open_engine("mysql", tmp_path) as engine:
        scope = SqlScope(
            tables={
                table.name: TableScope(
                    columns=tuple(column.name for column in table.columns if column.name not in {"paid", "item"}),
                    rows=rows,
                )
                for table in engine.database.tables
            },
            max_rows=1000,
        )
        for sql in _QUERIES:
            verdict = guard(sql, [], database=engine.database, scope=scope, attributes={})
            assert isinstance(verdict, Statement)
            assert same_rows(sql, engine.rows(verdict.sql), engine.rows(sql)), verdict.sql
