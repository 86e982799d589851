"""What an answer may weigh is what it weighs as JSON, and no engine is asked for more than that: real servers, real files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from tests.databases import duckdb_file, mysql_database, postgres_database, sql_call, statement
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json

pytestmark = pytest.mark.usefixtures("sql_processes")

MAX_COUNT, MAX_CELL = 20_000, 5_000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("weights")
    with closing(sqlite3.connect(folder / "lab.db")) as connection:
        connection.executescript("CREATE TABLE t (id INTEGER)")
    return {
        "sqlite": f"sqlite:///{folder / 'lab.db'}",
        "duckdb": duckdb_file(Path(folder / "lab.duckdb"), "CREATE TABLE t (id INTEGER)"),
    }


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        yield {
            "postgres": stack.enter_context(postgres_database("CREATE TABLE t (id int)")),
            "mysql": stack.enter_context(mysql_database("CREATE TABLE t (id int)")),
        }


async def ask(dialect: str, locations: dict[str, str], sql: str, **limits: object) -> list[Success | Failed]:
    """The statement, and one after it that says whether the source still answers."""

    executor = SqlExecutor(locations[dialect])
    functions = frozenset({"replace", "hex", "zeroblob", "char", "json_group_array", "count"})
    given = {"max_bytes": MAX_COUNT, "max_cell_bytes": MAX_CELL, "functions": functions, **limits}
    try:
        return [
            await executor.execute(sql_call(dialect, "query", statement(sql, **given))),
            await executor.execute(sql_call(dialect, "query", statement("SELECT 1"))),
        ]
    finally:
        await executor.close()


HEAVY: list[tuple[str, str]] = [
    ("sqlite", "SELECT replace(hex(zeroblob(3000)), '0', char(1)) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9))"),
    ("sqlite", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 90) SELECT char(8232), i, 1.5, NULL, i FROM n"),
    ("duckdb", "SELECT [[] FOR x IN range(1000)] FROM range(50)"),
    ("duckdb", "SELECT list([]) FROM range(100000)"),
    ("duckdb", "SELECT {'a': {}::MAP(INT, INT), 'b': ''} FROM range(2000)"),
    ("duckdb", "SELECT repeat(chr(1), 4000) FROM range(20)"),
    ("postgres", "SELECT (SELECT json_agg(json_build_array()) FROM generate_series(1, 1000)) FROM generate_series(1, 50)"),
    ("postgres", "SELECT json_agg('{}'::json) FROM generate_series(1, 500000)"),
    ("postgres", "SELECT array_agg(g) FROM generate_series(1, 500000) g"),
    ("postgres", "SELECT ARRAY(SELECT '' FROM generate_series(1, 1000)) FROM generate_series(1, 50)"),
    ("postgres", "SELECT repeat(chr(1), 4000) FROM generate_series(1, 20)"),
    ("postgres", "SELECT decode(repeat('ff', 1000000), 'hex')"),
    ("postgres", "SELECT ('9' || repeat('0', 100000))::numeric"),
    ("mysql", "SELECT REPEAT(CHAR(1 USING utf8mb4), 4000) UNION ALL SELECT REPEAT(CHAR(2 USING utf8mb4), 9000)"),
    ("mysql", "SELECT REPEAT('x', 2000000)"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "sql"), HEAVY, ids=[f"{row[0]} {row[1][:60]}" for row in HEAVY])
async def test_no_answer_weighs_more_than_it_may(dialect: str, sql: str, request: pytest.FixtureRequest) -> None:
    locations = request.getfixturevalue("files" if dialect in {"sqlite", "duckdb"} else "servers")
    result, after = await ask(dialect, locations, sql)
    assert isinstance(result, Success), result
    assert isinstance(result.data, dict)
    given = result.data["rows"]
    assert isinstance(given, list)
    assert given
    assert len(msgspec.json.encode(given)) <= MAX_COUNT + 3 * len(given) + 2
    assert all(len(msgspec.json.encode(cell)) <= MAX_CELL + 16 for row in given for cell in row)  # type: ignore[union-attr]
    assert isinstance(after, Success)


TOO_HEAVY: list[tuple[str, str]] = [
    ("postgres", "SELECT array_agg(g) FROM generate_series(1, 3000000) g"),
    ("postgres", "SELECT string_agg(repeat('a', 1000), '') FROM generate_series(1, 20000)"),
    ("postgres", "SELECT g, repeat('a', CASE g WHEN 3 THEN 20000000 ELSE 1 END) FROM generate_series(1, 5) g"),
    ("mysql", "SELECT REPEAT('x', 15000000)"),
    ("mysql", "SELECT 1, '' UNION ALL SELECT 2, REPEAT('x', 15000000)"),
]


@pytest.mark.parametrize(("dialect", "sql"), TOO_HEAVY, ids=[f"{row[0]} {row[1][:60]}" for row in TOO_HEAVY])
async def test_a_row_far_beyond_its_bytes_is_not_read_to_its_end(
    dialect: str, sql: str, servers: dict[str, str]
) -> None:
    result, after = await ask(dialect, servers, sql)
    assert isinstance(result, Failed)
    assert result.error.code == "response_too_large"
    assert isinstance(after, Success)


@pytest.mark.parametrize(
    ("value", "most", "cut"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcde"),
        ("\x01" * 10, 12, "\x01\x01"),
        ("a" * 10 + "\x01" * 10, 17, "a" * 10 + "\x01"),
        ('"' * 10, 10, '"' * 5),
        ("é" * 10, 5, "éé"),
        ("\ud800b", 10, "?b"),
        ("", 1, ""),
        ("\x01", 1, ""),
    ],
)
def test_a_text_is_cut_to_what_it_weighs(value: str, most: int, cut: Json) -> None:
    answer = RowCollector(statement("SELECT 1", max_cell_bytes=most), [AnswerColumn(name="a", type="text")])
    assert answer.take([value])
    assert answer.rows == [[cut]]
    assert answer.cut is (cut not in {value, "?b"})
