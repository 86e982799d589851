"""Statements of analysts to the database of a company are accepted, and answered as by the engine, with and without a row filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.business.company import ENGINES, company_statements, open_company
from tests.connectors.sql.guard.honest import Engine, check_statements
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

_AT_LEAST = 350
_WITHOUT_FILTER = ("TABLESAMPLE", "AGAINST")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with open_company(request.param) as opened:
        yield opened


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_a_statement_is_accepted_and_answered_like_the_engine(engine: Engine, rows: str | None) -> None:
    statements = company_statements(engine.dialect)
    check_statements(engine, statements, rows, at_least=_AT_LEAST, without_filter=_WITHOUT_FILTER)


def _judge(engine: Engine, sql: str, *parameters: str, scope: SqlScope | None = None) -> Statement | Deny:
    opened = scope or open_scope(engine.database)
    return guard(sql, parameters, database=engine.database, scope=opened, attributes={})


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT 'gone'::order_status", "'paid'"),
        ("SELECT '{paid,gone}'::order_status[]", "'paid'"),
        ("SELECT ARRAY['paid', channel]::order_status[] FROM orders", "'paid'"),
        ("SELECT channel::order_status FROM orders", "column::text"),
        ("SELECT 'paid'::hr.order_status", "TEXT"),
        ("SELECT 'paid'::\"Order_Status\"", "TEXT"),
        ("SELECT 1::order_state", "TEXT"),
    ],
)
def test_only_labels_are_cast_to_an_enum(engine: Engine, sql: str, told: str) -> None:
    verdict = _judge(engine, sql)
    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:type"
    assert told in verdict.suggestion


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_the_type_of_an_enum_is_sent_with_its_schema(engine: Engine) -> None:
    for sql in ("SELECT 'paid'::ORDER_STATUS", "SELECT CAST($1 AS public.order_status)"):
        verdict = _judge(engine, sql, *(["paid"] if "$1" in sql else []))
        assert isinstance(verdict, Statement)
        assert '"public"."order_status"' in verdict.sql


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_an_enum_of_a_hidden_column_has_no_name(engine: Engine) -> None:
    for hidden in (
        {"orders": TableScope(columns=("id",))},
        {"orders": TableScope(masks={"status": "'x'"})},
        {"customers": TableScope()},
    ):
        verdict = _judge(engine, "SELECT 'paid'::order_status", scope=SqlScope(tables=hidden, max_rows=10))
        assert isinstance(verdict, Deny)
        assert "paid" not in verdict.suggestion


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(c) FROM repeat('x', 1000) a, LATERAL repeat(a, 1000) b, LATERAL repeat(b, 1000) c",
        "SELECT length(c.t) FROM repeat('x', 1000) a(t), repeat(a.t, 1000) b(t), replace(b.t, 'x', repeat('y', 1000)) c(t)",
        "SELECT length(c) FROM ROWS FROM (repeat('x', 1000), repeat('y', 1000)) t(a, b), repeat(a, 1000) d, replace(d, 'x', b) c",
    ],
)
def test_values_of_functions_in_from_count_where_they_are_used(engine: Engine, sql: str) -> None:
    verdict = _judge(engine, sql)
    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:size"


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize("sql", ["SELECT * FROM sum(1) s", "SELECT * FROM pg_sleep(1) s", "SELECT * FROM version() v"])
def test_a_function_that_is_not_listed_or_needs_rows_does_not_stand_in_from(engine: Engine, sql: str) -> None:
    verdict = _judge(engine, sql)
    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:function"


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize("rows", [None, "1 = 1"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(employees) FROM employees",
        "SELECT d.name, count(e) FROM departments d LEFT JOIN employees e ON e.department_id = d.id GROUP BY 1 ORDER BY 1",
        "SELECT d.name FROM departments d LEFT JOIN employees e ON e.department_id = d.id AND e.salary > 90000 WHERE e IS NULL ORDER BY 1",
        "SELECT count(*) FILTER (WHERE i IS NULL) FROM products p LEFT JOIN order_items i ON i.product_id = p.id",
        "SELECT count(name) FROM departments name",
        "SELECT d.id, (SELECT count(e) FROM employees e WHERE e.department_id = d.id) FROM departments d ORDER BY 1",
    ],
)
def test_rows_that_an_outer_join_adds_are_told_by_their_table(engine: Engine, sql: str, rows: str | None) -> None:
    verdict = guard(sql, [], database=engine.database, scope=open_scope(engine.database, rows), attributes={})
    assert isinstance(verdict, Statement), verdict
    assert engine.rows(verdict.sql) == engine.rows(sql)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM employees e WHERE e IS NOT NULL",  # no column is null
        "SELECT count(*) FROM employees e WHERE NOT e IS NULL",
        "SELECT count(DISTINCT e) FROM employees e",
        "SELECT max(e) FROM employees e",
        "SELECT e FROM employees e",
        "SELECT count(name) FROM employees name, departments d",  # a column comes first
    ],
)
def test_other_uses_of_a_whole_row_are_refused_or_columns(engine: Engine, sql: str) -> None:
    verdict = _judge(engine, sql)
    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:whole-row"
