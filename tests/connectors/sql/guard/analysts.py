"""What analysts ask of a small database of our own, in the words of every engine, and what the bare engine answers to it."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests.connectors.sql.guard.lab import in_capitals
from tests.databases import duckdb_file, mysql_database, postgres_database, sql_call
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.functions import FUNCTIONS
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.result import Failed, Success
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["VARIES", "answers", "bare", "database", "location", "open_scope", "script", "statements"]

VARIES = "-- varies\n"
"""Stands before a statement whose rows are others each time; its columns are not."""

_HERE = Path(__file__).parent / "analysts"
_TYPES = {
    "sqlite": {"text": "TEXT", "timestamp": "TIMESTAMP", "double": "REAL", "json": "TEXT"},
    "postgres": {"text": "text", "timestamp": "timestamp", "double": "double precision", "json": "jsonb"},
    "mysql": {"text": "varchar(100)", "timestamp": "datetime", "double": "double", "json": "json"},
    "clickhouse": {"text": "String", "timestamp": "DateTime64(6)", "double": "Float64", "json": "String"},
    "snowflake": {"text": "VARCHAR", "timestamp": "TIMESTAMP_NTZ", "double": "FLOAT", "json": "VARCHAR"},
    "tsql": {"text": "nvarchar(100)", "timestamp": "datetime2", "double": "float", "json": "nvarchar(4000)"},
    "duckdb": {"text": "VARCHAR", "timestamp": "TIMESTAMP", "double": "DOUBLE", "json": "JSON"},
}
# What an engine does not read at all, of the statements for every engine.
_UNREAD = {"sqlite": re.compile(r"^\("), "mysql": re.compile(r'FILTER \(|"')}


def script(dialect: str) -> str:
    """The statements that make the database."""
    return (_HERE / "schema.sql").read_text(encoding="utf-8").format(**_TYPES[dialect])


def database(dialect: str, location: str = "") -> Database:
    """The schema as a build finds it at `location`."""
    tables = []
    for table, body in re.findall(r"CREATE TABLE (\w+) \((.*)\);", script(dialect)):
        key = re.search(r"PRIMARY KEY \(([^)]*)\)|(\w+) INTEGER PRIMARY KEY", body)
        plain = re.sub(r"\([\d, ]+\)", "", re.sub(r", PRIMARY KEY \([^)]*\)", "", body))
        columns = tuple(Column(name=part.split()[0], type=part.split()[1]) for part in plain.split(", "))
        keyed = tuple((key[1] or key[2]).split(", ")) if key else ()
        found = Table(name=table, columns=columns, primary_key=keyed)
        tables.append(in_capitals(found) if dialect == "snowflake" else found)
    name = location.rpartition("/")[2] if dialect == "mysql" else ""
    return Database(dialect=dialect, tables=tuple(tables), name=name)


@contextmanager
def location(dialect: str, folder: Path) -> Iterator[str]:
    """A fresh database with the schema; skips where there is no server."""
    match dialect:
        case "postgres":
            with postgres_database(script(dialect)) as found:
                yield found
        case "mysql":
            with mysql_database(script(dialect)) as found:
                yield found
        case "duckdb":
            yield duckdb_file(folder / "analysts.duckdb", script(dialect))
        case _:
            path = folder / "analysts.db"
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(script(dialect))
            yield f"sqlite:///{path}"


def statements(dialect: str, location: str = "") -> list[str]:
    """Those of every engine and the engine's own; `{db}` in them is the database's name."""
    common, own = (
        [sql.strip() for sql in (_HERE / file).read_text(encoding="utf-8").split(";\n") if sql.strip()]
        for file in ("common.sql", f"{dialect}.sql")
    )
    unread = _UNREAD.get(dialect)
    given = [sql for sql in common if unread is None or not unread.search(sql)] + own
    return [sql.replace("{db}", location.rpartition("/")[2]) for sql in given]


def bare(sql: str, known: Database) -> Statement:
    """The statement as it was written, with everything open to the session."""
    columns = [(table.name, column.name) for table in known.tables for column in table.columns]
    return Statement(
        sql=sql,
        parameters=(),
        tables=frozenset(table.name for table in known.tables),
        columns=frozenset(
            f"{table}.{column}" for table, column in [*columns, *((table.name, "rowid") for table in known.tables)]
        ),
        max_rows=1000,
        max_bytes=1_000_000,
        max_cell_bytes=100_000,
        timeout_s=20.0,
        functions=FUNCTIONS[known.dialect] | {"json_each", "json_tree"},
    )


def open_scope(known: Database, rows: str | None = None) -> SqlScope:
    """Every table and column, through a row filter if there is one."""
    return SqlScope(tables={table.name: TableScope(rows=rows) for table in known.tables}, max_rows=1000)


def answers(location: str, asked: Sequence[Statement], dialect: str) -> list[Success | Failed]:
    """What the engine answers to each, in order."""

    async def work() -> list[Success | Failed]:
        executor = SqlExecutor(location)
        try:
            return [await executor.execute(sql_call(dialect, "query", statement)) for statement in asked]
        finally:
            await executor.close()

    return asyncio.run(work())
