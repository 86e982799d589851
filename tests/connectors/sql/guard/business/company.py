"""Database of a company that sells things, and statements that analysts and agents write for it: PostgreSQL and MariaDB.

The schema is read from the server as a build reads it, with enums, arrays, JSON, ranges and times with a zone. `-- varies` before a
statement says that its rows differ each time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.connectors.sql.guard.honest import Engine, Honest, listed, open_server

__all__ = ["ENGINES", "company_statements", "open_company"]

FOLDER: Final = Path(__file__).parent
ENGINES: Final = ("mysql", "postgres")


def company_statements(dialect: str) -> list[Honest]:
    """All statements for one engine."""
    return listed(FOLDER / f"{dialect}.sql")


def open_company(dialect: str) -> AbstractContextManager[Engine]:
    """A fresh database of the company; skips where there is no server."""
    return open_server(dialect, FOLDER / f"schema_{dialect}.sql")
