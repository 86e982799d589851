"""Pages of an ordered query: the cursor is good for its own question alone, and no page holds more than was asked or the policy gives."""

from __future__ import annotations

import pytest

from tests.policy.sql.lab import database, scope
from toolgen.model.call import Statement
from toolgen.model.verdict import Deny
from toolgen.policy.sql.guard import DIALECTS, guard

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


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
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
