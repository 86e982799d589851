"""Parameters of every style and type, through guard and executor on every engine: the rows are those of the values written out."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.databases import duckdb_file, mysql_database, postgres_database, sql_call
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.result import Success
from toolgen.model.sql_scope import SqlScope, TableScope

pytestmark = pytest.mark.usefixtures("sql_processes")

MYSQL, POSTGRES, SQLITE, DUCKDB = "mysql", "postgres", "sqlite", "duckdb"
ALL = (MYSQL, POSTGRES, SQLITE, DUCKDB)
SCRIPT = """
CREATE TABLE items (id INTEGER PRIMARY KEY, name VARCHAR(20), price DOUBLE PRECISION, sold BOOLEAN, made DATE);
INSERT INTO items VALUES (1, 'ant', 1.5, true, '2024-01-31');
INSERT INTO items VALUES (2, 'bee', 2.5, false, '2024-02-29');
INSERT INTO items VALUES (3, NULL, 3.5, true, '2024-03-01');
INSERT INTO items VALUES (4, 'dog''s', NULL, NULL, '2024-12-31');
INSERT INTO items VALUES (5, '100%', -0.25, false, NULL);
"""
SCOPE = SqlScope(tables={"items": TableScope()}, max_rows=4)


class Lab:
    """One engine with the table of SCRIPT."""

    def __init__(self, dialect: str, location: str) -> None:
        self.dialect = dialect
        self.location = location
        found = read_sql(SourceConfig(name="lab", kind="sql", location=location)).info.database
        assert found is not None
        self.database: Database = found

    def rows(self, sql: str, parameters: Sequence[Any], types: Sequence[str] = ()) -> list[list[Any]]:
        verdict = guard(sql, list(parameters), database=self.database, scope=SCOPE, attributes={}, types=types)
        assert isinstance(verdict, Statement), f"{self.dialect}: {sql}: {verdict}"

        async def work() -> list[list[Any]]:
            executor = SqlExecutor(self.location)
            try:
                result = await executor.execute(sql_call(self.dialect, "query", verdict))
            finally:
                await executor.close()
            assert isinstance(result, Success), f"{self.dialect}: {verdict.sql} {verdict.parameters}: {result}"
            assert isinstance(result.data, dict)
            found: Any = result.data["rows"]
            return list(found)

        return asyncio.run(work())


@pytest.fixture(scope="module", params=ALL)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder: Path = tmp_path_factory.mktemp("parameters")
    match request.param:
        case "postgres":
            with postgres_database(SCRIPT) as location:
                yield Lab(POSTGRES, location)
        case "mysql":
            with mysql_database(SCRIPT) as location:
                yield Lab(MYSQL, location)
        case "duckdb":
            yield Lab(DUCKDB, duckdb_file(folder / "items.duckdb", SCRIPT))
        case _:
            with closing(sqlite3.connect(folder / "items.db")) as connection:
                connection.executescript(SCRIPT)
            yield Lab(SQLITE, f"sqlite:///{folder / 'items.db'}")


# dialects, how two placeholders are written
STYLES = [
    (ALL, "?", "?"),
    (ALL, "%s", "%s"),
    (ALL, "%(a)s", "%(b)s"),
    (ALL, ":a", ":b"),
    (ALL, ":1", ":2"),
    (ALL, "$1", "$2"),
    ((POSTGRES, SQLITE, DUCKDB), "$a", "$b"),
    ((SQLITE,), "?1", "?2"),
    ((SQLITE,), "@a", "@b"),
]
# type, condition with two placeholders, the values, the ids of the rows they choose
TYPES: list[tuple[str, str, list[Any], list[int]]] = [
    ("int", "id >= {0} AND id < {1}", [2, 4], [2, 3]),
    ("text", "name = {0} OR name = {1}", ["ant", "dog's"], [1, 4]),
    ("text that looks like SQL", "name = {0} OR name = {1}", ["' OR 1=1 --", "100%"], [5]),
    ("like", "name LIKE {0} OR name LIKE {1}", ["%e%", "100\\%"], [2, 5]),
    ("float", "price BETWEEN {0} AND {1}", [-0.25, 1.5], [1, 5]),
    ("int where a float is", "price > {0} AND price < {1}", [1, 3], [1, 2]),
    ("bool", "sold = {0} AND id > {1}", [True, 1], [3]),
    ("false", "sold = {0} AND id > {1}", [False, 0], [2, 5]),
    ("null", "name = {0} OR id = {1}", [None, 2], [2]),
    ("dates as text", "made >= {0} AND made < {1}", ["2024-02-01", "2024-03-02"], [2, 3]),
    ("in", "id IN ({0}, {1})", [5, 1], [1, 5]),
    ("coalesce", "coalesce(name, {0}) = {1}", ["none", "none"], [3]),
]


@pytest.mark.parametrize(("what", "condition", "values", "ids"), TYPES)
def test_a_value_of_any_type_means_itself_in_every_style(
    lab: Lab, what: str, condition: str, values: list[Any], ids: list[int]
) -> None:
    for dialects, first, second in STYLES:
        if lab.dialect not in dialects:
            continue
        if what == "like" and lab.dialect in {SQLITE, DUCKDB}:
            values, ids = ["%e%", "100%"], [2, 5]
        sql = f"SELECT id FROM items WHERE {condition.format(first, second)} ORDER BY id"
        assert lab.rows(sql, values) == [[number] for number in ids], (first, second)


def test_a_limit_and_an_offset_are_parameters_and_capped(lab: Lab) -> None:
    for dialects, first, second in STYLES:
        if lab.dialect in dialects:
            sql = f"SELECT id FROM items ORDER BY id LIMIT {first} OFFSET {second}"
            assert lab.rows(sql, [2, 1]) == [[2], [3]]
            assert lab.rows(sql, [50, 0]) == [[1], [2], [3], [4]]
            assert lab.rows(sql, [0, 0]) == []


def test_a_parameter_repeated_in_group_by_is_one_value(lab: Lab) -> None:
    styles = [
        ":n",
        "%(n)s",
        ":1",
        "$1",
        *(["$n"] if lab.dialect != MYSQL else []),
        *(["?1", "@n"] if lab.dialect == SQLITE else []),
    ]
    for mark in styles:
        sql = (
            f"SELECT substr(name, 1, {mark}) AS part, count(*) AS n FROM items WHERE name IS NOT NULL"
            f" GROUP BY substr(name, 1, {mark}) ORDER BY part"
        )
        assert lab.rows(sql, [1]) == [["1", 1], ["a", 1], ["b", 1], ["d", 1]], mark


def test_a_value_alone_comes_back_as_it_was_sent(lab: Lab) -> None:
    casts = {POSTGRES: ("int", "text"), DUCKDB: ("int", "text"), MYSQL: ("signed", "char"), SQLITE: ("integer", "text")}
    number, text = casts[lab.dialect]
    sql = f"SELECT CAST(? AS {number}) AS a, CAST(? AS {text}) AS b, CAST(? AS {text}) AS c"
    for value in ("plain", "ünï ☃ 𝄞", "a\\b'c\"d`e", "%s :x ?", ""):
        assert lab.rows(sql, [2**31 - 1, value, None]) == [[2**31 - 1, value, None]]


def test_a_list_is_an_array_in_postgresql(lab: Lab) -> None:
    if lab.dialect != POSTGRES:
        verdict = guard("SELECT id FROM items WHERE id = ?", [[1]], database=lab.database, scope=SCOPE, attributes={})
        assert not isinstance(verdict, Statement)
        return
    for dialects, mark, _ in STYLES:
        if POSTGRES not in dialects:
            continue
        assert lab.rows(f"SELECT id FROM items WHERE id = ANY({mark}) ORDER BY id", [[4, 2]]) == [[2], [4]]
        assert lab.rows(f"SELECT id FROM items WHERE name = ANY({mark}) ORDER BY id", [["ant", "100%"]]) == [[1], [5]]
        assert lab.rows(f"SELECT id FROM items WHERE id <> ALL({mark}) ORDER BY id", [[1, 2, 3]]) == [[4], [5]]


# column, value, the ids of the rows whose column is not smaller
OPTIONAL: list[tuple[str, str, Any, list[int]]] = [
    ("id", "integer", 3, [3, 4, 5]),
    ("name", "string", "bee", [2, 4]),
    ("price", "number", 2.5, [2, 3]),
    ("made", "string", "2024-03-01", [3, 4]),
    ("sold", "boolean", True, [1, 3]),
]


@pytest.mark.parametrize(("column", "kind", "value", "ids"), OPTIONAL)
def test_an_optional_parameter_may_be_null(lab: Lab, column: str, kind: str, value: Any, ids: list[int]) -> None:
    for dialects, mark, _ in STYLES:
        if lab.dialect not in dialects or mark in {"?", "%s"}:
            continue
        for condition in (
            f"({mark} IS NULL OR {column} >= {mark})",
            f"({column} >= {mark} OR ({mark}) IS NULL)",
            f"CASE WHEN {mark} IS NOT NULL THEN {column} >= {mark} ELSE id > 0 END",
        ):
            sql = f"SELECT id FROM items WHERE {condition} ORDER BY id LIMIT 4"
            for types in ([], [kind]):
                assert lab.rows(sql, [value], types) == [[number] for number in ids], (sql, types)
                assert lab.rows(sql, [None], types) == [[1], [2], [3], [4]], (sql, types)


def test_null_has_the_declared_type(lab: Lab) -> None:
    assert lab.rows("SELECT :a + :b", [None, None], ["integer", "integer"]) == [[None]]
    assert lab.rows("SELECT :a * 1.5 + :b", [None, 2], ["number", "integer"]) == [[None]]
    assert lab.rows("SELECT substr('abc', :a)", [None], ["integer"]) == [[None]]


def test_parameters_may_follow_each_other_without_a_space(lab: Lab) -> None:
    assert lab.rows("SELECT id FROM items WHERE id IN ($1,$2,$3) ORDER BY id", [5, 1, 2]) == [[1], [2], [5]]
    assert lab.rows("SELECT id FROM items WHERE coalesce(name,$1)=$2 ORDER BY id", ["x", "x"]) == [[3]]
    assert lab.rows("SELECT id, '$1,$2' /* $1,$2 */ FROM items WHERE id IN ($1,$1,$1,$2)", [5, 5]) == [[5, "$1,$2"]]
    if lab.dialect in {POSTGRES, DUCKDB}:
        sql = "SELECT $a$$1,$2$a$, $$it's $1,$2$$, id FROM items WHERE id IN ($1,$2)"
        assert lab.rows(sql, [5, 5]) == [["$1,$2", "it's $1,$2", 5]]
