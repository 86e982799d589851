"""ClickHouse by chdb: a folder of the test's own, and statements handed to the session as if every guard had failed."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.databases import clickhouse_folder, rows, run_statements, sql_call, statement
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.core.errors import DescriptionError
from toolgen.model.result import Failed
from toolgen.model.schema import Json

pytestmark = pytest.mark.usefixtures("sql_processes")

run = partial(run_statements, "clickhouse")
SCRIPT = (
    "CREATE TABLE customers (id Int32, name String) ENGINE = MergeTree ORDER BY id COMMENT 'People who buy'",
    "INSERT INTO customers SELECT number + 1, concat('Customer ', toString(number + 1)) FROM numbers(300)",
    'CREATE TABLE odd (id Int32, "a""b" Int32, `c\\\\d` Int32) ENGINE = MergeTree ORDER BY id',
    "CREATE TABLE far (a String) ENGINE = URL('http://127.0.0.1:1/', 'LineAsString')",
    "CREATE TABLE local (a String) ENGINE = File(LineAsString)",
    "CREATE DATABASE other",
    "CREATE TABLE other.secrets (a String) ENGINE = MergeTree ORDER BY a",
    "INSERT INTO other.secrets VALUES ('CANARY')",
    "CREATE FUNCTION twice AS (x) -> x * 2",
)


@pytest.fixture(scope="module", name="location")
def _location(tmp_path_factory: pytest.TempPathFactory) -> str:
    return clickhouse_folder(tmp_path_factory.mktemp("click") / "lab", *SCRIPT)


VALUES: list[tuple[str, str, Json]] = [
    ("toInt32(42)", "Int32", 42),
    ("18446744073709551615", "UInt64", "18446744073709551615"),
    ("toInt256('170141183460469231731687303715884105728')", "Int256", "170141183460469231731687303715884105728"),
    ("toDecimal64(1.5, 2)", "Decimal(18, 2)", 1.5),
    ("toDecimal128('12345678901234567890123.5', 1)", "Decimal(38, 1)", "12345678901234567890123.5"),
    ("toNullable(toDecimal64(1.25, 2))", "Nullable(Decimal(18, 2))", 1.25),
    ("0.1", "Float64", 0.1),
    ("nan", "Float64", "NaN"),
    ("-inf", "Float64", "-Infinity"),
    ("true", "Bool", True),
    ("toDate('2024-02-29')", "Date", "2024-02-29"),
    ("toDateTime64('2024-02-29 10:00:00.5', 3, 'UTC')", "DateTime64(3, 'UTC')", "2024-02-29 10:00:00.500"),
    ("[1, NULL]", "Array(Nullable(UInt8))", [1, None]),
    ("CAST(map('k', 1), 'Map(String, UInt8)')", "Map(String, UInt8)", {"k": 1}),
    ("NULL::Nullable(Date)", "Nullable(Date)", None),
    ("unhex('ff41')", "String", "\ufffdA"),
]


async def test_every_type_has_a_json_form_and_its_name(location: str) -> None:
    (result,) = await run(
        location, f"SELECT {', '.join(f'{value} AS v{place}' for place, (value, *_) in enumerate(VALUES))}"
    )
    assert rows(result) == [[expected for *_, expected in VALUES]]
    assert isinstance(result.data, dict)
    assert result.data["columns"] == [{"name": f"v{place}", "type": kind} for place, (_, kind, _) in enumerate(VALUES)]


async def test_parameters_keep_their_value(location: str) -> None:
    values: list[Json] = [
        *("'; DROP TABLE customers; --", "a\\tb", "a\tb\nc\rd", "\\N", "NULL", "", "\\", "it's", "{p2:String}", "é€😀", '"`'),
        *(7, -(2**63), 2**64 - 1, 0.1, True, None),
    ]  # fmt: skip
    sql = f'SELECT \'?\', "v?", {", ".join("?" for _ in values)} FROM (SELECT 1 AS "v?")'
    (result,) = await run(location, statement(sql, *values))
    shown = [str(value) if type(value) is int and abs(value) > 2**53 else value for value in values]
    assert rows(result) == [["?", 1, *shown]]


STOPPED = [
    "INSERT INTO customers VALUES (0, 'x')",
    "CREATE TABLE stolen (a Int8) ENGINE = Memory",
    "DROP TABLE customers",
    "ALTER TABLE customers DELETE WHERE 1",
    "TRUNCATE TABLE customers",
    "SELECT 1; DROP TABLE customers",
    "SELECT * FROM other.secrets",
    "SELECT count() FROM merge('other', '.*')",
    "SELECT * FROM remote('127.0.0.1', other.secrets)",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM s3('http://127.0.0.1:1/b/k', 'LineAsString')",
    "SELECT * FROM mysql('127.0.0.1:3306', 'mysql', 'user', 'root', '')",
    "SELECT * FROM postgresql('127.0.0.1:5432', 'postgres', 'pg_class', 'postgres', '')",
    "SELECT * FROM executable('cat', 'LineAsString', 'a String', (SELECT '1'))",
    "SELECT count() FROM customers SETTINGS readonly = 0",
    "SELECT count() FROM customers SETTINGS max_execution_time = 0",
    "SET readonly = 0",
    "GRANT ALL ON *.* TO default",
    "SYSTEM SHUTDOWN",
    "BACKUP TABLE customers TO File('{place}/stolen')",
]


async def test_a_session_alone_stops_what_writes_or_reads_elsewhere(location: str, tmp_path: Path) -> None:
    results = await run(location, *(sql.format(place=tmp_path) for sql in STOPPED))
    for sql, result in zip(STOPPED, results, strict=True):
        assert isinstance(result, Failed), sql
        assert "CANARY" not in str(result.error)
    assert not [*tmp_path.iterdir()]
    (left,) = await run(location, "SELECT count() FROM customers")
    assert rows(left) == [[300]]


async def test_a_statement_ends_at_its_time(location: str) -> None:
    (result,) = await run(location, statement("SELECT count() FROM numbers(1000000000000)", timeout_s=0.3))
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_timeout"


async def test_a_statement_is_refused_the_memory_of_the_machine(location: str) -> None:
    (result,) = await run(location, "SELECT length(groupArray(number)) FROM numbers(200000000)")
    assert isinstance(result, Failed)
    assert result.error.code == "response_too_large"


async def test_an_error_tells_nothing_of_the_data(location: str) -> None:
    (result,) = await run(location, "SELECT toInt32(name) FROM customers")
    assert isinstance(result, Failed)
    assert "Customer" not in str(result.error)
    assert "types" not in result.error.message


async def test_rows_before_an_error_are_in_no_later_answer(location: str) -> None:
    failing = "SELECT 'CANARY', throwIf(number = 150000) FROM numbers(200000)"
    results = await run(location, failing, "SELECT toInt32(name) FROM customers", "SELECT 1 AS v")
    assert isinstance(results[0], Failed)
    assert isinstance(results[1], Failed)
    assert rows(results[2]) == [[1]]


async def test_statements_at_once_wait_for_the_folder(location: str) -> None:
    asked = sql_call("clickhouse", "query", statement("SELECT count() FROM customers"))
    executor = SqlExecutor(location)
    try:
        results = await asyncio.gather(*(executor.execute(asked) for _ in range(6)))
    finally:
        await executor.close()
    assert [rows(result) for result in results] == [[[300]]] * 6


async def test_a_schema_is_read_beside_a_statement(location: str) -> None:
    executor = SqlExecutor(location)
    slow = sql_call("clickhouse", "query", statement("SELECT count() FROM numbers(1000000000000)", timeout_s=0.5))
    try:
        asked = asyncio.create_task(executor.execute(slow))
        await asyncio.to_thread(CONNECTORS["sql"].read, SourceConfig(name="lab", kind="sql", location=location))
        result = await asked
    finally:
        await executor.close()
    assert isinstance(result, Failed)
    assert result.error.code in {"upstream_timeout", "upstream_unavailable"}


async def test_no_other_folder_becomes_a_database(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        (result,) = await run(f"chdb:///{place}", "SELECT 1")
        assert isinstance(result, Failed)
    assert not [*tmp_path.iterdir()]


def test_only_tables_of_the_folder_and_plain_names_are_read(location: str) -> None:
    database = CONNECTORS["sql"].read(SourceConfig(name="lab", kind="sql", location=location)).info.database
    assert database is not None
    assert {table.name: [column.name for column in table.columns] for table in database.tables} == {
        "customers": ["id", "name"],
        "odd": ["id"],
    }
    assert database.functions == ("twice",)
    assert database.tables[0].comment == "People who buy"


@pytest.mark.parametrize(
    "changes", [{"writes": True}, {"location": "chdb:////nowhere/lab"}, {"location": "chdb:////tmp?x=1"}]
)
def test_a_source_that_cannot_be_is_refused(location: str, changes: dict[str, object]) -> None:
    given: dict[str, object] = {"name": "lab", "kind": "sql", "location": location, **changes}
    with pytest.raises(DescriptionError):
        CONNECTORS["sql"].read(SourceConfig(**given))  # type: ignore[arg-type]


def test_a_session_with_other_rights_reads_nothing(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolgen.connectors.sql.execution import clickhouse  # noqa: PLC0415 - where chdb is installed

    monkeypatch.setattr(clickhouse, "_ACCOUNT", tmp_path / "none.xml")  # the library opens the folder with every right
    with pytest.raises(DescriptionError):
        CONNECTORS["sql"].read(SourceConfig(name="lab", kind="sql", location=location))
