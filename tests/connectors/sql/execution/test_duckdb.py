"""DuckDB: a file of the test's own, and statements handed to the session as if every guard had failed."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import duckdb
import pytest

from tests.connectors.sql.execution.checks import assert_capped, assert_timed_out
from tests.databases import duckdb_file, rows, run_statements, sql_call, statement
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.execution.sandbox_pool import FileEngine
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """
CREATE TABLE customers AS SELECT range::INT AS id, 'Customer ' || range AS name FROM range(1, 301);
CREATE SEQUENCE numbers;
"""


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    return duckdb_file(tmp_path_factory.mktemp("duck") / "lab.duckdb", SCRIPT)


run = partial(run_statements, "duckdb")


VALUES: list[tuple[str, str, Json]] = [
    ("42", "integer", 42),
    ("9223372036854775807", "bigint", "9223372036854775807"),
    ("170141183460469231731687303715884105727", "hugeint", "170141183460469231731687303715884105727"),
    ("1.50::DECIMAL(10, 2)", "decimal(10,2)", 1.5),
    ("12345678901234567890123.5::DECIMAL(30, 1)", "decimal(30,1)", "12345678901234567890123.5"),
    ("1.1::FLOAT", "float", 1.1),
    ("'nan'::DOUBLE", "double", "NaN"),
    ("'-infinity'::DOUBLE", "double", "-Infinity"),
    ("true", "boolean", True),
    ("DATE '2024-02-29'", "date", "2024-02-29"),
    ("TIMESTAMP '2024-02-29 10:00:00.5'", "timestamp", "2024-02-29 10:00:00.500000"),
    ("TIMESTAMP_NS '2024-02-29 10:00:00.123456789'", "timestamp_ns", "2024-02-29 10:00:00.123456789"),
    ("TIME '10:00:00'", "time", "10:00:00"),
    ("INTERVAL '14 months 3 days 04:05:06.5'", "interval", "P1Y2M3DT4H5M6.5S"),
    ("'6ecd8c99-4036-403d-bf84-cf8400f67836'::UUID", "uuid", "6ecd8c99-4036-403d-bf84-cf8400f67836"),
    ("'\\x00\\xFF'::BLOB", "blob", {"base64": "AP8="}),
    ("[1, NULL]", "integer[]", [1, None]),
    ("{'a': [DATE '2024-01-01']}", "struct(a date[])", {"a": ["2024-01-01"]}),
    ("MAP {'k': 1.5}", "map(varchar, decimal(2,1))", {"k": 1.5}),
    ("'101'::BIT", "bit", "101"),
    ("NULL::DATE", "date", None),
    (f"'{'[' * 65}{']' * 65}'::JSON", "json", "[" * 65 + "]" * 65),
]


@pytest.mark.parametrize(("value", "kind", "expected"), VALUES)
async def test_every_type_has_a_json_form_and_its_name(location: str, value: str, kind: str, expected: Json) -> None:
    (result,) = await run(location, f"SELECT {value} AS v")
    assert rows(result) == [[expected]]
    assert isinstance(result.data, dict)
    assert result.data["columns"] == [{"name": "v", "type": kind}]


async def test_order_and_names_stay_when_a_column_must_be_read_as_text(location: str) -> None:
    sql = "SELECT id AS a, to_days(id) AS b, id AS c FROM customers WHERE id > ? ORDER BY id DESC LIMIT 2"
    (result,) = await run(location, statement(sql, 5))
    assert rows(result) == [[300, "P300D", 300], [299, "P299D", 299]]
    assert isinstance(result.data, dict)
    assert [column["name"] for column in result.data["columns"]] == ["a", "b", "c"]  # type: ignore[index,call-overload,union-attr]


async def test_parameters_go_beside_the_statement(location: str) -> None:
    results = await run(
        location,
        statement("SELECT name FROM customers WHERE id = ?", 7),
        statement("SELECT ?", "'; DROP TABLE customers; --"),
    )
    assert [rows(result) for result in results] == [[["Customer 7"]], [["'; DROP TABLE customers; --"]]]


CAPPED = [
    ("SELECT id FROM customers ORDER BY id", {"max_rows": 70}, 70),
    ("SELECT name FROM customers WHERE id < 10 ORDER BY id", {"max_bytes": 69}, 5),
    ("SELECT repeat('x', 1000)", {"max_cell_bytes": 10}, 1),
]


@pytest.mark.parametrize(("sql", "changes", "count"), CAPPED)
async def test_an_answer_is_cut_at_its_caps(location: str, sql: str, changes: dict[str, object], count: int) -> None:
    (result,) = await run(location, statement(sql, **changes))
    assert_capped(result, count)


STOPPED = [
    "INSERT INTO customers VALUES (0, 'x')",
    "CREATE TABLE stolen AS SELECT * FROM customers",
    "CREATE TEMP TABLE stolen AS SELECT * FROM customers",
    "SELECT 1; DROP TABLE customers",
    "COPY customers TO '{place}/stolen.csv'",
    "EXPORT DATABASE '{place}/stolen'",
    "ATTACH '{place}/other.duckdb' AS other",
    "ATTACH ':memory:' AS other",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET memory_limit",
    "PRAGMA memory_limit='10GB'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL pragma_version()",
    "CHECKPOINT",
    "USE memory",
    "SELECT * FROM read_csv('{place}/secret.csv')",
    "SELECT * FROM '{place}/secret.csv'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_parquet('https://127.0.0.1:1/x.parquet')",
    "SELECT nextval('numbers')",
    "SELECT * FROM variable_of_python",
    "SELECT * FROM query('COPY customers TO ''{place}/stolen.csv''')",
    "EXECUTE nothing",
]


@pytest.mark.parametrize("operation", ["query", "explain"])
@pytest.mark.parametrize("sql", STOPPED)
async def test_the_session_itself_stops_what_no_guard_should_let_through(
    tmp_path: Path, sql: str, operation: str
) -> None:
    variable_of_python = [1]
    location = duckdb_file(tmp_path / "lab.duckdb", SCRIPT)
    (tmp_path / "secret.csv").write_text("a\nCNRY\n", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    result, after = await run(
        location, sql.replace("{place}", str(tmp_path)), "SELECT count(*) FROM customers", operation=operation
    )
    if operation == "query" or "nextval" not in sql:
        assert isinstance(result, Failed), result
    assert "CNRY" not in repr(result)
    assert isinstance(after, Success)
    assert sorted(tmp_path.iterdir()) == before
    assert variable_of_python == [1]


async def test_a_file_is_free_for_its_writer_between_two_calls(tmp_path: Path) -> None:
    location = duckdb_file(tmp_path / "lab.duckdb", SCRIPT)

    executor = SqlExecutor(location)
    asked = sql_call("duckdb", "query", statement("SELECT count(*) FROM customers"))
    assert rows(await executor.execute(asked)) == [[300]]
    with duckdb.connect(str(tmp_path / "lab.duckdb")) as writer:
        writer.execute("DELETE FROM customers WHERE id = 1")
    assert rows(await executor.execute(asked)) == [[299]]
    await executor.close()


async def test_a_file_that_is_gone_or_none_is_a_failure_and_makes_none(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_text("no database " * 500, encoding="utf-8")
    (gone,) = await run(f"duckdb:///{tmp_path / 'gone.duckdb'}", "SELECT 1")
    (none,) = await run(f"duckdb:///{tmp_path / 'x.duckdb'}", "SELECT 1")
    assert isinstance(gone, Failed)
    assert isinstance(none, Failed)
    assert "gone" not in repr(gone)
    assert [path.name for path in tmp_path.iterdir()] == ["x.duckdb"]


ERRORS = [
    ("SELECT name::INT FROM customers", "a value cannot be converted to the required type"),
    ("SELECT missing FROM customers", "a column or a function for these argument types is not found"),
    ("SELECT * FROM missing", "a name in the statement does not exist in the database any more"),
]


@pytest.mark.parametrize(("sql", "message"), ERRORS)
async def test_what_the_library_says_is_put_in_our_own_words(location: str, sql: str, message: str) -> None:
    (failed,) = await run(location, sql)
    assert isinstance(failed, Failed)
    assert (failed.error.code, failed.error.message) == ("sql_failed", message)
    assert "Customer" not in repr(failed.error)


async def test_a_plan_is_made_and_nothing_is_run(location: str) -> None:
    endless = "SELECT count(*) FROM range(10000000000) a, range(1000000) b WHERE a.range % 7 = b.range % 3"
    (result,) = await run(location, endless, operation="explain")
    assert "physical_plan" in json.dumps(rows(result))


ENDLESS = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"


async def test_a_statement_ends_when_its_time_is_up(location: str) -> None:
    failed, after = await run(location, statement(ENDLESS, timeout_s=0.05), "SELECT 1")
    assert_timed_out(failed, after)


async def test_a_cancelled_call_stops_its_statement(location: str) -> None:
    executor = SqlExecutor(location)
    asked = sql_call("duckdb", "query", statement(ENDLESS, timeout_s=1.0))
    task = asyncio.create_task(executor.execute(asked))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    engine = executor._opened
    assert isinstance(engine, FileEngine)
    # Off the loop, which goes on interrupting: returns because the statement has ended.
    await asyncio.to_thread(engine._threads.shutdown, wait=True)


async def test_memory_is_bounded(location: str) -> None:
    (failed,) = await run(location, "SELECT list(a.range || b.range) FROM range(100000) a, range(1000) b")
    assert isinstance(failed, Failed)
    assert failed.error.code in {"response_too_large", "upstream_timeout"}
