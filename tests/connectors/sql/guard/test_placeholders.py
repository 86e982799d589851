"""Every style of placeholder means the parameter its own database or driver takes it for; everything else keeps its meaning."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed, refused

MYSQL, POSTGRES, SQLITE, DUCKDB = "mysql", "postgres", "sqlite", "duckdb"
ALL = (MYSQL, POSTGRES, SQLITE, DUCKDB)

# dialects, what stands in WHERE, the parameters sent, the parameters that reach the database in the order of their placeholders
STYLES = [
    (ALL, "id = ? AND status = ?", [1, "new"], [1, "new"]),
    (ALL, "id = %s AND status = %s", [1, "new"], [1, "new"]),
    (ALL, "id IN (%s,%s, %s)", [1, 2, 3], [1, 2, 3]),
    (ALL, "id BETWEEN %s AND %s OR id=-%s", [1, 2, 3], [1, 2, 3]),
    (ALL, "id = %(id)s AND status = %(status)s", [1, "new"], [1, "new"]),
    (ALL, "id = :id AND status = :status", [1, "new"], [1, "new"]),
    (ALL, "id=:1 AND status=:2", [1, "new"], [1, "new"]),
    (ALL, "status = :2 AND id = :1", [1, "new"], ["new", 1]),
    (ALL, "CASE WHEN id > :low THEN :yes ELSE :no END = 1 AND NOT :no", [5, 1, 0], None),
    (ALL, "status LIKE ? OR id NOT IN (?, ?)", ["n%", 1, 2], ["n%", 1, 2]),
    (ALL, "id = $1 AND status = $2", [1, "new"], [1, "new"]),
    (ALL, "status = $2 AND id = $1", [1, "new"], ["new", 1]),
    ((POSTGRES, SQLITE, DUCKDB), "id = $id AND status = $status", [1, "new"], [1, "new"]),
    ((POSTGRES, DUCKDB), "id = ?::int", [1], [1]),
    ((SQLITE,), "id = ?2 AND status = ?1", ["new", 1], [1, "new"]),
    ((SQLITE,), "id = ?2 AND status = ?", ["unused", 1, "new"], [1, "new"]),
    ((SQLITE,), "id = @id AND status = @status", [1, "new"], [1, "new"]),
]


@pytest.mark.parametrize(
    ("dialect", "where", "sent", "bound"),
    [(dialect, where, sent, bound) for dialects, where, sent, bound in STYLES for dialect in dialects],
)
def test_a_style_means_what_its_database_means_by_it(
    dialect: str, where: str, sent: list[object], bound: list[object] | None
) -> None:
    statement = allowed(f"SELECT id FROM orders WHERE {where}", *sent, dialect=dialect)

    if bound is not None:
        assert list(statement.parameters) == bound
    assert "toolgen" not in statement.sql
    assert "%" not in statement.sql
    assert ":" not in statement.sql.replace("::", "").replace("CAST", "")


@pytest.mark.parametrize(
    ("dialect", "rendered"),
    [
        (POSTGRES, "SELECT substr(status, $1) FROM"),
        (SQLITE, "SELECT substr(status, ?1) FROM"),
        (DUCKDB, "SELECT substr(status, $1) FROM"),
    ],
)
def test_a_parameter_in_two_places_is_sent_once_where_placeholders_have_numbers(dialect: str, rendered: str) -> None:
    sql = "SELECT substr(status, :n) FROM orders GROUP BY substr(status, :n)"

    statement = allowed(sql, 2, dialect=dialect)

    assert statement.sql.startswith(rendered)
    assert statement.parameters == (2,)
    assert allowed(sql, 2, dialect=MYSQL).parameters == (2, 2)


UNTOUCHED = [
    ((MYSQL, SQLITE), "SELECT id %s FROM orders s", "id % s", "column"),
    ((POSTGRES, DUCKDB), "SELECT id %s FROM orders s", "id % s", "whole-row"),
    (ALL, "SELECT id % 3 FROM orders", "id % 3", ""),
    (ALL, "SELECT (id) %total FROM orders", "(id) % total", ""),
    (ALL, "SELECT '%s' FROM orders WHERE status LIKE '%s'", "'%s'", ""),
    (ALL, "SELECT ':id' FROM orders", "':id'", ""),
    ((POSTGRES,), "SELECT id::text FROM orders", "CAST(id AS TEXT)", ""),
]


@pytest.mark.parametrize(
    ("dialect", "sql", "kept", "rule"),
    [(dialect, sql, kept, rule) for dialects, sql, kept, rule in UNTOUCHED for dialect in dialects],
)
def test_what_only_looks_like_a_placeholder_is_none(dialect: str, sql: str, kept: str, rule: str) -> None:
    if rule:
        assert refused(sql, dialect=dialect).rule == f"sql:{rule}"
    else:
        assert kept in allowed(sql, dialect=dialect).sql


REFUSED = [
    (ALL, "SELECT id FROM orders WHERE id = ? AND status = %s", [1, "new"], "sql:parameters"),
    (ALL, "SELECT id FROM orders WHERE id = :1 AND status = :name", [1, "new"], "sql:parameters"),
    (ALL, "SELECT id FROM orders WHERE id = :1", [], "sql:parameters"),
    (ALL, "SELECT id FROM orders WHERE id = :1", [1, 2], "sql:parameters"),
    (ALL, "SELECT id FROM orders WHERE id = :0", [1], "sql:parameters"),
    (ALL, "SELECT id FROM orders WHERE id = :999999999999", [1], "sql:parameters"),
    (ALL, "SELECT id FROM :t", ["orders"], "sql:syntax"),
    (ALL, "SELECT :c.id FROM orders", ["orders"], "sql:syntax"),
    (ALL, "SELECT id FROM orders WHERE id = :n LIMIT :n", [500], "sql:limit"),
    ((MYSQL,), "SELECT @x", [1], "sql:parameters"),
    ((MYSQL,), "SELECT @@version", [], "sql:parameters"),
    ((MYSQL,), "SELECT $name FROM orders", [1], "sql:column"),
]


@pytest.mark.parametrize(
    ("dialect", "sql", "sent", "rule"),
    [(dialect, sql, sent, rule) for dialects, sql, sent, rule in REFUSED for dialect in dialects],
)
def test_what_is_no_placeholder_or_not_the_right_one_is_refused(
    dialect: str, sql: str, sent: list[object], rule: str
) -> None:
    assert refused(sql, *sent, dialect=dialect).rule == rule


@pytest.mark.parametrize("dialect", ALL)
def test_a_limit_in_any_style_never_grows(dialect: str) -> None:
    for style in ("?", "%s", ":n", "%(n)s", ":1"):
        statement = allowed(f"SELECT id FROM orders LIMIT {style}", 50_000, dialect=dialect)
        assert statement.parameters == (100,)
