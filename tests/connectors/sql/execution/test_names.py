"""A name for the guard is the name for the engine: no spelling of it reads what is hidden, and what is let through means the same."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import psycopg
import pymysql
import pytest

from tests.connectors.sql.execution.guarded import ENGINES, asked, built, database, run
from tests.connectors.sql.execution.nested import HIDDEN_63, KEY, SCRIPT, SECRET, SEEN, nested_query
from tests.databases import mysql, postgres
from tests.exhaustive import size
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.result import Success
from toolgen.model.sql_scope import TableScope
from toolgen.model.verdict import Deny

pytestmark = pytest.mark.usefixtures("sql_processes")

PEOPLE = TableScope(columns=("nick",))
NOTES = TableScope(columns=("n", "body"), rows="who = :tenant")
ROUNDS = size("TOOLGEN_NAMES", 125, 5_000)
"""Generated queries an engine; `TOOLGEN_NAMES=20000 pytest tests/connectors/sql/execution/test_names.py` asks more."""
X, W, E = "x" * 63, "w" * 63, "é" * 31

ATTACKS = [
    # PostgreSQL cuts names at 63 bytes, between characters.
    ("postgres", f"SELECT (SELECT max({X}b.ssn) FROM people {X}a) FROM (SELECT 'y' AS ssn) {X}b"),
    ("postgres", f'SELECT (SELECT max("{X}b".ssn) FROM people "{X}a") FROM (SELECT \'y\' AS ssn) "{X}b"'),
    ("postgres", f"SELECT (SELECT json_agg({X}b) FROM people {X}a) FROM (SELECT 'y' AS ssn) {X}b"),
    ("postgres", f'SELECT (SELECT max("{E}éb".ssn) FROM people "{E}éa") FROM (SELECT \'y\' AS ssn) "{E}éb"'),
    ("postgres", f'SELECT (SELECT max("{E}日".ssn) FROM people "{E}") FROM (SELECT \'y\' AS ssn) "{E}日"'),
    ("postgres", f"SELECT nick AS {HIDDEN_63}a, {HIDDEN_63}a AS v FROM people"),
    ("postgres", f"SELECT {HIDDEN_63}a FROM people, (SELECT 1 AS {HIDDEN_63}a) t"),
    ("postgres", f"WITH {X}a AS (SELECT 'y' AS ssn) SELECT {X}b.ssn FROM {X}a, people {X}b"),
    # Columns that no catalog lists, and functions without parentheses.
    *(
        ("postgres", sql)
        for name in ("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid")
        for sql in (
            f"SELECT nick AS {name}, {name} AS v FROM people",
            f"SELECT nick AS {name} FROM people WHERE {name} IS NOT NULL",
            f"SELECT nick AS {name}, (SELECT {name}) AS v FROM people",
            f"SELECT 1 AS {name} FROM people GROUP BY {name}",
        )
    ),
    *(
        ("postgres", f'SELECT nick AS "{name}", {name} AS v FROM people')
        for name in ("user", "current_role", "system_user")
    ),
    ("postgres", 'SELECT user AS v FROM (SELECT 1 AS "user") t'),
    ("mysql", "SELECT nick AS _rowid, _rowid AS v FROM people"),
    ("mysql", "SELECT nick AS _rowid, (SELECT _rowid) AS v FROM people"),
    ("mysql", "SELECT nick AS _rowid FROM people GROUP BY nick HAVING _rowid > 1"),
    ("mysql", "SELECT nick AS `current_role`, current_role AS v FROM people"),
    ("sqlite", "SELECT nick AS rowid, rowid AS v FROM people WHERE rowid > 0"),
    ("sqlite", "SELECT 'x' AS oid, (SELECT oid) AS v FROM people"),
    ("duckdb", "SELECT nick AS rowid, rowid AS v FROM people WHERE rowid > 5"),
    ("duckdb", 'SELECT (SELECT user) AS v FROM (SELECT 5 AS "user") t'),
    ("duckdb", 'SELECT nick AS "user", (SELECT "user") AS v FROM people'),
    # An alias where the engine does not look for one.
    ("postgres", "SELECT nick AS v FROM people WHERE v = 'nick'"),
    ("postgres", "SELECT nick AS v, v AS w FROM people"),
    ("postgres", "SELECT nick AS v FROM people ORDER BY upper(v)"),
    ("postgres", "SELECT nick AS v FROM people GROUP BY nick HAVING v = 'nick'"),
    ("mysql", "SELECT nick AS v FROM people WHERE v = 'nick'"),
    ("mysql", "SELECT nick AS v, v AS w FROM people"),
    ("sqlite", "SELECT nick AS v, v AS w FROM people"),
    # A reserved word of MariaDB is a name in quotes alone.
    ("mysql", "SELECT nick AS current_user FROM people"),
    ("mysql", "SELECT nick FROM people AS current_date"),
    # MariaDB takes leading spaces away from an alias, and finds a common table expression whatever its case.
    ("mysql", "SELECT ` ssn` FROM (SELECT 'y' AS ` ssn`) t, people"),
    ("mysql", "WITH People AS (SELECT 'y' AS nick) SELECT nick FROM people"),
]


@pytest.fixture(scope="module", params=ENGINES)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Database]]:
    """The location of a database with hidden columns and rows, and what a build finds there."""
    with database(request.param, SCRIPT, tmp_path_factory.mktemp("names")) as location:
        yield location, built(location)


def judged(found: Database, sql: str) -> Statement | Deny:
    return asked(found, sql, people=PEOPLE, notes=NOTES)


def test_no_other_spelling_reads_what_is_hidden(lab: tuple[str, Database]) -> None:
    location, found = lab
    for sql in (sql for dialect, sql in ATTACKS if dialect == found.dialect):
        verdict = judged(found, sql)
        assert isinstance(verdict, Deny), f"{sql}: {run(location, verdict, operation='query')}"
        assert verdict.rule in {"sql:column", "sql:name", "sql:function", "sql:ambiguous", "sql:whole-row"}, sql


HONEST = [
    ("postgres", f"SELECT nick AS {W}abc FROM people ORDER BY {W}abd"),
    ("postgres", f"SELECT {X}b.nick FROM people {X}b"),
    ("postgres", "SELECT nick AS ctid FROM people ORDER BY ctid"),
    ("postgres", 'SELECT nick AS "user" FROM people ORDER BY "user"'),
    ("postgres", "SELECT nick AS v FROM people GROUP BY v ORDER BY v"),
    ("mysql", "SELECT nick AS v FROM people GROUP BY nick HAVING v = 'nick' ORDER BY upper(v)"),
    ("mysql", "SELECT nick AS v, (SELECT v) AS w FROM people"),
    ("sqlite", "SELECT nick AS v FROM people WHERE v = 'nick' GROUP BY v HAVING v <> '' ORDER BY upper(v)"),
    ("duckdb", "SELECT nick AS v, upper(v) AS w FROM people WHERE v = 'nick' ORDER BY upper(v)"),
    ("duckdb", "SELECT current_date.nick, Localtime.nick FROM people AS current_date, people AS localtime"),
    ("mysql", "SELECT q.current_date FROM (SELECT nick AS `current_date` FROM people) q"),
    *(
        (engine, sql)
        for engine in ENGINES
        for sql in ("SELECT count(*) FROM people", "SELECT * FROM people", "SELECT P.* FROM people P")
    ),
]


def test_what_an_engine_allows_of_its_names_is_allowed(lab: tuple[str, Database]) -> None:
    location, found = lab
    for sql in (sql for dialect, sql in HONEST if dialect == found.dialect):
        (result,) = run(location, judged(found, sql), operation="query")
        assert isinstance(result, Success), f"{sql}: {result}"


@contextmanager
def session(location: str) -> Iterator[Callable[[str], list[tuple[object, ...]]]]:
    """The database's own answer to a text, past everything of ours."""
    engine, _, rest = location.partition("://")
    match engine:
        case "sqlite":
            with closing(sqlite3.connect(rest.removeprefix("/"))) as file:
                yield lambda sql: file.execute(sql).fetchall()
        case "duckdb":
            with duckdb.connect(rest.removeprefix("/"), read_only=True) as base:
                yield lambda sql: base.execute(sql).fetchall()
        case "postgresql":
            with postgres(rest.rpartition("/")[2]) as server:
                yield lambda sql: server.execute(sql.encode()).fetchall()
        case _:
            with closing(mysql(rest.rpartition("/")[2])) as connection, connection.cursor() as cursor:

                def ask(sql: str) -> list[tuple[object, ...]]:
                    cursor.execute(sql)
                    return [tuple(row) for row in cursor.fetchall()]

                yield ask


