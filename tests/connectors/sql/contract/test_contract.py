"""Contract of SQL dialects: what holds for a source of every engine, from its tables to the rows of an answer."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.databases import (
    READS,
    bigquery_dataset,
    clickhouse_folder,
    duckdb_file,
    mysql_database,
    postgres_database,
    snowflake_database,
    sql_call,
)
from toolgen.config.policies import load_policy
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.secrets import SecretResolver
from toolgen.connectors.source import QueryFiles, SourceConfig, SourceReading
from toolgen.connectors.sql import engines
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.functions import FUNCTIONS
from toolgen.connectors.sql.guard.grammar import GRAMMAR
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.plan_disclosure import explainable
from toolgen.connectors.sql.reading.read import read_rights
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.manifest import SourceInfo, assemble
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json
from toolgen.model.secret import parse_reference
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

DIALECTS = tuple(name for name in engines.ENGINES if name != "tsql")  # no SQL Server runs here: execution/test_tsql.py
KEYS: dict[str, str] = {}
"""Credentials of sources by their locations, where an engine needs them."""
TABLES = (
    "CREATE TABLE customers (id INTEGER NOT NULL, name VARCHAR(40) NOT NULL, ssn VARCHAR(20) NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE orders (id INTEGER NOT NULL, customer INTEGER NOT NULL, total INTEGER NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE notes (id INTEGER NOT NULL, tenant VARCHAR(9) NOT NULL, body VARCHAR(40) NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE vault (id INTEGER NOT NULL, secret VARCHAR(40) NOT NULL, PRIMARY KEY (id))",
)
ROWS = (
    "INSERT INTO customers VALUES (1, 'Ann', '111'), (2, 'Bo', '222'), (3, 'Cy', '333')",
    "INSERT INTO orders VALUES (10, 1, 5), (11, 1, 7), (12, 2, 30)",
    "INSERT INTO notes VALUES (1, 'acme', 'ours'), (2, 'other', 'theirs')",
    "INSERT INTO vault VALUES (1, 'canary')",
)
SCOPE = SqlScope(
    tables={
        "customers": TableScope(columns=("id", "name")),
        "orders": TableScope(),
        "notes": TableScope(rows="tenant = :tenant"),
    },
    max_rows=100,
    max_bytes=1_000_000,
    max_cell_bytes=10_000,
    timeout_s=20.0,
)
QUERY = """-- name: big_orders
-- description: Orders of at least a total.
-- parameter: least integer  The smallest total.
SELECT id, total FROM orders WHERE total >= :least ORDER BY id
"""
ANSWERED: tuple[tuple[str, list[Json], list[list[Json]]], ...] = (
    ("SELECT id, name FROM customers ORDER BY id", [], [[1, "Ann"], [2, "Bo"], [3, "Cy"]]),
    ("SELECT * FROM customers WHERE id = 2", [], [[2, "Bo"]]),
    ("SELECT c.name, sum(o.total) AS s FROM customers c JOIN orders o ON o.customer = c.id GROUP BY c.name ORDER BY s", [],
     [["Ann", 12], ["Bo", 30]]),
    ("SELECT count(*) AS n FROM orders WHERE total BETWEEN 6 AND 40", [], [[2]]),
    ("WITH big AS (SELECT id, total FROM orders WHERE total > 6) SELECT id FROM big ORDER BY total DESC", [], [[12], [11]]),
    ("SELECT id, CASE WHEN total > 6 THEN 'big' ELSE 'small' END AS size FROM orders ORDER BY id LIMIT 2", [],
     [[10, "small"], [11, "big"]]),
    ("SELECT id FROM orders WHERE customer IN (SELECT id FROM customers WHERE name LIKE 'A%') ORDER BY id DESC", [], [[11], [10]]),
    ("SELECT id FROM (SELECT id FROM customers UNION ALL SELECT id FROM orders) AS u ORDER BY id LIMIT 1", [], [[1]]),
    ("SELECT id, row_number() OVER (ORDER BY total DESC) AS place FROM orders ORDER BY place", [], [[12, 1], [11, 2], [10, 3]]),
    ("SELECT coalesce(nullif(name, 'Bo'), 'none') AS n FROM customers ORDER BY id", [], [["Ann"], ["none"], ["Cy"]]),
    ("SELECT id, body FROM notes ORDER BY id", [], [[1, "ours"]]),
    ("SELECT id FROM orders WHERE total > {0} AND customer = {1}", [6, 1], [[11]]),
    ("SELECT id FROM customers WHERE name = {0}", ["B' OR 1 = 1 --"], []),
)  # fmt: skip
REFUSED = (
    "SELECT ssn FROM customers",
    "SELECT id FROM customers WHERE ssn = '111'",
    "SELECT * FROM vault",
    "SELECT secret FROM customers, vault",
    "SELECT 1; SELECT 2",
    "DROP TABLE orders",
    "INSERT INTO orders VALUES (1, 1, 1)",
    "UPDATE orders SET total = 0",
    "SELECT * FROM system.tables",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM file('/etc/passwd')",
    "SELECT * FROM url('http://127.0.0.1/')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT load_file('/etc/passwd')",
    "SELECT load_extension('x')",
    "SELECT id FROM orders INTO OUTFILE '/tmp/x'",
    "SELECT sleep(3)",
    "SET x = 1",
    "EXPLAIN SELECT 1",
)


@pytest.fixture(scope="module", params=DIALECTS)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceConfig]:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "queries.sql").write_text(QUERY, encoding="utf-8")
    script = "".join(f"{line};\n" for line in (*TABLES, *ROWS))

    def at(location: str) -> SourceConfig:
        return SourceConfig(
            name="lab",
            kind="sql",
            location=location,
            queries=(QueryFiles(pattern="queries.sql", root=str(folder), where="sources.lab"),),
        )

    match request.param:
        case "sqlite":
            with closing(sqlite3.connect(folder / "lab.db")) as connection:
                connection.executescript(script)
            yield at(f"sqlite:///{folder / 'lab.db'}")
        case "duckdb":
            yield at(duckdb_file(folder / "lab.duckdb", script))
        case "postgres":
            with postgres_database(script) as location:
                yield at(location)
        case "mysql":
            with mysql_database(script) as location:
                yield at(location)
        case "snowflake":
            with snowflake_database(folder, *TABLES, *ROWS, grants=READS) as lab:
                KEYS[lab.location] = lab.key
                yield at(lab.location)
        case "bigquery":
            typed = (re.sub(r"VARCHAR\(\d+\)", "STRING", one).replace("INTEGER", "INT64") for one in TABLES)
            unkeyed = (re.sub(r", PRIMARY KEY \(\w+\)", "", one) for one in typed)
            with bigquery_dataset(*unkeyed, *ROWS) as location:
                yield at(location)
        case _:
            yield at(clickhouse_folder(folder / "lab", *(f"{one} ENGINE = MergeTree" for one in TABLES), *ROWS))


@pytest.fixture(scope="module")
def reading(source: SourceConfig) -> SourceReading:
    return CONNECTORS["sql"].read(source, lambda: KEYS.get(source.location, ""))


@pytest.fixture(scope="module")
def database(reading: SourceReading) -> Database:
    assert reading.info.database is not None
    return reading.info.database


def judged(
    database: Database, sql: str, parameters: list[Json], cursor: str = "", **changes: object
) -> Statement | Deny:
    numbered = bool(parameters) and RECORDS[database.dialect].always_numbered
    marks = [f"${place + 1}" if numbered else "?" for place in range(len(parameters))]
    given = {name: getattr(SCOPE, name) for name in SCOPE.__struct_fields__} | changes
    if database.dialect == "snowflake":  # names are in capital letters there
        given["tables"] = {name.upper(): _in_capitals(scope) for name, scope in given["tables"].items()}
    scope = SqlScope(**given)
    return guard(
        sql.format(*marks), parameters, database=database, scope=scope, attributes={"tenant": "acme"}, cursor=cursor
    )


def _in_capitals(scope: TableScope) -> TableScope:
    columns = None if scope.columns is None else tuple(name.upper() for name in scope.columns)
    return replace(scope, columns=columns, masks={name.upper(): value for name, value in scope.masks.items()})


async def answered(
    source: SourceConfig, database: Database, verdict: Statement | Deny, operation: str = "query"
) -> Success | Failed:
    assert isinstance(verdict, Statement), verdict

    key = KEYS.get(source.location)
    executor = SqlExecutor(
        source.location,
        password=parse_reference("${env:KEY}") if key else None,
        secrets=SecretResolver({"KEY": key} if key else {}),
    )
    try:
        return await executor.execute(sql_call(database.dialect, operation, verdict))
    finally:
        await executor.close()


def rows_of(result: Success | Failed) -> object:
    assert isinstance(result, Success), result
    assert isinstance(result.data, dict)
    return result.data["rows"]


def test_tables_are_read_with_columns_and_keys(database: Database) -> None:
    found = {
        table.name.lower(): ([column.name.lower() for column in table.columns], table.primary_key)
        for table in database.tables
    }
    unique = database.dialect not in {"bigquery", "clickhouse", "snowflake"}  # several rows may have one key there
    assert found["customers"] == (["id", "name", "ssn"], ("id",) if unique else ())
    assert {*found} == {"customers", "notes", "orders", "vault"}


def test_a_source_has_the_tools_of_a_database_and_its_named_queries(reading: SourceReading) -> None:
    names = {tool.name.removeprefix("lab__") for tool in reading.tools}
    assert {"query", "explain", "list_tables", "describe_table", "big_orders"} <= names
    assert reading.problems == ()


@pytest.mark.parametrize(("sql", "parameters", "rows"), ANSWERED)
async def test_a_query_is_answered(
    source: SourceConfig, database: Database, sql: str, parameters: list[Json], rows: list[list[Json]]
) -> None:
    assert rows_of(await answered(source, database, judged(database, sql, parameters))) == rows


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_hidden_written_or_outside_is_refused(database: Database, sql: str) -> None:
    assert isinstance(judged(database, sql, []), Deny)


async def test_rows_are_limited_and_go_on_at_the_cursor(source: SourceConfig, database: Database) -> None:
    sql = "SELECT id FROM orders ORDER BY id"
    first = await answered(source, database, judged(database, sql, [], max_rows=2))
    assert rows_of(first) == [[10], [11]]
    assert isinstance(first, Success)
    assert first.next_cursor
    assert rows_of(await answered(source, database, judged(database, sql, [], first.next_cursor, max_rows=2))) == [[12]]


async def test_a_mask_stands_in_place_of_values(source: SourceConfig, database: Database) -> None:
    masked = {"customers": TableScope(columns=("id", "name"), masks={"name": "***"})}
    verdict = judged(database, "SELECT name FROM customers WHERE id = 1", [], tables=masked)
    assert rows_of(await answered(source, database, verdict)) == [["***"]]


async def test_a_plan_is_told_of_tables_that_are_open_as_a_whole(source: SourceConfig, database: Database) -> None:
    if database.dialect == "snowflake":
        pytest.skip("the emulator makes no plans")
    seen = judged(database, "SELECT id FROM orders", [])
    assert rows_of(await answered(source, database, explainable(seen, database=database, scope=SCOPE), "explain"))
    hidden = judged(database, "SELECT id FROM notes", [])
    assert isinstance(explainable(hidden, database=database, scope=SCOPE), Deny)


async def test_an_error_tells_nothing_of_the_data(source: SourceConfig, database: Database) -> None:
    verdict = judged(database, "SELECT CAST(name AS INTEGER) + 1 AS n FROM customers WHERE id = 1", [])
    result = await answered(source, database, verdict)
    shown = str(result.error) if isinstance(result, Failed) else ""
    assert "Ann" not in shown
    assert "111" not in shown


def test_an_account_is_asked_for_what_it_may_do(source: SourceConfig) -> None:
    assert read_rights(source, KEYS.get(source.location, "")) is not None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_part_of_a_statement_has_a_cost(dialect: str) -> None:
    record = RECORDS[dialect]
    assert {kind.__name__ for kind in GRAMMAR[dialect]} - set(record.operators) == set()
    assert set(record.functions) == FUNCTIONS[dialect]
    assert not record.functions.keys() & {"sleep", "load_file", "pg_read_file", "load_extension", "file", "url"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_record_says_how_its_databases_are_reached(dialect: str) -> None:
    record, engine = RECORDS[dialect], engines.ENGINES[dialect]
    assert bool(record.open_engine) == bool(engine.port)
    assert bool(record.sandbox) != bool(engine.port)
    location = engines.location_of(engines.preview_location(dialect))
    assert location.dialect == dialect


def test_a_dialect_of_a_later_version_is_refused(tmp_path: Path) -> None:
    known = Database(dialect="later", tables=(Table(name="orders", columns=(Column(name="id", type="INTEGER"),)),))
    info = SourceInfo(kind="sql", digest="", title="", version="", database=known)
    (tmp_path / "p.yaml").write_text("sql: {lab: {tables: {orders: {}}}}", encoding="utf-8")

    with pytest.raises(PolicyError, match="'later'"):
        load_policy(tmp_path, assemble({"lab": info}, [], []))
    with pytest.raises(ConfigError, match="'later'"):
        CONNECTORS["sql"].preview_config("shop", info)
    assert isinstance(judged(known, "SELECT id FROM orders", [], tables={}), Deny)
