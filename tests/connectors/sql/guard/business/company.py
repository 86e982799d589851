"""Database of a company that sells things, and statements that analysts and agents write for it: PostgreSQL and MariaDB.

The schema is read from the server as a build reads it, with enums, arrays, JSON, ranges and times with a zone. `-- varies` before a
statement says that its rows differ each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from tests.connectors.sql.guard.honest import Engine, Honest, connection_to, listed
from tests.databases import mysql_database, postgres_database
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
        with closing(connection_to(dialect, place)) as connection:
            yield Engine(dialect=dialect, database=known, connection=connection)
