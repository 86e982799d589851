"""A refusal says what to write instead."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.invented import invented
from tests.connectors.sql.guard.lab import refused
from tests.connectors.sql.guard.largest import SCOPE, database
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.verdict import Deny

# Words of advice that is the same whatever was refused.
_GENERAL = ("write it as ", "write it with SELECT, joins", "write it more simply", "write it with CASE")
ADVICE = [
    ("postgres", "SELECT pg_sleep(1)", "waits"),
    ("postgres", "SELECT pg_advisory_lock(1)", "lock"),
    ("postgres", "SELECT nextval('s')", "max(id)"),
    ("postgres", "SELECT query_to_xml('SELECT 1', true, true, '')", "as the statement"),
    ("postgres", "SELECT lo_import('x')", "files"),
    ("postgres", "SELECT setseed(0.5)", "ORDER BY"),
    ("postgres", "SELECT pg_backend_pid()", "server"),
    ("postgres", "WITH q AS (DELETE FROM orders RETURNING id) SELECT * FROM q", "the tool change"),
    ("postgres", "SELECT '1 day'::interval hour", "date_trunc"),
    ("postgres", "SELECT polygon '((0,0),(2,2),(1,0))'", "sqrt"),
    ("postgres", "SELECT id::geometry FROM orders", "TEXT"),
    ("postgres", "SELECT frobnicate(id) FROM orders", "CASE"),
    ("mysql", "SELECT sleep(1)", "waits"),
    ("mysql", "SELECT benchmark(9, 1)", "waits"),
    ("mysql", "SELECT get_lock('a', 1)", "lock"),
    ("mysql", "SELECT load_file('x')", "files"),
    ("mysql", "SELECT column_get(1, 'a')", "json_value"),
    ("mysql", "SELECT password('x')", "md5"),
    ("mysql", "SELECT BINARY('x')", "CAST(t AS BINARY)"),
    ("mysql", "SELECT st_buffer(1, 2)", "sqrt"),
    ("mysql", "SELECT id FROM orders WHERE MATCH (status) AGAINST ('x' WITH QUERY EXPANSION)", "BOOLEAN MODE"),
    ("mysql", "SELECT id FROM orders WHERE MATCH (status) AGAINST (detail)", "AGAINST ('words'"),
    ("mysql", "SELECT id FROM orders LIMIT 1 INTO OUTFILE 'x'", "rows are the answer"),
    ("mysql", "SELECT NEXT VALUE FOR s", "max(id)"),
    ("mysql", "SELECT id FROM orders PROCEDURE ANALYSE()", "PROCEDURE"),
    ("mysql", "SELECT id MEMBER OF ('[1]') FROM orders", "json_contains"),
    ("mysql", "SELECT a.id FROM orders a FULL OUTER JOIN orders b ON a.id = b.id GROUPING SETS", "UNION"),
    ("mysql", "SHOW TABLES", "list_tables"),
    ("mysql", "DESCRIBE orders", "describe_table"),
    ("mysql", "EXPLAIN SELECT 1", "the tool explain"),
    ("mysql", "SELECT table_name FROM information_schema.tables", "list_tables"),
    ("postgres", "SELECT relname FROM pg_class", "list_tables"),
]


@pytest.mark.parametrize(("dialect", "sql", "advice"), ADVICE)
def test_a_refusal_names_what_to_do_instead(dialect: str, sql: str, advice: str) -> None:
    assert advice in refused(sql, dialect=dialect).suggestion


@pytest.mark.parametrize("dialect", ["mysql", "postgres"])
def test_no_invented_statement_gets_general_advice(dialect: str) -> None:
    known = database(dialect)
    verdicts = {sql: guard(sql, (), database=known, scope=SCOPE, attributes={}) for sql in invented(dialect)}
    general = [
        f"{sql[:200]}: {verdict.reason}; {verdict.suggestion}"
        for sql, verdict in verdicts.items()
        if isinstance(verdict, Deny) and verdict.suggestion.startswith(_GENERAL)
    ]
    assert not general, "\n".join(general)


def test_a_statement_that_cannot_be_read_is_quoted_by_one_word_alone() -> None:
    assert "near analyse" in refused("SELECT id FROM orders PROCEDURE analyse()", dialect="mysql").reason
    assert "hidden" not in refused("SELECT id FROM orders WHERE id = 1 'hidden'", dialect="postgres").reason
