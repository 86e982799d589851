"""What a policy's scope is checked for when it is loaded, and what it shows of a database."""

from __future__ import annotations

import msgspec
import pytest

from tests.connectors.sql.guard.lab import DATABASE, SCOPE, database, scope
from tests.messages import line_names
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.scope import check_scope, row_attributes, visible
from toolgen.connectors.sql.guard.table_samples import counting_of
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope


def faults(**tables: TableScope) -> list[str]:
    return check_scope(SqlScope(tables=tables), DATABASE)


def test_a_scope_that_fits_the_database_has_no_faults() -> None:
    assert check_scope(SCOPE, DATABASE) == []


def test_a_table_that_does_not_exist_is_named_with_the_nearest() -> None:
    (fault,) = faults(custmers=TableScope())
    assert line_names(fault, "table 'custmers'", "did you mean 'customers'?")


def test_a_column_that_does_not_exist_is_named_with_the_nearest() -> None:
    (fault,) = faults(customers=TableScope(columns=("id", "nmae")))
    assert line_names(fault, "table 'customers'", "column 'nmae'", "did you mean 'name'?")


def test_a_table_written_twice_is_a_fault() -> None:
    assert len(faults(orders=TableScope(), ORDERS=TableScope())) == 1


def test_what_a_table_opens_to_writes_must_be_there() -> None:
    writes = frozenset({"update"})

    (fault,) = faults(customers=TableScope(writes=writes, writable=("nmae",)))
    assert line_names(fault, "table 'customers'", "column 'nmae'", "did you mean 'name'?")
    assert "is a view" in faults(germans=TableScope(writes=writes))[0]
    assert line_names(faults(customers=TableScope(writable=("name",)))[0], "writable:", "no writes:")
    assert faults(customers=TableScope(writes=writes, writable=("name",))) == []


BROKEN = [
    "tenant = ",
    "tenant = :tenant; DROP TABLE x",
    "tenant = :tenant) OR (1 = 1",
    "1) LIMIT 5 --",
    "nobody = :tenant",
    "customers.tenant = :tenant",
    "tenant IN (SELECT password FROM users_secret)",
    "EXISTS (SELECT 1 FROM users_secret)",
    "load_extension(tenant)",
    "tenant = 'x' GROUP BY id",
    "tenant = ?",
    "tenant = @tenant",
    "",
    "*",
    "sum(1) OVER () = 1",
    "tenant IN users_secret",
]


@pytest.mark.parametrize("rows", BROKEN)
def test_a_row_filter_that_is_not_one_plain_condition_is_a_fault(rows: str) -> None:
    (fault,) = faults(tickets=TableScope(rows=rows))
    assert "tickets" in fault


SOUND = [
    ("tenant = :tenant", {"tenant"}),
    ("tenant = :tenant AND id > :least", {"tenant", "least"}),
    ("tenant = ':not' AND id = :yes", {"yes"}),
    ("tenant IN ('a', :b) OR body LIKE :c || '%'", {"b", "c"}),
    ("id > 5", set()),
    ("upper(tenant) = upper(:tenant)", {"tenant"}),
]


@pytest.mark.parametrize(("rows", "names"), SOUND)
def test_a_row_filter_says_which_attributes_it_needs(rows: str, names: set[str]) -> None:
    assert faults(tickets=TableScope(rows=rows)) == []
    assert row_attributes(SqlScope(tables={"tickets": TableScope(rows=rows)})) == names


def test_a_filter_may_use_a_column_it_hides() -> None:
    assert faults(tickets=TableScope(columns=("id", "body"), rows="tenant = :tenant")) == []


@pytest.mark.parametrize("name", ["max_rows", "max_bytes", "max_cell_bytes", "timeout_s"])
def test_a_size_must_be_more_than_nothing(name: str) -> None:
    (fault,) = check_scope(scope(**{name: 0}), DATABASE)
    assert "more than 0" in fault


def test_only_granted_tables_and_columns_are_visible() -> None:
    seen = visible(DATABASE, SCOPE)
    assert {table.name: [column.name for column in table.columns] for table in seen.tables} == {
        "customers": ["id", "name", "country"],
        "germans": ["id", "name"],
        "orders": ["id", "customer_id", "status", "total", "order", "detail"],
        "tickets": ["id", "tenant", "body"],
    }


def test_a_reference_to_something_hidden_is_hidden_too() -> None:
    orders = next(table for table in visible(DATABASE, SCOPE).tables if table.name == "orders")
    assert orders.references == {"customer_id": "customers.id"}
    alone = visible(DATABASE, SqlScope(tables={"orders": TableScope()})).tables[0]
    assert alone.references == {}
    keyless = visible(DATABASE, SqlScope(tables={"orders": TableScope(columns=("total",))})).tables[0]
    assert (keyless.references, keyless.primary_key) == ({}, ())


@pytest.mark.parametrize(
    ("granted", "shown"),
    [
        (TableScope(), {"total > 0", "length(status) < 9"}),
        (TableScope(columns=("id", "total")), {"total > 0"}),
        (TableScope(masks={"total": "***"}), {"length(status) < 9"}),
    ],
)
def test_a_check_is_shown_where_all_that_it_names_is(granted: TableScope, shown: set[str]) -> None:
    (orders,) = (table for table in DATABASE.tables if table.name == "orders")
    checked = msgspec.structs.replace(orders, checks=("total > 0", "length(status) < 9"))
    known = msgspec.structs.replace(DATABASE, tables=(checked,))

    (seen,) = visible(known, SqlScope(tables={"orders": granted})).tables

    assert set(seen.checks) == shown


def test_a_name_longer_than_postgres_keeps_is_cut_there_alone() -> None:
    long = "c" * 70
    for dialect, named in (("postgres", "c" * 63), ("duckdb", long), ("mysql", "c" * 64)):
        table = Table(name="t", columns=(Column(name=named, type="TEXT"),))
        verdict = guard(
            f"SELECT {named if dialect == 'mysql' else long} FROM t",
            [],
            database=Database(dialect=dialect, tables=(table,)),
            scope=SqlScope(tables={"t": TableScope()}),
            attributes={},
        )
        assert isinstance(verdict, Statement), (dialect, verdict)
        assert f"SELECT {named} FROM" in verdict.sql


def test_a_table_is_described_by_its_own_spelling_before_another() -> None:
    tables = tuple(Table(name=name, columns=(Column(name="id", type="int"),)) for name in ("orders", "Orders"))
    known = Database(dialect="postgres", tables=tables)
    scope = SqlScope(tables={"orders": TableScope(), "Orders": TableScope()})

    counted = [counting_of(name, database=known, scope=scope) for name in ("orders", "Orders", "ORDERS", "other")]

    assert [one.parameters[0] if one else None for one in counted] == [
        '"public"."orders"',
        '"public"."Orders"',
        '"public"."orders"',
        None,
    ]


def test_an_empty_scope_shows_nothing() -> None:
    assert visible(DATABASE, SqlScope()).tables == ()


def test_postgres_tables_are_named_by_their_exact_case_and_schema() -> None:
    wide = database("postgres")
    assert check_scope(SqlScope(tables={"Customers": TableScope(), "hr.orders": TableScope()}), wide) == []
    assert len(check_scope(SqlScope(tables={"CUSTOMERS": TableScope()}), wide)) == 1
