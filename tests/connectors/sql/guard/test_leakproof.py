"""Row filters: no answer and no error depends on a hidden row, and a lookup by an index stays one.

Each statement runs twice, with a hidden row that its expression fails for and without that row. What happens has to be the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.databases import mysql, mysql_database, postgres, postgres_database
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope

TABLES = """CREATE TABLE notes (id INTEGER PRIMARY KEY, tenant VARCHAR(20), name VARCHAR(20), big BIGINT, parent INTEGER);
CREATE TABLE others (id INTEGER PRIMARY KEY, tenant VARCHAR(20), n INTEGER);
CREATE INDEX notes_name ON notes (name);
INSERT INTO notes VALUES (0, 'acme', '12', 12, 2), (1, 'acme', '13', 13, NULL);
INSERT INTO others VALUES (5, 'acme', 1), (6, 'acme', 1), (7, 'acme', 2);
"""
HIDDEN = "INSERT INTO notes VALUES (5, 'globex', 'x5', 9223372036854775807, 1)"
# Each fails for the hidden row, where the engine has such errors.
EXPRESSIONS = {
    "postgres": [
        "1 / (n.id - 5)",
        "CAST(n.name AS integer)",
        "n.big + 1",
        "(SELECT o.n FROM others o WHERE o.n = n.parent)",
    ],
    "mysql": [
        "n.big + 1",
        "n.big * 2",
        "(SELECT o.n FROM others o WHERE o.n = n.parent)",
        "exp(n.big)",
    ],
    "sqlite": [
        "abs(-n.big - 1)",
        "json_extract(n.name, '$.a')",
        "CAST(n.big AS INTEGER) + abs(-9223372036854775807 - n.parent)",
    ],
}
FORMS = [
    "SELECT {} AS x FROM notes n WHERE n.id = 5",
    "SELECT {} AS x FROM notes n WHERE n.id IN (5, 8) AND n.name LIKE 'x%'",
    "SELECT n.id FROM notes n WHERE n.id = 5 AND {} > 0",
    "SELECT n.id FROM notes n WHERE {} > 0",
    "SELECT n.id FROM notes n WHERE n.name = 'x5' AND ({} > 0 OR n.id = 5)",
    "SELECT n.id FROM notes n WHERE n.id = 5 ORDER BY {}",
    "SELECT count(*) AS c FROM notes n WHERE n.id = 5 GROUP BY {}",
    "SELECT max({}) AS m FROM notes n WHERE n.id = 5",
    "SELECT n.id FROM notes n WHERE n.id = 5 GROUP BY n.id HAVING max({}) > 0",
    "SELECT CASE WHEN n.id = 5 THEN {} END AS x FROM notes n WHERE n.id BETWEEN 5 AND 5",
    "SELECT row_number() OVER (ORDER BY {}) AS r FROM notes n WHERE n.id = 5",
    "SELECT DISTINCT {} AS x FROM notes n WHERE n.id = 5 LIMIT 2",
    "SELECT q.x FROM (SELECT {} AS x FROM notes n WHERE n.id = 5) q WHERE q.x > 0",
    "SELECT q.id FROM (SELECT n.id, {} AS x FROM notes n) q WHERE q.id = 5 AND q.x > 0",
    "SELECT q.id FROM (SELECT n.id, {} AS x FROM notes n) q WHERE q.id = 5",
    "WITH q AS (SELECT n.id, {} AS x FROM notes n) SELECT q.id FROM q WHERE q.x > 0",
    "SELECT o.id, {} AS x FROM notes n JOIN others o ON o.id = n.id WHERE o.id = 5",
    "SELECT o.id, {} AS x FROM others o LEFT JOIN notes n ON n.id = o.id ORDER BY o.id",
    "SELECT o.id FROM others o LEFT JOIN notes n ON n.id = o.id AND {} > 0 ORDER BY o.id",
    "SELECT o.id FROM others o JOIN notes n ON n.id = o.id AND {} > 0 ORDER BY o.id",
    "SELECT o.id FROM others o WHERE EXISTS (SELECT 1 FROM notes n WHERE n.id = o.id AND {} > 0) ORDER BY o.id",
    "SELECT o.id FROM others o WHERE o.id IN (SELECT {} FROM notes n WHERE n.id = 5) ORDER BY o.id",
    "SELECT o.id, (SELECT {} FROM notes n WHERE n.id = 5) AS x FROM others o ORDER BY o.id",
    "SELECT o.id, (SELECT max({}) FROM notes n WHERE n.id = o.id) AS x FROM others o ORDER BY o.id",
    "SELECT {} AS x FROM notes n WHERE n.id = 5 UNION ALL SELECT 1",
    "SELECT 1 AS x UNION SELECT {} FROM notes n WHERE n.id = 5 AND n.name = 'x5'",
    "SELECT n.id FROM notes n WHERE n.id = 5 LIMIT 3",
    "SELECT n.name, count(*) AS c FROM notes n JOIN others o ON o.id = n.id GROUP BY n.name ORDER BY c",
]


def database(dialect: str) -> Database:
    types = {"tenant": "varchar(20)", "name": "varchar(20)", "big": "bigint"}
    columns = {"notes": ("id", "tenant", "name", "big", "parent"), "others": ("id", "tenant", "n")}
    return Database(
        dialect=dialect,
        tables=tuple(
            Table(
                name=name,
                columns=tuple(Column(name=one, type=types.get(one, "integer")) for one in given),
                primary_key=("id",),
            )
            for name, given in columns.items()
        ),
    )


SCOPE = SqlScope(tables={name: TableScope(rows="tenant = 'acme'") for name in ("notes", "others")}, max_rows=1000)


def allowed(sql: str, dialect: str) -> Statement:
    verdict = guard(sql, [], database=database(dialect), scope=SCOPE, attributes={})
    assert isinstance(verdict, Statement), f"{sql}: {verdict}"
    return verdict


@contextmanager
def connected(dialect: str, folder: Path) -> Iterator[Any]:
    match dialect:
        case "postgres":
            with postgres_database(TABLES) as place, closing(postgres(place.rpartition("/")[2])) as connection:
                yield connection
        case "mysql":
            with mysql_database(TABLES) as place, closing(mysql(place.rpartition("/")[2])) as connection:
                yield connection
        case _:
            with closing(sqlite3.connect(folder / "notes.db", isolation_level=None)) as connection:
                connection.executescript(TABLES)
                yield connection


def outcome(connection: Any, sql: str) -> str:
    with closing(connection.cursor()) as cursor:
        try:
            cursor.execute(sql)
            return repr(cursor.fetchall())
        except Exception as error:
            return f"{type(error).__name__} {error}"


@pytest.mark.parametrize("dialect", sorted(EXPRESSIONS))
def test_no_outcome_depends_on_a_hidden_row(dialect: str, tmp_path: Path) -> None:
    written = [form.format(expression) for form in FORMS for expression in EXPRESSIONS[dialect]]
    statements = [allowed(sql, dialect).sql for sql in dict.fromkeys(written)]
    with connected(dialect, tmp_path) as connection:
        without = [outcome(connection, sql) for sql in statements]
        with closing(connection.cursor()) as cursor:
            cursor.execute(HIDDEN)
        found = [outcome(connection, sql) for sql in statements]
        bare = [outcome(connection, sql) for sql in dict.fromkeys(written)]
    told = [
        f"{sql}\n  {one}\n  {other}" for sql, one, other in zip(statements, without, found, strict=True) if one != other
    ]
    assert not told, "\n".join(told)
    assert sum("Error" in one or "error" in one or "NumericValue" in one for one in bare) > len(FORMS) // 2


ROWS = 3_000
LOOKUPS = [
    "SELECT * FROM notes WHERE id = 1500",
    "SELECT n.name FROM notes n WHERE n.id IN (1500, 1501) AND n.name LIKE 'n%'",
    "SELECT name, big / 3 AS x FROM notes WHERE name = 'n1500'",
    "SELECT n.id FROM notes n JOIN others o ON o.id = n.id WHERE o.id = 6",
    "SELECT n.id, upper(n.name) AS x FROM notes n WHERE n.id = 1500 AND upper(n.name) <> 'A'",
    "SELECT id FROM notes WHERE id BETWEEN 1500 AND 1502 AND abs(parent) > 0 ORDER BY id LIMIT 2",
    "WITH q AS (SELECT id, name FROM notes) SELECT name FROM q WHERE id = 1500",
]


def _scanned(connection: Any, sql: str, dialect: str) -> bool:
    """True if the plan reads all rows of `notes`."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"{'EXPLAIN QUERY PLAN' if dialect == 'sqlite' else 'EXPLAIN'} {sql}")
        plan = cursor.fetchall()
    if dialect == "postgres":
        return any("Seq Scan on notes" in line[0] for line in plan)
    if dialect == "mysql":
        return any(row[2] in {"n", "notes"} and row[3] == "ALL" for row in plan)
    computed = {row[3].split()[1] for row in plan if row[3].startswith(("CO-ROUTINE", "MATERIALIZE"))}
    return any(row[3].startswith("SCAN") and row[3].split()[1] in {"n", "notes"} - computed for row in plan)


