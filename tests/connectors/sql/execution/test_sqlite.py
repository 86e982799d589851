"""The SQLite session: what comes back, what is capped, what a failure says, and that nothing unguarded is ever run."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.sql.guard.lab import DATABASE, SCOPE, allowed, write
from tests.databases import sql_tool
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.execution.sandbox_pool import FileEngine
from toolgen.connectors.sql.guard.scope import visible
from toolgen.core.errors import ConfigError
from toolgen.model.call import Call, Principal, Statement
from toolgen.model.database import Database
from toolgen.model.result import Failed, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import NoBinding, Tool
from toolgen.pipeline.responses.more import more_behind

pytestmark = pytest.mark.usefixtures("sql_processes")


def call(
    operation: str,
    *,
    statement: Statement | None = None,
    database: Database | None = None,
    arguments: JsonObject | None = None,
) -> Call:
    tool = sql_tool("sqlite", operation)
    return Call(
        id="1",
        tool=tool,
        arguments=arguments or {},
        principal=Principal(id="p"),
        statement=statement,
        database=database,
    )


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{write(tmp_path_factory.mktemp('lab') / 'lab.db')}"


@pytest.fixture
def executor(location: str) -> Iterator[SqlExecutor]:
    executor = SqlExecutor(location)
    yield executor
    asyncio.run(executor.close())


async def run(executor: SqlExecutor, sql: str, *parameters: object, **changes: object) -> Success | Failed:
    return await executor.execute(call("query", statement=allowed(sql, *parameters, **changes)))


def succeeded(result: Success | Failed) -> Success:
    assert isinstance(result, Success), result
    json.dumps(result.data, allow_nan=False)
    return result


async def test_rows_come_with_their_columns_and_types(executor: SqlExecutor) -> None:
    result = succeeded(
        await run(executor, "SELECT id, status AS s, total, NULL AS empty, x'00ff' AS b FROM orders WHERE id = ?", 2)
    )
    assert result.data == {
        "columns": [
            {"name": "id", "type": "integer"},
            {"name": "s", "type": "text"},
            {"name": "total", "type": "real"},
            {"name": "empty", "type": "null"},
            {"name": "b", "type": "blob"},
        ],
        "rows": [[2, "sent", 3.0, None, {"base64": "AP8="}]],
        "row_count": 1,
    }
    assert not result.truncated
    assert result.delivery.rows == 1
    assert "SELECT id" in str(result.delivery.sql)


ANSWERS = [
    ("SELECT count(*) FROM customers", [[40]]),
    ("SELECT count(*) FROM tickets", [[10]]),
    ("SELECT count(*) FROM germans", [[20]]),
    ("SELECT name FROM germans ORDER BY id LIMIT 1", [["CUSTOMER 2"]]),
    (
        "SELECT g.name, o.id FROM germans g JOIN orders o ON o.customer_id = g.id ORDER BY o.id LIMIT 1",
        [["CUSTOMER 2", 1]],
    ),
    ("WITH q AS (SELECT id FROM orders) SELECT count(*) FROM q", [[500]]),
    ("SELECT count(*) FROM (SELECT 1 AS one)", [[1]]),
    ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n", [[15]]),
    ("SELECT j.value FROM orders o, json_each(o.detail, '$.lines') j WHERE o.id = 1 ORDER BY 1", [[1], [2]]),
    ("SELECT count(*) FROM json_each('[1,2]')", [[2]]),
    ("SELECT detail ->> '$.lines[0]' FROM orders WHERE id = 7 AND status LIKE 'P%' AND status GLOB 'p*'", [[7]]),
    ("SELECT id FROM orders WHERE id IN (3, 1) ORDER BY id DESC", [[3], [1]]),
    ("SELECT CAST('5' AS NUMERIC), CAST('5.5' AS DECIMAL(9, 2)), CAST(7 AS VARCHAR(3))", [[5, 5.5, "7"]]),
    ("SELECT 9e999, -9e999", [["Infinity", "-Infinity"]]),
    (
        "SELECT status, count(*) OVER (PARTITION BY status) FROM orders WHERE id < 3 ORDER BY id",
        [["paid", 1], ["sent", 1]],
    ),
    ("WITH orders AS (SELECT id FROM orders WHERE id < 4) SELECT count(*) FROM orders", [[3]]),
    ("SELECT CURRENT_DATE > '2000-01-01'", [[1]]),
]


@pytest.mark.parametrize(("sql", "rows"), ANSWERS)
async def test_the_session_lets_a_guarded_statement_through(
    executor: SqlExecutor, sql: str, rows: list[list[object]]
) -> None:
    result = succeeded(await run(executor, sql))
    assert isinstance(result.data, dict)
    assert result.data["rows"] == rows
    assert isinstance(result.data["rows"][0][0], type(rows[0][0]))


TRUNCATED = [
    ("SELECT id FROM orders", {"max_rows": 7}, 7, True),
    ("SELECT id FROM orders LIMIT 7", {"max_rows": 7}, 7, False),
    ("SELECT id FROM orders LIMIT 6", {"max_rows": 7}, 6, False),
    ("SELECT status FROM orders", {"max_bytes": 72}, 10, True),
    ("SELECT 'abcdefghij'", {"max_cell_bytes": 4}, 1, True),
]


@pytest.mark.parametrize(("sql", "changes", "rows", "truncated"), TRUNCATED)
async def test_an_answer_is_cut_at_its_caps_and_says_so(
    executor: SqlExecutor, sql: str, changes: dict[str, int], rows: int, truncated: bool
) -> None:
    result = succeeded(await run(executor, sql, **changes))
    assert isinstance(result.data, dict)
    assert (result.data["row_count"], len(result.data["rows"]), result.truncated) == (rows, rows, truncated)


async def test_a_cell_is_cut_between_characters(executor: SqlExecutor) -> None:
    result = succeeded(await run(executor, "SELECT 'éééé', x'000102030405'", max_cell_bytes=5))
    assert isinstance(result.data, dict)
    assert result.data["rows"] == [["éé", {"base64": "AAEC"}]]


async def test_the_row_cap_holds_even_where_the_text_has_no_limit(executor: SqlExecutor) -> None:
    statement = allowed("VALUES (1), (2), (3), (4), (5)")
    few = Statement(
        sql=statement.sql,
        parameters=(),
        tables=frozenset(),
        columns=frozenset(),
        max_rows=3,
        max_bytes=1_000,
        max_cell_bytes=100,
        timeout_s=1.0,
    )
    result = succeeded(await executor.execute(call("query", statement=few)))
    assert isinstance(result.data, dict)
    assert result.data["rows"] == [[1], [2], [3]]
    assert result.truncated


FAILING = [
    ("SELECT json_extract(name, '$.a') FROM customers", "sql_failed", "a value is not JSON"),
    ("SELECT abs(-9223372036854775808)", "sql_failed", "a sum or product is too large for an integer"),
    (
        "SELECT sum(9223372036854775807 - id + id) FROM orders",
        "sql_failed",
        "a sum or product is too large for an integer",
    ),
    ("SELECT substr('a')", "sql_failed", "a function was called with the wrong number of arguments"),
    ("SELECT id FROM orders WHERE count(*) > 1", "sql_failed", "an aggregate is not allowed in its place"),
    (
        "SELECT id FROM orders UNION SELECT 1, 2",
        "sql_failed",
        "the sides of a set operation have different numbers of columns",
    ),
    ("SELECT json_extract('{}', name) FROM customers", "sql_failed", "a JSON path is malformed"),
]


@pytest.mark.parametrize(("sql", "code", "message"), FAILING)
async def test_what_the_engine_says_is_put_in_our_own_words(
    executor: SqlExecutor, sql: str, code: str, message: str
) -> None:
    result = await run(executor, sql)
    assert isinstance(result, Failed)
    assert (result.error.code, result.error.message) == (code, message)
    assert "Customer" not in repr(result.error)


async def test_a_database_that_is_gone_is_a_failure_that_names_no_path(tmp_path: Path) -> None:
    executor = SqlExecutor(f"sqlite:///{tmp_path / 'gone.db'}")
    result = await run(executor, "SELECT 1")
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_error"
    assert "gone" not in repr(result)
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_no_database_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database " * 100, encoding="utf-8")
    result = await run(SqlExecutor(f"sqlite:///{tmp_path / 'x.db'}"), "SELECT id FROM orders")
    assert isinstance(result, Failed)
    assert result.error.message.endswith("cannot be read")


async def test_a_column_added_after_the_build_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "lab.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE orders ADD COLUMN secret TEXT DEFAULT 'CNRY'")
    result = succeeded(await run(SqlExecutor(f"sqlite:///{path}"), "SELECT * FROM orders"))
    assert "CNRY" not in repr(result.data)


@pytest.mark.parametrize("operation", ["query", "explain"])
async def test_text_in_the_arguments_is_never_run(executor: SqlExecutor, operation: str) -> None:
    result = await executor.execute(call(operation, arguments={"sql": "SELECT 1", "parameters": []}))
    assert isinstance(result, Failed)
    assert result.error.code == "internal"


async def test_a_tool_of_another_kind_is_not_run(executor: SqlExecutor) -> None:
    given = call("query", statement=allowed("SELECT 1"))
    other = Call(id="1", tool=_unbound(given.tool), arguments={}, principal=given.principal, statement=given.statement)
    result = await executor.execute(other)
    assert isinstance(result, Failed)
    assert result.error.code == "internal"


def _unbound(tool: Tool) -> Tool:
    return Tool(
        **{name: getattr(tool, name) for name in Tool.__struct_fields__ if name != "binding"}, binding=NoBinding()
    )


async def test_an_operation_nobody_knows_is_not_run(executor: SqlExecutor) -> None:
    result = await executor.execute(call("vacuum", statement=allowed("SELECT 1")))
    assert isinstance(result, Failed)
    assert result.error.code == "internal"


async def test_a_plan_is_explained_without_running_the_statement(executor: SqlExecutor) -> None:
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    result = succeeded(await executor.execute(call("explain", statement=allowed(endless))))
    assert isinstance(result.data, dict)
    assert result.data["row_count"] > 0
    assert [column["name"] for column in result.data["columns"]][-1] == "detail"


def test_a_preview_is_what_would_be_sent(executor: SqlExecutor) -> None:
    statement = allowed("SELECT body FROM tickets WHERE id = ?", 3)
    assert executor.preview(call("query", statement=statement)) == {"sql": statement.sql, "parameters": ["acme", 3]}
    explained = executor.preview(call("explain", statement=statement))
    assert explained["sql"] == f"EXPLAIN QUERY PLAN {statement.sql}"
    assert executor.preview(call("list_tables")) == {"sql": "", "parameters": []}


async def test_a_cancelled_call_stops_its_statement(executor: SqlExecutor) -> None:
    endless = allowed(
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t", timeout_s=60.0
    )

    task = asyncio.create_task(executor.execute(call("query", statement=endless)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    engine = executor._opened
    assert isinstance(engine, FileEngine)
    engine._threads.shutdown(wait=True)  # returns only because the statement has ended, a minute before its own time


async def test_many_statements_run_side_by_side(executor: SqlExecutor) -> None:
    found = await asyncio.gather(
        *(executor.execute(call("query", statement=allowed("SELECT ?", number))) for number in range(40))
    )
    results = [succeeded(result).data for result in found]
    assert [data["rows"] for data in results if isinstance(data, dict)] == [[[number]] for number in range(40)]


async def test_tables_are_listed_as_far_as_they_may_be_seen(executor: SqlExecutor) -> None:
    result = succeeded(await executor.execute(call("list_tables", database=visible(DATABASE, SCOPE))))
    assert isinstance(result.data, dict)
    assert result.data["tables"] == [
        {"name": "customers", "columns": 3},
        {"name": "germans", "columns": 2, "kind": "view"},
        {"name": "orders", "columns": 6},
        {"name": "tickets", "columns": 3},
    ]


@pytest.mark.parametrize(
    ("arguments", "names", "cursor"),
    [
        ({"pattern": "ER"}, ["customers", "germans", "orders"], ""),
        ({"pattern": "*er*"}, ["customers", "germans", "orders"], ""),
        ({"pattern": "order?"}, ["orders"], ""),
        ({"pattern": "order"}, ["orders"], ""),
        ({"pattern": "t*s"}, ["tickets"], ""),
        ({"pattern": "*" * 100 + "x"}, [], ""),
        ({"limit": 3}, ["customers", "germans", "orders"], "3"),
        ({"limit": 3, "cursor": "3"}, ["tickets"], ""),
        ({"limit": 1, "pattern": "er", "cursor": "1"}, ["germans"], "2"),
        ({"cursor": "99"}, [], ""),
    ],
)
async def test_tables_are_listed_by_a_pattern_and_in_pages(
    executor: SqlExecutor, arguments: dict[str, Any], names: list[str], cursor: str
) -> None:
    asked = call("list_tables", database=visible(DATABASE, SCOPE), arguments=arguments)
    result = succeeded(await executor.execute(asked))
    assert isinstance(result.data, dict)
    assert [table["name"] for table in result.data["tables"]] == names
    assert result.next_cursor == cursor
    behind = more_behind(asked.tool, result)
    assert (behind is not None) is bool(cursor)


async def test_a_cursor_that_nobody_gave_is_refused(executor: SqlExecutor) -> None:
    asked = call("list_tables", database=visible(DATABASE, SCOPE), arguments={"cursor": "-1"})
    result = await executor.execute(asked)
    assert isinstance(result, Failed)
    assert result.error.code == "validation"


async def test_several_tables_are_described_at_once_without_what_is_empty(executor: SqlExecutor) -> None:
    several = call("describe_table", database=visible(DATABASE, SCOPE), arguments={"table": "orders, Customers"})
    result = succeeded(await executor.execute(several))
    assert isinstance(result.data, dict)
    assert [table["name"] for table in result.data["tables"]] == ["orders", "customers"]
    for table in result.data["tables"]:
        assert all(value or value is False for value in table.values())
        assert all(value != "" and value is not True for column in table["columns"] for value in column.values())
    hidden = call("describe_table", database=visible(DATABASE, SCOPE), arguments={"table": "orders,no_such"})
    refused = await executor.execute(hidden)
    assert isinstance(refused, Failed)
    assert "table no_such " in refused.error.message


async def test_a_table_is_described_as_far_as_it_may_be_seen(executor: SqlExecutor) -> None:
    described = call("describe_table", database=visible(DATABASE, SCOPE), arguments={"table": "Customers"})
    result = succeeded(await executor.execute(described))
    assert isinstance(result.data, dict)
    assert [column["name"] for column in result.data["columns"]] == ["id", "name", "country"]
    assert result.data["primary_key"] == ["id"]


@pytest.mark.parametrize("table", ["users_secret", "nothing", "", 5, None, "x" * 5_000])
async def test_a_table_that_may_not_be_seen_does_not_exist(executor: SqlExecutor, table: object) -> None:
    asked = call("describe_table", database=visible(DATABASE, SCOPE), arguments={"table": table})  # type: ignore[dict-item]
    result = await executor.execute(asked)
    assert isinstance(result, Failed)
    assert result.error.code == "validation"
    assert result.error.suggestion == "available tables: customers, germans, orders, tickets"


@pytest.mark.parametrize("operation", ["list_tables", "describe_table"])
async def test_nothing_is_described_when_nothing_said_what_may_be_seen(executor: SqlExecutor, operation: str) -> None:
    result = await executor.execute(call(operation, arguments={"table": "orders"}))
    assert isinstance(result, Failed)
    assert result.error.code == "internal"


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://user:CNRY@db.example/shop",
        "mysql://user:CNRY@db.example/shop?sslmode=CNRY",
        "oracle://user:CNRY@db.example/x",
        "x.db",
    ],
)
def test_a_location_that_is_none_is_refused_without_being_quoted(location: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SqlExecutor(location)
    assert "CNRY" not in str(caught.value)
