"""Statements from manuals to the database of an airline, a library and others are accepted, and answered as by the engine.

They are asked as they are and through a row filter.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb as duckdb_driver
import pytest

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.honest import Engine, check_statements
from tests.connectors.sql.guard.operations.operations import ENGINES, open_operations, operations_statements
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

_AT_LEAST = 750
# A sample of a subquery is not one of the table, and numbers of rows would count hidden ones.
_WITHOUT_FILTER = ("SAMPLE", "rowid", "_rowid_", "INDEXED", "SUMMARIZE")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with open_operations(request.param, tmp_path_factory.mktemp(request.param)) as opened:
        yield opened


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_a_statement_is_accepted_and_answered_like_the_engine(engine: Engine, rows: str | None) -> None:
    statements = operations_statements(engine.dialect)
    check_statements(engine, statements, rows, at_least=_AT_LEAST, without_filter=_WITHOUT_FILTER)


def _judge(engine: Engine, sql: str, scope: SqlScope | None = None) -> Statement | Deny:
    return guard(sql, [], database=engine.database, scope=scope or open_scope(engine.database), attributes={})


def _refused(engine: Engine, sql: str, scope: SqlScope | None = None) -> Deny:
    verdict = _judge(engine, sql, scope)
    assert isinstance(verdict, Deny), verdict
    return verdict


duckdb = pytest.mark.parametrize("engine", ["duckdb"], indirect=True)


@duckdb
@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT 5! AS x", "factorial(5)"),
        ("SELECT 3 + 2! AS x", "3 + factorial(2)"),
        ("SELECT -3! AS x", "-factorial(3)"),
        ("SELECT 2 * d.id! AS x FROM depots d", "2 * factorial(d.id)"),
        ("SELECT abs(-3)! AS x", "factorial(abs(-3))"),
        ("SELECT (1 + 2)! || 'x' AS x", "factorial((1 + 2))"),
        ("SELECT 1 AS x WHERE 3! = 6 AND 3! > 5", "factorial(3) = 6 AND factorial(3) > 5"),
    ],
)
def test_a_factorial_is_a_call(engine: Engine, sql: str, read: str) -> None:
    verdict = _judge(engine, sql)
    assert isinstance(verdict, Statement), verdict
    assert read in verdict.sql
    assert engine.rows(verdict.sql) == engine.rows(sql)


@duckdb
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT !5",
        "SELECT ! true",
        "SELECT 5!!",
        "SELECT 3 !~ 'a' !",
        "SELECT x::INT! FROM (SELECT 3 AS x)",
        "SELECT 'a'! FROM depots",
        "SELECT depots!",
        "SELECT factorial(1e9)! FROM flights!",
        "SELECT 1 FROM depots! d",
        "SELECT (SELECT number FROM flights)!!",
        "SELECT _toolgen_x!",
    ],
)
def test_a_sign_that_is_no_factorial_is_refused(engine: Engine, sql: str) -> None:
    _refused(engine, sql)


@duckdb
def test_labels_alone_are_cast_to_an_enum(engine: Engine) -> None:
    for sql in (
        "SELECT 'short'::loan_kind AS k",
        "SELECT CAST('long' AS main.Loan_Kind) AS k",
        "SELECT ['short', 'long']::loan_kind[] AS k",
        "SELECT count(*) FROM loans WHERE kind >= 'long'::\"loan_kind\"",
    ):
        verdict = _judge(engine, sql)
        assert isinstance(verdict, Statement), verdict
        assert "main.loan_kind" in verdict.sql
        assert engine.rows(verdict.sql) == engine.rows(sql)
    assert "'reference'" in _refused(engine, "SELECT 'gone'::loan_kind").suggestion
    for sql in (
        "SELECT title::loan_kind FROM books",
        "SELECT upper('short')::loan_kind",
        "SELECT ['gone']::loan_kind[]",
    ):
        assert _refused(engine, sql).rule == "sql:type"


@duckdb
@pytest.mark.parametrize(
    "loans",
    [TableScope(columns=("id", "lent")), TableScope(masks={"kind": "'x'"}), None],
    ids=["hidden", "mask", "none"],
)
def test_an_enum_of_a_hidden_column_has_no_name(engine: Engine, loans: TableScope | None) -> None:
    tables = {"books": TableScope(), **({"loans": loans} if loans is not None else {})}
    verdict = _refused(engine, "SELECT 'short'::loan_kind", SqlScope(tables=tables, max_rows=10))
    assert "reference" not in verdict.suggestion
    unknown = _refused(engine, "SELECT 'short'::no_kind", SqlScope(tables=tables, max_rows=10))
    assert (unknown.reason, unknown.suggestion) == (verdict.reason, verdict.suggestion)


_NARROW = SqlScope(
    tables={
        "flights": TableScope(columns=("id", "number", "carrier", "delay")),
        "members": TableScope(columns=("id", "name")),
        "payslips": TableScope(rows="department = 'hr'"),
    },
    max_rows=100,
)


@duckdb
@pytest.mark.parametrize(
    "call", ["max_by(f, f.id)", "arg_min(f, f.delay)", "first(f)", "any_value(f)", "list(f)", "max_by(f, id, 2)"]
)
def test_the_row_of_a_table_has_its_visible_columns(engine: Engine, call: str) -> None:
    verdict = _judge(engine, f"SELECT {call} AS row FROM flights f", _NARROW)
    assert isinstance(verdict, Statement), verdict
    [(row,)] = engine.rows(verdict.sql)[1]
    for one in row if isinstance(row, list) else [row]:
        assert isinstance(one, dict)
        assert one.keys() == {"id", "number", "carrier", "delay"}


@duckdb
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT captain FROM (SELECT unnest(crew) FROM flights)",
        "SELECT captain FROM (SELECT crew.* FROM flights)",
        "SELECT unnest(crew) FROM flights",
        "SELECT city FROM (SELECT unnest(contact, recursive := true) FROM members)",
        "SELECT captain FROM (SELECT unnest(f) FROM flights f)",
        "SELECT hash(f) FROM flights f",
        "SELECT f::VARCHAR FROM flights f",
        "SELECT max_by(f, f.fare) FROM flights f",
        "SELECT max_by(fare, f) FROM flights f",
        "SELECT * RENAME (fare AS price) FROM flights ORDER BY price",
        "SELECT * RENAME (id AS n) FROM flights ORDER BY fare",
        "SELECT * RENAME (id AS fare) FROM flights WHERE fare > 3",
        "SELECT fare! FROM flights",
        "SELECT fare::UNION(a INTEGER) FROM flights",
        "SELECT 1::UNION(a nothing)",
        "SELECT crew.* EXCLUDE (size) FROM flights",
        "SELECT crew.* RENAME (size AS n) FROM flights",
        "SELECT contact.* EXCLUDE (email) FROM members",
        "SELECT city FROM (SELECT unnest(contact.address) FROM members)",
        "SELECT city FROM (SELECT unnest(m.contact.address) FROM members m)",
        "SELECT COLUMNS(* REPLACE (fare AS id)) FROM flights",
        "SELECT COLUMNS(* REPLACE (1 AS fare)) FROM flights",
        "SELECT list_transform([f], lambda r : r['fare']) FROM flights f",
        "SELECT id FROM flights f WHERE f['fare'] > 3",
    ],
)
def test_hidden_columns_stay_hidden(engine: Engine, sql: str) -> None:
    _refused(engine, sql, _NARROW)


@duckdb
def test_a_field_of_a_row_is_one_of_its_visible_columns(engine: Engine) -> None:
    verdict = _judge(engine, "SELECT f['fare'] FROM flights f", _NARROW)
    assert isinstance(verdict, Statement), verdict
    with pytest.raises(duckdb_driver.BinderException):
        engine.rows(verdict.sql)


@duckdb
def test_a_name_that_a_struct_lacks_is_no_column(engine: Engine) -> None:
    verdict = _refused(engine, "SELECT pilot FROM (SELECT crew.* FROM flights)")
    assert verdict.suggestion == "available: captain, size"


@duckdb
@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT payslips ON department USING sum(gross) GROUP BY month",
        "SELECT * FROM (PIVOT payslips ON department USING sum(gross))",
        "WITH p AS (PIVOT payslips ON department USING sum(gross)) FROM p",
    ],
)
def test_a_pivot_without_values_says_what_to_ask_first(engine: Engine, sql: str) -> None:
    verdict = _refused(engine, sql)
    assert verdict.rule == "sql:pivot"
    assert "SELECT DISTINCT department FROM payslips" in verdict.suggestion
    assert "PIVOT payslips ON department IN ('…', '…')" in verdict.suggestion


@duckdb
def test_a_pivot_of_days_and_truth_values_is_that_of_the_engine(engine: Engine) -> None:
    for sql in (
        "PIVOT payslips ON month IN (DATE '2024-10-01', DATE '2024-11-01') USING sum(gross) GROUP BY employee ORDER BY ALL",
        "FROM (SELECT delay > 9 AS late, carrier FROM flights) PIVOT (count(*) FOR late IN (true, false) GROUP BY carrier) ORDER BY ALL",
    ):
        verdict = _judge(engine, sql)
        assert isinstance(verdict, Statement), verdict
        assert engine.rows(verdict.sql) == engine.rows(sql)
    _refused(engine, "PIVOT payslips ON month IN (DATE '1 Oct 2024') USING sum(gross)")


sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@sqlite
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM loans WHERE id IN books",
        "SELECT id FROM loans WHERE id IN main.books",
        "SELECT id FROM loans WHERE id IN sqlite_schema",
        "SELECT id FROM loans WHERE id IN pragma_table_list",
        "SELECT id FROM loans WHERE id IN json_each('[1]')",
        "WITH loans AS (SELECT id FROM books) SELECT id FROM main.loans WHERE id IN loans",
    ],
)
def test_a_table_behind_in_is_one_of_the_policy(engine: Engine, sql: str) -> None:
    _refused(engine, sql, SqlScope(tables={"loans": TableScope(columns=("id",))}, max_rows=10))


@sqlite
def test_a_table_behind_in_has_its_visible_columns_and_rows(engine: Engine) -> None:
    scope = SqlScope(tables={"depots": TableScope(columns=("id",), rows="id < 3"), "loans": TableScope()}, max_rows=100)
    verdict = _judge(engine, "SELECT id FROM loans WHERE id IN depots ORDER BY id", scope)
    assert isinstance(verdict, Statement), verdict
    assert engine.rows(verdict.sql)[1] == [(1,), (2,)]
