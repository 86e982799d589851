"""Database of a company that sells things, and statements that analysts and agents write for it: PostgreSQL and MariaDB.

The schema is read from the server as a build reads it, with enums, arrays, JSON, ranges and times with a zone. `-- varies` before a
statement says that its rows differ each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.connectors.sql.guard.honest import MYSQL_SETTINGS, Engine, Honest, listed
from tests.databases import mysql, mysql_database, postgres, postgres_database
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import location_of

__all__ = ["ENGINES", "company_statements", "open_company"]

FOLDER: Final = Path(__file__).parent
ENGINES: Final = ("mysql", "postgres")


def company_statements(dialect: str) -> list[Honest]:
    """All statements for one engine."""
    return listed(FOLDER / f"{dialect}.sql")


@contextmanager
def open_company(dialect: str) -> Iterator[Engine]:
    """A fresh database of the company; skips where there is no server."""
    script = (FOLDER / f"schema_{dialect}.sql").read_text(encoding="utf-8")
    with (postgres_database if dialect == "postgres" else mysql_database)(script) as place:
        known = RECORDS[dialect].read(location_of(place), "").database
        name = place.rpartition("/")[2]
        connection: Any = postgres(name) if dialect == "postgres" else mysql(name)
        with closing(connection):
            if dialect == "mysql":
                with closing(connection.cursor()) as cursor:
                    cursor.execute(MYSQL_SETTINGS)
            yield Engine(dialect=dialect, database=known, connection=connection)