@pytest.mark.parametrize("dialect", sorted(EXPRESSIONS))
def test_a_lookup_by_an_index_stays_one_below_a_row_filter(dialect: str, tmp_path: Path) -> None:
    with connected(dialect, tmp_path) as connection:
        values = ", ".join(f"({n}, 'acme', 'n{n}', {n}, {n})" for n in range(10, ROWS))
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"INSERT INTO notes VALUES {values}")
            cursor.execute("ANALYZE TABLE notes" if dialect == "mysql" else "ANALYZE notes")
        assert not any(_scanned(connection, sql, dialect) for sql in LOOKUPS)
        scans = [sql for sql in LOOKUPS if _scanned(connection, allowed(sql, dialect).sql, dialect)]
    assert not scans, "\n".join(scans)


@pytest.mark.parametrize("dialect", sorted(EXPRESSIONS))
def test_a_masked_column_is_compared_as_it_is_seen_alone(dialect: str) -> None:
    scope = SqlScope(tables={"notes": TableScope(rows="tenant = 'acme'", masks={"name": "***"})}, max_rows=10)
    sql = "SELECT id FROM notes WHERE name = 'x5' AND big + 1 > 0"
    verdict = guard(sql, [], database=database(dialect), scope=scope, attributes={})
    assert isinstance(verdict, Statement)
    assert verdict.sql.count("'x5'") == 1


@pytest.mark.parametrize(
    "kind", ["jsonb", "integer[]", "interval", "boolean_like", "int4range", "citext", "text_like", "box"]
)
def test_a_column_whose_comparisons_are_somebody_elses_keeps_the_fence(kind: str) -> None:
    known = Database(
        dialect="postgres",
        tables=(Table(name="t", columns=(Column(name="a", type=kind), Column(name="tenant", type="text"))),),
    )
    scope = SqlScope(tables={"t": TableScope(rows="tenant = 'acme'")}, max_rows=10)
    compared = guard("SELECT tenant FROM t WHERE a = 'x'", [], database=known, scope=scope, attributes={})
    selected = guard("SELECT a FROM t WHERE tenant = 'x'", [], database=known, scope=scope, attributes={})
    assert isinstance(compared, Statement)
    assert isinstance(selected, Statement)
    assert "OFFSET 0" in compared.sql
    assert compared.sql.count("'x'") == 1
    assert "OFFSET 0" not in selected.sql