ERRORS = (sqlite3.Error, duckdb.Error, psycopg.Error, pymysql.MySQLError)


def answer(ask: Callable[[str], list[tuple[object, ...]]], sql: str) -> list[str] | None:
    """Its rows in an order of their own, or None where the engine does not take the text."""
    try:
        return sorted(map(str, ask(sql)))
    except ERRORS:
        return None


@pytest.mark.sweep
def test_names_of_generated_queries_mean_what_the_engine_takes_them_for(
    lab: tuple[str, Database], tmp_path: Path
) -> None:
    """What is let through answers as the same text does where nothing is hidden, because nothing that is hidden is there."""
    location, found = lab
    quote = "`" if found.dialect == "mysql" else '"'
    engine = next(name for name in ENGINES if location.startswith(name.removesuffix("ql")) or name == found.dialect)
    compared = 0
    with database(engine, SEEN, tmp_path / "seen") as reference, session(reference) as raw, session(location) as ours:
        for seed in range(ROUNDS):
            sql = nested_query(seed, quote)
            verdict = judged(found, sql)
            if isinstance(verdict, Deny):
                assert verdict.rule != "sql:internal", f"seed {seed}: {sql}"
                continue
            text = bound_text(verdict)
            given, expected = answer(ours, text), answer(raw, sql)
            assert not any(SECRET in row or str(KEY) in row for row in given or ()), f"seed {seed}: {sql}"
            assert given == expected, f"seed {seed}: {sql}\n{text}"
            compared += expected is not None
    assert compared > ROUNDS / 10


def bound_text(statement: Statement) -> str:
    """The rendered text with its only parameter, the tenant, written into it; no generated name holds a ? or $."""
    return re.sub(r"\?|\$[0-9]+", "'acme'", statement.sql)
