"""Database of an airline, a library, machines, wages and freight, and statements from manuals for it: DuckDB and SQLite.

The DuckDB schema has structs, lists, maps and enums. The schema is read as a build reads it. `-- varies` before a
statement says that its rows differ each time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from tests.connectors.sql.guard.honest import Engine, Honest, connection_to, listed
from tests.databases import duckdb_file
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import location_of

__all__ = ["ENGINES", "open_operations", "operations_location", "operations_statements"]

FOLDER: Final = Path(__file__).parent
ENGINES: Final = ("duckdb", "sqlite")


def operations_statements(dialect: str) -> list[Honest]:
    """All statements for one engine."""
    return listed(FOLDER / f"{dialect}.sql")


def operations_location(dialect: str, folder: Path) -> str:
    """The location of a fresh database."""
    script = (FOLDER / f"schema_{dialect}.sql").read_text(encoding="utf-8")
    if dialect == "duckdb":
        return duckdb_file(folder / "operations.duckdb", script)
    path = folder / "operations.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return f"sqlite:///{path}"


@contextmanager
def open_operations(dialect: str, folder: Path) -> Iterator[Engine]:
    """A fresh database, and a connection to it."""
    place = operations_location(dialect, folder)
    known = RECORDS[dialect].read(location_of(place), "").database
    with closing(connection_to(dialect, place)) as connection:
        yield Engine(dialect=dialect, database=known, connection=connection, digits=12)
