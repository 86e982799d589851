"""What an agent is told of a statement that an engine does not take: the code says whose fault it is, the words what to write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

import toolgen
from tests.databases import duckdb_file, mysql_database, postgres_database, sql_call
from tests.messages import line_names
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.equivalents import function_advice
from toolgen.connectors.sql.guard.functions import FUNCTIONS
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.identifiers import full_name
from toolgen.model.database import Database
from toolgen.model.result import Error, Failed, Success
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Allow, Deny

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


async def ask(location: str, database: Database, *statements: str, scope: SqlScope | None = None) -> list[Error | None]:
    """What each statement ends with; None for one with rows."""
    scope = scope or SqlScope(tables={full_name(table): TableScope() for table in database.tables}, max_rows=5)

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


@pytest.mark.parametrize("engine", ENGINES)
async def test_each_equivalent_runs_on_its_engine(locations: dict[str, tuple[str, Database]], engine: str) -> None:
    """`date_trunc -> date(d, …)` is advice only if the engine, and the guard before it, take what is advised."""
    written = sorted(set(RECORDS[engine].equivalents.values()))
    errors = await ask(*locations[engine], *(f"SELECT {one} AS x FROM others" for one in written))
    assert [(one, error) for one, error in zip(written, errors, strict=True) if error is not None] == []


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_function_of_another_engine_is_answered_with_this_ones(
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
        (error,) = await ask(*locations[engine], f"SELECT {name}(t) FROM others")
        if error is None or name not in RECORDS[engine].equivalents:
            continue
        assert RECORDS[engine].equivalents[name] in error.suggestion, (name, error)
        assert error.code in {"sql_refused", "sql_failed"}


def test_a_misspelt_function_is_answered_with_the_nearest() -> None:
    assert function_advice("cuont", "postgres") == "did you mean count?"
    assert line_names(function_advice("frobnicate", "sqlite"), "CASE", "such as")
    for engine in ENGINES:
        for name in RECORDS[engine].equivalents:
            assert name == name.lower()
        assert RECORDS[engine].equivalents.keys() - FUNCTIONS[engine]


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
        "id is used beside an aggregate: add it, GROUP BY status, id; or aggregate it, max(id)",
    ),
    ("duckdb postgres", "SELECT 1, id, sum(total) FROM orders GROUP BY 1", "add it, GROUP BY 1, id"),
    ("duckdb postgres", "SELECT status, sum(total) FROM orders", "add it, GROUP BY status; or"),
    ("postgres", "SELECT id FROM orders WHERE status = 'opne'", "status one of 'open', 'paid', 'lost'"),
    ("postgres", "SELECT id FROM orders WHERE status IN ('opne', 'x')", "status one of 'open', 'paid', 'lost'"),
    ("postgres", "SELECT lower(total) FROM orders", "total numeric(10,2); cast the arguments"),
    ("duckdb", "SELECT lower(total) FROM orders", "total DECIMAL(10,2)"),
    ("duckdb", "SELECT id FROM orders WHERE placed_at > 'yesterday'", "placed_at TIMESTAMP"),
    # SQLite has it itself since 3.44: https://www.sqlite.org/lang_aggfunc.html#group_concat
    *(
        [("sqlite", "SELECT string_agg(status, ',') FROM orders", "group_concat(t, ', ')")]
        if sqlite3.sqlite_version_info < (3, 44)
        else []
    ),
    ("duckdb", "SELECT nvl(total, 0) FROM orders", "ifnull(n, 0)"),
    ("postgres", "SELECT date_add(placed_at, interval '1 day') FROM orders", "d + interval '1 day'"),
    ("mysql", "SELECT regexp_like(status, 'o') FROM orders", "t REGEXP 'a'"),
    ("sqlite duckdb postgres mysql", "SELECT id FROM orders ORDER BY 7", "name"),
]


@pytest.mark.parametrize(("engines", "sql", "told"), CASES)
async def test_a_statement_is_answered_with_what_to_write(
    locations: dict[str, tuple[str, Database]], engines: str, sql: str, told: str
) -> None:
    for engine in engines.split():
        (error,) = await ask(*locations[engine], sql)
        assert error is not None, engine
        assert error.code in {"sql_refused", "sql_failed"}
        assert told in error.suggestion, (engine, error)
        assert "toolgen_" not in error.suggestion.lower()


_TICKETS = """
CREATE TABLE tickets (id integer PRIMARY KEY, status {status} NOT NULL, tags {tags}, kind varchar(9) CHECK (kind IN ('x', 'y')));
INSERT INTO tickets VALUES (1, 'open', 'a', 'x'), (2, 'paid', 'b', 'y');
"""
_STATUS = "status one of 'open', 'paid', 'lost'"
_BOTH = f"the schema has no value 'opne': {_STATUS}; the schema has no value 'z': kind one of 'x', 'y'"
_NOTES = [
    ("SELECT id FROM tickets WHERE status = 'opne'", 0, f"the schema has no value 'opne': {_STATUS}"),
    ("SELECT id FROM tickets t WHERE 'opne' = t.status OR t.kind IN ('x', 'z')", 1, _BOTH),
    ("SELECT count(*) AS n FROM tickets WHERE status IN ('closed', 'paid')", 1, f"the schema has no value 'closed': {_STATUS}"),
    ("SELECT id FROM tickets WHERE status = 'paid' AND kind = 'y'", 1, None),
    ("SELECT id FROM tickets WHERE status <> 'archived'", 2, None),
    ("SELECT id FROM tickets WHERE status LIKE 'op%'", 1, None),
    # A derived column of that name has values of its own.
    ("SELECT id FROM (SELECT id, CASE WHEN id = 1 THEN 'done' ELSE 'x' END AS status FROM tickets) AS q WHERE status = 'done'", 1, None),
    ("WITH q(id, status) AS (SELECT id, 'done' FROM tickets) SELECT id FROM q WHERE status = 'done'", 2, None),
]  # fmt: skip


_BOUND: list[tuple[str, tuple[Json, ...], int, str | None]] = [
    ("SELECT id FROM tickets WHERE kind = ?", ("z",), 0, "the schema has no value 'z': kind one of 'x', 'y'"),
    ("SELECT id FROM tickets WHERE kind = ?", ("x",), 1, None),
    ("SELECT id FROM tickets WHERE :kind = kind", ("z",), 0, "the schema has no value 'z': kind one of 'x', 'y'"),
    ("SELECT id FROM tickets WHERE id = ? AND kind IN (?, ?)", (1, "x", "z"), 1, "the schema has no value 'z': kind one of 'x', 'y'"),
    ("SELECT id FROM tickets WHERE kind <> ?", ("z",), 2, None),
    ("SELECT id FROM tickets WHERE kind = ? OR kind = 'q'", (None,), 0, "the schema has no value 'q': kind one of 'x', 'y'"),
]  # fmt: skip


async def noted(
    location: str, database: Database, *statements: str, scope: SqlScope | None = None, parameters: Sequence[Json] = ()
) -> list[tuple[object, object]]:
    """Of each statement how many rows it has, and what is said of it."""
    scope = scope or SqlScope(tables={full_name(table): TableScope() for table in database.tables}, max_rows=5)

    executor = SqlExecutor(location, permit=lambda _: Allow(rule="test"))
    found: list[tuple[object, object]] = []
    for sql in statements:
        verdict = guard(sql, parameters, database=database, scope=scope, attributes={})
        assert not isinstance(verdict, Deny), verdict
        result = await executor.execute(sql_call(database.dialect, "query", verdict))
        assert isinstance(result, Success), result
        assert isinstance(result.data, dict)
        found.append((result.data["row_count"], result.data.get("note")))
    await executor.close()
    return found


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_value_that_no_row_can_have_is_told_beside_the_rows(tmp_path: Path, engine: str) -> None:
    checked = "varchar(9) CHECK (status IN ('open', 'paid', 'lost'))"
    plain = _TICKETS.format(status=checked, tags="varchar(9)")
    listing = _TICKETS.format(status="enum('open', 'paid', 'lost')", tags="set('a', 'b')")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.executescript(plain)
    with postgres_database(plain) as postgres, mysql_database(listing) as mysql:
        location = {
            "sqlite": f"sqlite:///{tmp_path / 'a.db'}",
            "duckdb": duckdb_file(tmp_path / "a.duckdb", _ENUM + _TICKETS.format(status="state", tags="varchar(9)")),
            "postgres": postgres,
            "mysql": mysql,
        }[engine]
        database = _database(toolgen.build({"lab": {"sql": location}}).sources["lab"].database)
        assert await noted(location, database, *(sql for sql, _, _ in _NOTES)) == [told[1:] for told in _NOTES]
        for sql, parameters, rows, note in _BOUND:
            assert await noted(location, database, sql, parameters=parameters) == [(rows, note)], (sql, parameters)
        if engine == "postgres":
            asked = "SELECT id FROM tickets WHERE kind = ANY(?)"
            told = await noted(location, database, asked, parameters=[["x", "z"]])
            assert [(row_count, str(note).partition(": ")[2]) for row_count, note in told] == [
                (1, "kind one of 'x', 'y'")
            ]
        masked = SqlScope(tables={"tickets": TableScope(masks={"status": "status"})}, max_rows=5)
        told = await noted(location, database, "SELECT status FROM tickets WHERE id = 1", scope=masked)
        assert [note for _, note in told] == [None]
        if engine == "mysql":
            asked = ("tags = 'b'", "tags = 'a,b'", "tags = 'c'", "status = 'PAID'", "status = ''", "status = '2'")
            told = await noted(location, database, *(f"SELECT id FROM tickets WHERE {one}" for one in asked))
            notes = [note for _, note in told]
            assert line_names(notes.pop(2) or "", "'c': ", "tags one of 'a', 'b'")
            assert notes == [None] * 5


async def test_the_values_of_a_masked_column_are_not_told(locations: dict[str, tuple[str, Database]]) -> None:
    scope = SqlScope(tables={"orders": TableScope(masks={"status": "status"})}, max_rows=5)
    (error,) = await ask(*locations["postgres"], "SELECT lower(id), status FROM orders", scope=scope)
    assert error is not None
    assert error.code == "sql_failed"
    assert "paid" not in error.suggestion
    assert "status" in error.suggestion
