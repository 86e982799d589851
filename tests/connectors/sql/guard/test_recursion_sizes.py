"""Sizes of columns of recursive queries, and of patterns of LIKE that are made of them."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed, refused

_DOUBLED = (
    "WITH RECURSIVE t(s, n) AS (SELECT {} , 1 UNION ALL SELECT CONCAT(s, s), n + 1 FROM t WHERE n < 9) SELECT s FROM t"
)


@pytest.mark.parametrize(
    "first", ["CAST('ab' AS CHAR(200))", "CONVERT('ab', CHAR(1000))", "CAST(CONCAT('a', 'b') AS CHAR(9))"]
)
def test_a_column_of_a_recursion_in_mariadb_has_the_type_of_its_first_value(first: str) -> None:
    allowed(_DOUBLED.format(first), dialect="mysql")


@pytest.mark.parametrize(
    "sql",
    [
        _DOUBLED.format("CAST('ab' AS CHAR(60000))"),
        _DOUBLED.format("CONCAT('ab', 'cd')"),
        "WITH RECURSIVE t(s) AS (SELECT 'a' UNION ALL SELECT REPEAT('a', 1000) UNION ALL SELECT CONCAT(s, s) FROM t) SELECT s FROM t",
        "WITH RECURSIVE t(s) AS (SELECT 'a' UNION ALL (SELECT REPEAT('a', 1000) UNION ALL SELECT CONCAT(s, s) FROM t)) SELECT s FROM t",
        "WITH RECURSIVE t(s, r) AS (SELECT 'a', name FROM customers UNION ALL SELECT s, CONCAT(r, r) FROM t) SELECT r FROM t",
    ],
)
def test_a_column_without_a_written_size_grows_in_mariadb(sql: str) -> None:
    assert refused(sql, dialect="mysql").rule == "sql:size"


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_a_column_of_a_recursion_grows_in_other_engines(dialect: str) -> None:
    sql = "WITH RECURSIVE t(s, n) AS (SELECT CAST('ab' AS VARCHAR(200)), 1 UNION ALL SELECT CONCAT(s, s), n + 1 FROM t) SELECT s FROM t"
    assert refused(sql, dialect=dialect).rule == "sql:size"


_PATHS = (
    "WITH RECURSIVE t(p) AS (SELECT name FROM customers UNION ALL SELECT {} FROM t JOIN customers c ON true)"
    " SELECT a.p FROM t a JOIN t b ON a.p LIKE {}"
)


@pytest.mark.parametrize("pattern", ["b.p || '%'", "b.p || '/%'", "(b.p) || ('/' || '%%')", "concat(b.p, '%')"])
def test_the_beginning_of_a_long_text_is_compared(pattern: str) -> None:
    allowed(_PATHS.format("p || '/' || c.name", pattern), dialect="postgres")


@pytest.mark.parametrize(
    "pattern", ["'%' || b.p || '%'", "b.p", "b.p || '%x'", "b.p || '_%'", "b.p || $1", "upper(b.p) || '%'"]
)
def test_other_patterns_are_looked_for_in_all_of_it(pattern: str) -> None:
    parameters = ("%",) if "$" in pattern else ()
    assert refused(_PATHS.format("p || '/' || c.name", pattern), *parameters, dialect="postgres").rule == "sql:size"


@pytest.mark.parametrize(
    "part", ["'%'", "chr(37)", "'\\'", "$1::text", "convert_from(X'25', 'UTF8')", "to_char(1, '9')"]
)
def test_a_sign_that_the_statement_puts_into_a_text_counts(part: str) -> None:
    parameters = ("%",) if "$" in part else ()
    sql = _PATHS.format(f"p || {part} || c.name", "b.p || '%'")
    assert refused(sql, *parameters, dialect="postgres").rule == "sql:size"
