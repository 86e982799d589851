"""Databases of all four engines that a build has read, and changes that go through the guard to them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from tests.databases import duckdb_file, mysql, mysql_database, postgres, postgres_database, sql_call
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.changes import guard_change
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

ENGINES = ("duckdb", "mysql", "postgres", "sqlite")
WRITES = frozenset({"insert", "update", "delete"})


@contextmanager
def database(engine: str, script: str, directory: Path) -> Iterator[str]:
    """The location of a database in which `script` has run; its statements end at the ends of lines."""
    directory.mkdir(exist_ok=True)
    match engine:
        case "sqlite":
            path = directory / "shop.db"
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(script)
            yield f"sqlite:///{path}"
        case "duckdb":
            yield duckdb_file(directory / "shop.duckdb", script)
        case "postgres":
            with postgres_database(script) as location:
                yield location
        case _:
            with mysql_database(script) as location:
                yield location


def built(location: str) -> Database:
    """What a build of a source that writes finds."""
    found = read_sql(SourceConfig(name="lab", kind="sql", location=location, writes=True)).info.database
    assert found is not None
    return found


def judged(found: Database, sql: str, *values: Json, most: int = 1, **tables: TableScope) -> Statement | Deny:
    """The guard's verdict for a principal of the tenant acme; a `?` is written as the engine writes it."""
    if found.dialect == "postgres":
        for number in range(1, len(values) + 1):
            sql = sql.replace("?", f"${number}", 1)
    scope = SqlScope(tables=tables, max_changes=most, timeout_s=20.0)
    return guard_change(sql, values, database=found, scope=scope, attributes={"tenant": "acme"})


def asked(found: Database, sql: str, **tables: TableScope) -> Statement | Deny:
    """The guard's verdict on a query of a principal of the tenant acme."""
    scope = SqlScope(tables=tables, timeout_s=20.0)
    return guard(sql, (), database=found, scope=scope, attributes={"tenant": "acme"})


def run(location: str, *statements: Statement | Deny, operation: str = "change") -> list[Success | Failed]:
    """Each statement after the other on one executor."""

    async def work() -> list[Success | Failed]:
        executor = SqlExecutor(location)
        try:
            results = []
            for one in statements:
                assert isinstance(one, Statement), one
                results.append(await executor.execute(sql_call("", operation, one)))
            return results
        finally:
            await executor.close()

    return asyncio.run(work())


def rows(location: str, sql: str) -> list[tuple[object, ...]]:
    """What is in the database, asked past everything of ours."""
    engine, _, rest = location.partition("://")
    match engine:
        case "sqlite":
            with closing(sqlite3.connect(rest.removeprefix("/"))) as connection:
                return connection.execute(sql).fetchall()
        case "duckdb":
            with duckdb.connect(rest.removeprefix("/")) as connection:
                return connection.execute(sql).fetchall()
        case "postgresql":
            with postgres(rest.rpartition("/")[2]) as server:
                return server.execute(sql.encode()).fetchall()
        case _:
            with closing(mysql(rest.rpartition("/")[2])) as server, server.cursor() as cursor:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()]
