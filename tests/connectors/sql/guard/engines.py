"""Fresh empty databases of each engine, with an administrator's connection."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb

from tests.databases import MYSQL, POSTGRES, mysql, postgres
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.guard.guard import DIALECTS
from toolgen.model.database_url import ServerLocation

__all__ = ["TRANSACTIONAL", "connected"]

TRANSACTIONAL: Final = tuple(sorted(name for name in DIALECTS if RECORDS[name].changes))
"""Engines with transactions, for which the collections of statements are written. ClickHouse has its own in test_clickhouse.py."""


@contextmanager
def connected(dialect: str, path: Path) -> Iterator[tuple[Any, str]]:
    """A connection to a fresh database, and the database's name; skips where there is no server. SQLite and DuckDB write it to `path`."""
    name = f"toolgen_{secrets.token_hex(6)}"
    match dialect:
        case "duckdb":
            with duckdb.connect(str(path)) as connection:
                yield connection, name
        case "sqlite":
            with closing(sqlite3.connect(path)) as file:
                yield file, name
        case "postgres":
            with postgres(_name_of(POSTGRES)) as admin:
                admin.execute(f'CREATE DATABASE "{name}"')
                try:
                    with postgres(name) as server:
                        yield server, name
                finally:
                    admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        case _:
            with closing(mysql(_name_of(MYSQL))) as manager, manager.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
                try:
                    with closing(mysql(name)) as client:
                        yield client, name
                finally:
                    cursor.execute(f"DROP DATABASE `{name}`")


def _name_of(url: str) -> str:
    server = location_of(url)
    assert isinstance(server, ServerLocation)
    return server.database
