"""Exact answers: the values that the engine has, as JSON that loses no digit, and the rows that it gives without the guard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.sql.guard.analysts import answers, bare, database, location, open_scope
from tests.databases import mysql_database, statement
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.execution.engine_errors import explain_errno
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.result import Success
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

pytestmark = pytest.mark.usefixtures("sql_processes")

_LARGE = "9007199254740993"
_WIDE = "123456789012345678901234567890.12345"
VALUES: dict[str, list[tuple[str, object]]] = {
    "duckdb": [
        ("SELECT 'infinity'::date, date '9999-12-31', '-infinity'::timestamp", ["infinity", "9999-12-31", "-infinity"]),
        ("SELECT [date 'infinity'], {'d': timestamp 'infinity'}", [["infinity"], {"d": "infinity"}]),
        ("SELECT [interval 1 day, interval '1 month']", [["P1D", "P1M"]]),
        ("SELECT {'order': interval 1 month, 'b': [interval 2 year]}", [{"order": "P1M", "b": ["P2Y"]}]),
        ("SELECT map {'k': interval 1 month}", [{"k": "P1M"}]),
        ("SELECT list(t) FROM (SELECT timestamptz '2024-03-01 09:00+00' AS t)", [["2024-03-01 09:00:00+00:00"]]),
        ("SELECT [0.1::float], {'f': 1.1::float}", [[0.1], {"f": 1.1}]),
        (
            "SELECT [timestamp '2024-01-01 10:00:00.5'], [date '2024-01-01']",
            [["2024-01-01 10:00:00.500000"], ["2024-01-01"]],
        ),
        (f"SELECT {_LARGE}, [{_LARGE}], 9007199254740991, -{_LARGE}", [_LARGE, [_LARGE], 2**53 - 1, f"-{_LARGE}"]),
    ],
    "postgres": [
        (f"SELECT '[{_WIDE}, 0.1, 1.50, 1e2]'::jsonb", [[_WIDE, 0.1, 1.5, 100]]),
        (f"SELECT '{{\"a\": {_WIDE}}}'::json", [{"a": _WIDE}]),
        (f"SELECT {_LARGE}, array[{_LARGE}], jsonb_build_object('a', {_LARGE})", [_LARGE, [_LARGE], {"a": _LARGE}]),
        ("SELECT 'infinity'::date, avg(0.00::numeric)", ["infinity", 0]),
        *(
            (f"SELECT {form}", ["99999999999999.99"])
            for form in (
                "max(99999999999999.99::numeric(16, 2))",
                "sum(99999999999999.99::numeric(16, 2))",
                "coalesce(99999999999999.99::numeric(16, 2), 0)",
                "CASE WHEN true THEN 99999999999999.99::numeric(16, 2) END",
                "round(99999999999999.991, 2)",
                "99999999999999.99::numeric(16, 2) UNION ALL SELECT 1 ORDER BY 1 DESC LIMIT 1",
            )
        ),
    ],
    "mysql": [
        ("SELECT '2024-03-01 09:00:00' + INTERVAL 1.5 DAY", ["2024-03-03 09:00:00"]),
        ("SELECT '2024-03-01 09:00:00' + INTERVAL 1.5 HOUR", ["2024-03-01 11:00:00"]),
        ("SELECT concat(cast('2024-03-01 09:00:00' AS datetime) + interval 1 second, '')", ["2024-03-01 09:00:01"]),
        (f"SELECT {_LARGE}, 12345678901234567890, 9007199254740991", [_LARGE, "12345678901234567890", 2**53 - 1]),
        ("SELECT max(cast(99999999999999.99 AS decimal(16, 2)))", ["99999999999999.99"]),
    ],
    "sqlite": [(f"SELECT {_LARGE}, 9007199254740991, -{_LARGE}", [_LARGE, 2**53 - 1, f"-{_LARGE}"])],
}


@pytest.mark.parametrize("dialect", sorted(VALUES))
def test_a_value_keeps_its_digits_and_its_parts(dialect: str, tmp_path: Path) -> None:
    with location(dialect, tmp_path) as place:
        known = database(dialect, place)
        scope = open_scope(known)
        statements = [guard(sql, [], database=known, scope=scope, attributes={}) for sql, _ in VALUES[dialect]]
        allowed = [statement for statement in statements if isinstance(statement, Statement)]
        assert len(allowed) == len(statements), statements
        found = answers(place, allowed, dialect)
    for (sql, wanted), answer in zip(VALUES[dialect], found, strict=True):
        assert isinstance(answer, Success), f"{sql}: {answer}"
        assert answer.data["rows"] == [wanted], sql  # type: ignore[index,call-overload]
        assert not any(column.get("rounded") for column in answer.data["columns"]), sql  # type: ignore[index,call-overload,union-attr]


SCRIPT = """CREATE TABLE shops (id INTEGER PRIMARY KEY, region INTEGER NOT NULL, takings INTEGER, secret INTEGER);
INSERT INTO shops VALUES (1, 1, 50, 0);
CREATE TABLE sales (id INTEGER PRIMARY KEY, region INTEGER NOT NULL, value INTEGER, secret INTEGER);
INSERT INTO sales VALUES (1, 1, 20, 0), (2, 1, 30, NULL), (3, 2, 7, 1);
"""
JOINED = "shops a JOIN sales b ON b.region = a.region"
ROLLUPS = [
    f"SELECT DISTINCT a.id, sum(a.takings) FROM {JOINED} GROUP BY a.id WITH ROLLUP",
    f"SELECT a.id, row_number() OVER (ORDER BY a.id) AS r FROM {JOINED} GROUP BY a.id WITH ROLLUP",
    f"SELECT a.id, sum(b.value), rank() OVER (ORDER BY sum(b.value)) AS r FROM {JOINED} GROUP BY a.id WITH ROLLUP",
    f"SELECT * FROM (SELECT DISTINCT a.region, sum(b.value) AS v FROM {JOINED} GROUP BY a.region WITH ROLLUP) q",
    f"SELECT b.id, count(*) FROM {JOINED} WHERE a.id = 1 GROUP BY b.id WITH ROLLUP HAVING count(*) > 0",
    f"SELECT a.id, b.id, count(*) FROM {JOINED} GROUP BY a.id, b.id WITH ROLLUP",
]


def test_rollup_over_tables_with_hidden_columns_is_that_of_the_tables() -> None:
    """MariaDB merges the subquery that hides a column, and then gives the key of a group in place of NULL in some totals."""
    columns = {"shops": ("id", "region", "takings"), "sales": ("id", "region", "value")}
    known = Database(
        dialect="mysql",
        tables=tuple(
            Table(
                name=name,
                columns=tuple(Column(name=one, type="INTEGER") for one in (*shown, "secret")),
                primary_key=("id",),
            )
            for name, shown in columns.items()
        ),
    )
    hiding = SqlScope(tables={name: TableScope(columns=shown) for name, shown in columns.items()}, max_rows=1000)
    statements = [guard(sql, [], database=known, scope=hiding, attributes={}) for sql in ROLLUPS]
    allowed = [statement for statement in statements if isinstance(statement, Statement)]
    assert len(allowed) == len(ROLLUPS), statements
    with mysql_database(SCRIPT) as place:
        wanted = answers(place, [bare(sql, known) for sql in ROLLUPS], "mysql")
        found = answers(place, allowed, "mysql")
    for sql, expected, answer in zip(ROLLUPS, wanted, found, strict=True):
        assert isinstance(expected, Success)
        assert isinstance(answer, Success), sql
        assert sorted(map(repr, answer.data["rows"])) == sorted(map(repr, expected.data["rows"])), sql  # type: ignore[index,call-overload]


def test_names_below_a_window_function_are_those_of_the_table() -> None:
    """MariaDB finds `id` in ORDER BY ambiguous where it merges the subquery that hides a column."""
    sql = "SELECT client, lead(id) OVER (PARTITION BY client ORDER BY id) AS n FROM invoices ORDER BY client, id"
    with location("mysql", Path()) as place:
        known = database("mysql", place)
        hiding = SqlScope(tables={"invoices": TableScope(columns=("id", "client", "paid"))}, max_rows=100)
        verdict = guard(sql, [], database=known, scope=hiding, attributes={})
        assert isinstance(verdict, Statement)
        wanted, found = answers(place, [bare(sql, known), verdict], "mysql")
    assert isinstance(wanted, Success)
    assert isinstance(found, Success)
    assert found.data["rows"] == wanted.data["rows"]  # type: ignore[index,call-overload]


def test_rollup_with_having_and_a_window_is_refused_with_what_to_write() -> None:
    known = database("mysql")
    hiding = SqlScope(tables={"places": TableScope(columns=("id", "kind"))})
    sql = "SELECT kind, rank() OVER (ORDER BY count(*)) FROM places GROUP BY kind WITH ROLLUP HAVING count(*) > 0"
    verdict = guard(sql, [], database=known, scope=hiding, attributes={})
    assert isinstance(verdict, Deny)
    assert "subquery" in verdict.suggestion
    assert isinstance(guard(sql, [], database=known, scope=open_scope(known), attributes={}), Statement)


INVISIBLE = """CREATE TABLE t (a INT PRIMARY KEY, b INT INVISIBLE, c INT, d INT);
INSERT INTO t (a, b, c, d) VALUES (1, 2, 3, 4);"""


def test_a_star_does_not_stand_for_invisible_columns() -> None:
    """https://mariadb.com/kb/en/invisible-columns/"""
    hiding = SqlScope(tables={"t": TableScope(columns=("a", "b", "c"))}, max_rows=10)
    with mysql_database(INVISIBLE) as place:
        known = read_sql(SourceConfig(name="lab", kind="sql", location=place)).info.database
        statements = [
            guard(sql, [], database=known, scope=hiding, attributes={})
            for sql in ("SELECT * FROM t", "SELECT t.*, b FROM t", "SELECT * FROM (SELECT * FROM t) q")
        ]
        allowed = [verdict for verdict in statements if isinstance(verdict, Statement)]
        assert len(allowed) == len(statements), statements
        answered = answers(place, allowed, "mysql")
    rows = [answer.data["rows"] for answer in answered if isinstance(answer, Success)]  # type: ignore[index,call-overload]
    assert rows == [[[1, 3]], [[1, 3, 2]], [[1, 3]]]


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_row_numbers_below_a_row_filter_are_refused_because_they_count_hidden_rows(dialect: str) -> None:
    known = Database(
        dialect=dialect,
        tables=(Table(name="t", columns=(Column(name="a", type="TEXT"), Column(name="tenant", type="TEXT"))),),
    )
    filtered = SqlScope(tables={"t": TableScope(rows="tenant = 'acme'")}, max_rows=10)
    everything = SqlScope(tables={"t": TableScope()}, max_rows=10)
    for sql in ("SELECT rowid FROM t", "SELECT a FROM t ORDER BY rowid", "SELECT count(*) FROM t WHERE rowid > 3"):
        verdict = guard(sql, [], database=known, scope=filtered, attributes={})
        assert isinstance(verdict, Deny)
        assert verdict.rule == "sql:column"
        assert isinstance(guard(sql, [], database=known, scope=everything, attributes={}), Statement)


def test_the_number_of_a_row_that_is_a_visible_key_is_that_key() -> None:
    known = database("sqlite")
    verdict = guard("SELECT rowid FROM places", [], database=known, scope=open_scope(known, "id > 3"), attributes={})
    assert isinstance(verdict, Statement)


def test_a_statement_beyond_the_memory_of_a_session_is_told_to_ask_for_less() -> None:
    """The server's words for it, of which the number alone also stands for a missing privilege."""
    limit = (
        "The MariaDB server is running with the --max-session-mem-used=65536 option so it cannot execute this statement"
    )
    files = "The MariaDB server is running with the --secure-file-priv option so it cannot execute this statement"
    beyond, denied = (explain_errno(1290, statement("SELECT 1"), message) for message in (limit, files))
    assert beyond.error.code == "response_too_large"
    assert denied.error.code != beyond.error.code
