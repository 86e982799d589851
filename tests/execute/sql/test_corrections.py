"""What an agent is told of a statement that an engine does not take: the code says whose fault it is, the words what to write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

import toolgen
from tests.databases import duckdb_file, mysql_database, postgres_database, sql_call
from toolgen.execute.sql.executor import SqlExecutor
from toolgen.model.database import Database
from toolgen.model.result import Error, Failed
from toolgen.model.verdict import Allow, Deny
from toolgen.policy.sql.equivalents import EQUIVALENTS, function_advice
from toolgen.policy.sql.functions import FUNCTIONS
from toolgen.policy.sql.grants import SqlScope, TableScope, full_name
from toolgen.policy.sql.guard import guard

_ORDERS = (
    "CREATE TABLE orders (id integer PRIMARY KEY, total numeric(10,2), status {} NOT NULL, placed_at timestamp);\n"
)
_ROWS = (
    "INSERT INTO orders VALUES (1, 5, 'open', '2024-01-01 10:00:00'), (2, 7, 'paid', '2024-02-01 10:00:00');\n"
    "CREATE TABLE others (d timestamp, d2 timestamp, t varchar(40), n integer, j varchar(40));\n"
    "INSERT INTO others VALUES ('2024-01-02 10:00:00', '2024-01-01 10:00:00', '2024-01-01', 7, '{\"a\": 1}'),"
    " ('2024-02-02 10:00:00', '2024-01-01 10:00:00', '2024-01-01', 3, '{\"a\": 2}');\n"
)
_ENUM = "CREATE TYPE state AS ENUM ('open', 'paid', 'lost');\n"
ENGINES = ("sqlite", "duckdb", "postgres", "mysql")


@pytest.fixture(scope="module")
def locations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, Database]]]:
    folder = tmp_path_factory.mktemp("corrections")
    with closing(sqlite3.connect(folder / "a.db")) as connection:
        connection.executescript(_ORDERS.format("text") + _ROWS)
    enum = _ORDERS.format("state")
    with (
        postgres_database(_ENUM + enum + _ROWS) as postgres,
        mysql_database(_ORDERS.format("enum('open', 'paid', 'lost')") + _ROWS) as mysql,
    ):
        found = {
            "sqlite": f"sqlite:///{folder / 'a.db'}",
            "duckdb": duckdb_file(folder / "a.duckdb", _ENUM + enum + _ROWS),
            "postgres": postgres,
            "mysql": mysql,
        }
        databases = {name: toolgen.build({"lab": {"sql": location}}).sources["lab"] for name, location in found.items()}
        yield {name: (found[name], _database(source.database)) for name, source in databases.items()}


def _database(found: Database | None) -> Database:
    assert found is not None
    return found


def ask(location: str, database: Database, *statements: str, scope: SqlScope | None = None) -> list[Error | None]:
    """What each statement ends with; None for one with rows."""
    scope = scope or SqlScope(tables={full_name(table): TableScope() for table in database.tables}, max_rows=5)

    async def main() -> list[Error | None]:
        executor = SqlExecutor(location, permit=lambda _: Allow(rule="test"))
        errors: list[Error | None] = []
        for sql in statements:
            verdict = guard(sql, (), database=database, scope=scope, attributes={})
            if isinstance(verdict, Deny):
                errors.append(Error(code=verdict.code, message=verdict.reason, suggestion=verdict.suggestion))
                continue
            result = await executor.execute(sql_call(database.dialect, "query", verdict))
            errors.append(result.error if isinstance(result, Failed) else None)
        await executor.close()
        return errors

    return asyncio.run(main())


@pytest.mark.parametrize("engine", ENGINES)
def test_each_equivalent_runs_on_its_engine(locations: dict[str, tuple[str, Database]], engine: str) -> None:
    """`date_trunc -> date(d, …)` is advice only if the engine, and the guard before it, take what is advised."""
    written = sorted(set(EQUIVALENTS[engine].values()))
    errors = ask(*locations[engine], *(f"SELECT {one} AS x FROM others" for one in written))
    assert [(one, error) for one, error in zip(written, errors, strict=True) if error is not None] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_of_another_engine_is_answered_with_this_ones(
    locations: dict[str, tuple[str, Database]], engine: str
) -> None:
    for name in (
        "year",
        "group_concat",
        "string_agg",
        "crosstab",
        "date_format",
        "nvl",
        "len",
        "getdate",
        "regexp_like",
    ):
        (error,) = ask(*locations[engine], f"SELECT {name}(t) FROM others")
        if error is None or name not in EQUIVALENTS[engine]:
            continue
        assert EQUIVALENTS[engine][name] in error.suggestion, (name, error)
        assert error.code in {"sql_refused", "sql_failed"}


def test_a_misspelt_function_is_answered_with_the_nearest() -> None:
    assert function_advice("cuont", "postgres") == "did you mean count?"
    assert function_advice("frobnicate", "sqlite") == "use the ordinary functions of SQLite for values"
    for engine in ENGINES:
        for name in EQUIVALENTS[engine]:
            assert name == name.lower()
        assert EQUIVALENTS[engine].keys() - FUNCTIONS[engine]


CASES = [
    (
        "postgres mysql",
        "SELECT total * 2 AS t2 FROM orders WHERE t2 > 5",
        "t2 is an alias of the SELECT list, which WHERE does not know: repeat its expression, total * 2",
    ),
    (
        "postgres",
        "SELECT status, total * 2 AS t2 FROM orders GROUP BY status, total HAVING t2 > 5",
        "which HAVING does not know: repeat its expression, total * 2",
    ),
    (
        "postgres mysql",
        "SELECT status, sum(total) AS s FROM orders WHERE s > 5 GROUP BY status",
        "compare it in HAVING, SUM(total)",
    ),
    (
        "postgres mysql",
        "SELECT id, row_number() OVER (ORDER BY id) AS rn FROM orders WHERE rn = 1",
        "put the query into FROM",
    ),
    (
        "sqlite duckdb",
        "SELECT id, row_number() OVER (ORDER BY id) AS rn FROM orders WHERE rn = 1",
        "put the query into FROM",
    ),
    ("sqlite duckdb postgres mysql", "SELECT sum(total) FROM orders WHERE sum(total) > 5", "HAVING SUM(total) > 5"),
    (
        "duckdb postgres",
        "SELECT status, id, sum(total) FROM orders GROUP BY status",
        "id stands beside an aggregate: add it, GROUP BY status, id; or aggregate it, max(id)",
    ),
    ("duckdb postgres", "SELECT 1, id, sum(total) FROM orders GROUP BY 1", "add it, GROUP BY 1, id"),
    ("duckdb postgres", "SELECT status, sum(total) FROM orders", "add it, GROUP BY status; or"),
    ("postgres", "SELECT id FROM orders WHERE status = 'opne'", "status one of 'open', 'paid', 'lost'"),
    ("postgres", "SELECT id FROM orders WHERE status IN ('opne', 'x')", "status one of 'open', 'paid', 'lost'"),
    ("postgres", "SELECT lower(total) FROM orders", "total numeric(10,2); cast the arguments"),
    ("duckdb", "SELECT lower(total) FROM orders", "total DECIMAL(10,2)"),
    ("duckdb", "SELECT id FROM orders WHERE placed_at > 'yesterday'", "placed_at TIMESTAMP"),
    ("sqlite", "SELECT string_agg(status, ',') FROM orders", "group_concat(t, ', ')"),
    ("duckdb", "SELECT nvl(total, 0) FROM orders", "ifnull(n, 0)"),
    ("postgres", "SELECT date_add(placed_at, interval '1 day') FROM orders", "d + interval '1 day'"),
    ("mysql", "SELECT regexp_like(status, 'o') FROM orders", "t REGEXP 'a'"),
    ("sqlite duckdb postgres mysql", "SELECT id FROM orders ORDER BY 7", "name"),
]


@pytest.mark.parametrize(("engines", "sql", "told"), CASES)
def test_a_statement_is_answered_with_what_to_write(
    locations: dict[str, tuple[str, Database]], engines: str, sql: str, told: str
) -> None:
    for engine in engines.split():
        (error,) = ask(*locations[engine], sql)
        assert error is not None, engine
        assert error.code in {"sql_refused", "sql_failed"}
        assert told in error.suggestion, (engine, error)
        assert "toolgen_" not in error.suggestion.lower()


def test_the_values_of_a_masked_column_are_not_told(locations: dict[str, tuple[str, Database]]) -> None:
    scope = SqlScope(tables={"orders": TableScope(masks={"status": "status"})}, max_rows=5)
    (error,) = ask(*locations["postgres"], "SELECT lower(id), status FROM orders", scope=scope)
    assert error is not None
    assert error.code == "sql_failed"
    assert "paid" not in error.suggestion
    assert "status" in error.suggestion
