"""Pages of an ordered query: the cursor is good for its own question alone, and no page holds more than was asked or the policy gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.connectors.sql.guard import analysts
from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.honest import open_engine
from tests.connectors.sql.guard.lab import allowed, database, scope
from toolgen.connectors.sql.guard.cursors import page_of, text_digest
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.result import Success
from toolgen.model.verdict import Deny

pytestmark = pytest.mark.usefixtures("sql_processes")

SCOPE = scope(max_rows=10)


def page(sql: str, *parameters: object, cursor: str = "", dialect: str = "sqlite") -> Statement | Deny:
    return guard(
        sql,
        list(parameters),  # type: ignore[arg-type]
        database=database(dialect),
        scope=SCOPE,
        attributes={"tenant": "acme"},
        cursor=cursor,
    )


def following(statement: Statement | Deny, rows: int) -> str:
    assert isinstance(statement, Statement), statement
    assert statement.page
    return f"{statement.skip + rows}-{statement.page}"


PAGES = [
    ("SELECT id FROM orders ORDER BY id", [], ["LIMIT 10", "LIMIT 10 OFFSET 10", "LIMIT 10 OFFSET 20"]),
    (
        "SELECT id FROM orders ORDER BY id LIMIT 25",
        [],
        ["LIMIT 10", "LIMIT 10 OFFSET 10", "LIMIT 5 OFFSET 20", "LIMIT 0 OFFSET 30"],
    ),
    ("SELECT id FROM orders ORDER BY id LIMIT 15 OFFSET 5", [], ["LIMIT 10 OFFSET 5", "LIMIT 5 OFFSET 15"]),
    ("SELECT id FROM orders UNION SELECT id FROM customers ORDER BY 1", [], ["LIMIT 10", "LIMIT 10 OFFSET 10"]),
]


@pytest.mark.parametrize("dialect", TRANSACTIONAL)
@pytest.mark.parametrize(("sql", "sent", "ends"), PAGES)
def test_each_page_begins_where_the_one_before_ended(
    dialect: str, sql: str, sent: list[object], ends: list[str]
) -> None:
    cursor = ""
    for end in ends:
        statement = page(sql, *sent, cursor=cursor, dialect=dialect)
        cursor = following(statement, 10)
        assert isinstance(statement, Statement)
        assert statement.sql.endswith(end)


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        ("SELECT status FROM orders ORDER BY status", []),
        ("SELECT status FROM orders ORDER BY status LIMIT 15", []),
        ("SELECT status FROM orders ORDER BY status LIMIT ?", [15]),
        ("SELECT status FROM orders ORDER BY status LIMIT ?", [5]),
    ],
)
def test_every_page_is_ordered_down_to_the_last_row_alike(sql: str, sent: list[object]) -> None:
    first = page(sql, *sent)
    second = page(sql, *sent, cursor=following(first, 10))

    for statement in (first, second):
        assert isinstance(statement, Statement)
        assert "ORDER BY status, 1 LIMIT" in statement.sql


def test_an_order_of_rows_that_all_fit_is_left_as_it_was_written() -> None:
    statement = page("SELECT status FROM orders ORDER BY status LIMIT 5")

    assert isinstance(statement, Statement)
    assert "ORDER BY status LIMIT" in statement.sql


def test_a_limit_that_is_a_parameter_is_used_up_page_by_page() -> None:
    sql, cursor, limits = "SELECT id FROM orders ORDER BY id LIMIT ?", "", []
    for _ in range(4):
        statement = page(sql, 25, cursor=cursor)
        assert isinstance(statement, Statement)
        limits.append(statement.parameters)
        cursor = following(statement, 10)

    assert limits == [(10,), (10,), (5,), (0,)]


REFUSED = [
    ("SELECT id FROM orders", [], "10-{page}"),
    ("SELECT id FROM orders ORDER BY id", [], "10-0000000000000000"),
    ("SELECT id FROM orders ORDER BY id", [], "x-{page}"),
    ("SELECT id FROM orders ORDER BY id", [], "-10-{page}"),
    ("SELECT id FROM orders ORDER BY id", [], "0-{page}"),
    ("SELECT id FROM orders ORDER BY id", [], "9" * 40 + "-{page}"),
    ("SELECT id FROM orders ORDER BY id OFFSET ?", [5], "10-{page}"),
    *(
        ("SELECT id FROM orders ORDER BY id", [], cursor)
        for cursor in (
            "-",
            "1-",
            "-{page}",
            "01-{page}",
            "0000000000001" + "9" * 30 + "-{page}",
            "²-{page}",
            "1e3-{page}",
            "+1-{page}",
            "1-{page}-",
            " 1-{page}",
            "1-{page}\n",
            "10_0-{page}",
            "eyJvIjogMX0=",
            "x" * 9999,
        )
    ),
]


@pytest.mark.parametrize(("sql", "sent", "cursor"), REFUSED)
def test_a_cursor_that_is_none_of_this_statement_is_refused(sql: str, sent: list[object], cursor: str) -> None:
    dialect = "postgres" if "OFFSET" in sql else "sqlite"
    sql = sql.replace("?", "$1") if dialect == "postgres" else sql
    statement = page(sql, *sent, dialect=dialect)
    assert isinstance(statement, Statement)

    verdict = page(sql, *sent, cursor=cursor.format(page=statement.page), dialect=dialect)

    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:cursor"


def test_a_cursor_of_other_parameters_is_refused() -> None:
    sql = "SELECT id FROM orders WHERE id > ? ORDER BY id"

    verdict = page(sql, 2, cursor=following(page(sql, 1), 10))

    assert isinstance(verdict, Deny)


def test_a_query_without_an_order_has_no_pages() -> None:
    for sql in ("SELECT id FROM orders", "SELECT id FROM (SELECT id FROM orders ORDER BY id) q", "VALUES (1)"):
        statement = page(sql)
        assert isinstance(statement, Statement)
        assert statement.page == ""


TIES = [
    "SELECT quality, sensor_id FROM readings ORDER BY quality",
    "SELECT sensor_id, ts, quality FROM readings ORDER BY quality DESC, sensor_id",
    "SELECT currency, id, client FROM invoices ORDER BY currency",
    "SELECT currency AS c, amount * 2 AS a, 1 AS one FROM invoices ORDER BY 1",
    "SELECT i.client, l.item, l.n FROM invoices i JOIN invoice_lines l ON l.invoice_id = i.id ORDER BY l.item",
    "SELECT client, currency, count(*) AS n FROM invoices GROUP BY client, currency ORDER BY n",
    "SELECT kind FROM places UNION ALL SELECT client FROM invoices ORDER BY 1",
    "SELECT DISTINCT client, currency FROM invoices ORDER BY currency",
    "WITH v AS (SELECT visitor, page, id FROM visits) SELECT page, visitor FROM v ORDER BY visitor",
    "WITH v AS (SELECT visitor, page, id FROM visits) SELECT * FROM v ORDER BY visitor",
    "WITH v AS (SELECT currency, client FROM invoices) SELECT 1 AS one, v.*, v.client AS again FROM v ORDER BY currency",
    "SELECT * FROM (SELECT sensor_id, value FROM readings) r JOIN (SELECT 2 AS two) t ON 1 = 1 ORDER BY sensor_id",
    "WITH v AS (SELECT kind FROM places) SELECT * FROM v UNION ALL SELECT client FROM invoices ORDER BY 1",
    "SELECT visitor, id, detail FROM visits ORDER BY visitor",
    "SELECT currency, count(*) AS n FROM invoices GROUP BY currency ORDER BY n DESC",
    "SELECT client, paid, amount FROM invoices ORDER BY currency DESC",
]


@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_pages_of_an_order_with_ties_are_a_partition_of_the_answer(dialect: str, tmp_path: Path) -> None:
    with analysts.location(dialect, tmp_path) as place:
        known = analysts.database(dialect, place)
        small = replace(analysts.open_scope(known), max_rows=3)
        whole = analysts.answers(place, [analysts.bare(sql, known) for sql in TIES], dialect)
        for sql, expected in zip(TIES, whole, strict=True):
            assert isinstance(expected, Success)
            rows: list[str] = []
            cursor = ""
            for _ in range(20):
                statement = guard(sql, [], database=known, scope=small, attributes={}, cursor=cursor)
                assert isinstance(statement, Statement), sql
                (answer,) = analysts.answers(place, [statement], dialect)
                assert isinstance(answer, Success), statement.sql
                got = [repr(row) for row in answer.data["rows"]]  # type: ignore[index,call-overload]
                rows += got
                cursor = following(statement, 3)
                if len(got) < 3:
                    break
            assert sorted(rows) == sorted(map(repr, expected.data["rows"])), sql  # type: ignore[index,call-overload]


ORDERS = [
    ("SELECT id FROM orders ORDER BY id", "ORDER BY id LIMIT 10"),
    ("SELECT status FROM orders ORDER BY status LIMIT 5", "ORDER BY status LIMIT 5"),
    ("SELECT status, id FROM orders ORDER BY status", "ORDER BY status, id LIMIT 10"),
    ("SELECT status, total FROM orders ORDER BY status", "ORDER BY status, 1, 2 LIMIT 10"),
    ("SELECT status, sum(total) FROM orders GROUP BY status ORDER BY 2", "ORDER BY 2, 1 LIMIT 10"),
    ("SELECT id, lower(status) FROM orders ORDER BY status", "ORDER BY status, 1, 2 LIMIT 10"),
    ("SELECT c.id, q.* FROM customers c JOIN (SELECT 1 AS a) q ON 1 = 1 ORDER BY q.a", "ORDER BY q.a, 1, 2 LIMIT 10"),
    ("WITH q AS (SELECT status, total FROM orders) SELECT * FROM q ORDER BY status", "ORDER BY status, 1, 2 LIMIT 10"),
    (
        "WITH q AS (SELECT status, total FROM orders) SELECT 1, q.*, 2 FROM q ORDER BY status",
        "ORDER BY status, 2, 3, 4 LIMIT 10",
    ),
]


@pytest.mark.parametrize(("sql", "end"), ORDERS)
def test_an_order_is_completed_where_there_may_be_pages_and_ties(sql: str, end: str) -> None:
    statement = page(sql)

    assert isinstance(statement, Statement)
    assert statement.sql.endswith(end)


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT * FROM (SELECT 1 AS a, 2 AS b) q JOIN (SELECT 1 AS a) z USING (a) ORDER BY b", "sqlite"),
        ("WITH q AS (SELECT to_json(id) AS j, status FROM orders) SELECT * FROM q ORDER BY status", "postgres"),
    ],
)
def test_a_result_that_cannot_be_ordered_to_the_last_row_has_no_pages(sql: str, dialect: str) -> None:
    statement = page(sql, dialect=dialect)
    later = page(sql, cursor=f"10-{page_of(text_digest(sql), ())}", dialect=dialect)

    assert isinstance(statement, Statement)
    assert statement.page == ""
    assert isinstance(later, Deny)
    assert later.rule == "sql:cursor"


def test_an_order_is_completed_with_what_can_be_sorted_alone() -> None:
    """PostgreSQL has no order of JSON: only columns of tables, whose types are known, are added beside it."""
    statement = page("SELECT to_json(id), status, lower(status) FROM orders ORDER BY total", dialect="postgres")

    assert isinstance(statement, Statement)
    assert statement.sql.endswith("ORDER BY total, 2 LIMIT 10")


@pytest.mark.parametrize(
    ("sql", "order"),
    [
        ("SELECT status FROM orders ORDER BY id", "id"),
        ("SELECT status, total FROM orders o ORDER BY o.total, o.id DESC", "o.total, o.id DESC"),
        ("SELECT status, count(*) FROM orders GROUP BY status ORDER BY status", "status"),
        ("SELECT status, upper(detail) AS d FROM orders GROUP BY 1, 2 ORDER BY d, 1", "d, 1"),
        ("SELECT DISTINCT status, total FROM orders ORDER BY total, status", "total, status"),
        # What looks like a key or a group, and is another column or not all of it.
        ("SELECT total AS id FROM orders ORDER BY id", "id, 1"),
        ("SELECT o.status FROM orders o JOIN customers c ON c.id = o.customer_id ORDER BY o.id", "o.id, 1"),
        ("SELECT status, count(*) FROM orders GROUP BY status, total ORDER BY status", "status, 1, 2"),
        ("SELECT upper(status) AS status FROM orders GROUP BY status ORDER BY status", "status, 1"),
        ("SELECT DISTINCT status, total FROM orders ORDER BY total", "total, 1, 2"),
        ("SELECT max(total) FROM orders GROUP BY status ORDER BY upper(status)", "upper(status), 1"),
    ],
)
@pytest.mark.parametrize("dialect", ["sqlite", "postgres", "duckdb", "mysql"])
def test_an_order_in_which_no_two_rows_are_equal_stays_as_it_is(dialect: str, sql: str, order: str) -> None:
    written = allowed(sql, dialect=dialect).sql
    exact = "(, CAST\\(.+ AS BINARY\\))?" if dialect == "mysql" else ""  # texts that differ in case alone
    assert re.search(f"ORDER BY {re.escape(order)}{exact} LIMIT", written)


def test_texts_that_differ_in_case_alone_have_one_order_in_pages(tmp_path: Path) -> None:
    sql = "SELECT lower(name) AS x FROM places UNION ALL SELECT upper(name) FROM places ORDER BY x"
    rows: list[object] = []
    with open_engine("mysql", tmp_path) as engine:
        small = replace(analysts.open_scope(engine.database), max_rows=1)
        cursor = ""
        for _ in range(14):
            verdict = guard(sql, [], database=engine.database, scope=small, attributes={}, cursor=cursor)
            assert isinstance(verdict, Statement)
            assert "AS BINARY" in verdict.sql
            rows += engine.rows(verdict.sql)[1]
            cursor = f"{len(rows)}-{verdict.page[:16]}"
        assert sorted(map(repr, rows)) == sorted(map(repr, engine.rows(sql)[1]))
