"""Database of a city with an airport, a library, sensors, payrolls and parcels, and statements about them: PostgreSQL and MariaDB.

The statements go through the manuals of the engines, with the types and functions that the other databases lack: shapes, XML, multiranges,
addresses, bits, full text and sets. `-- varies` before a statement says that its rows differ each time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.connectors.sql.guard.honest import Engine, Honest, listed, open_server

__all__ = ["ENGINES", "city_statements", "open_city"]

FOLDER: Final = Path(__file__).parent
ENGINES: Final = ("mysql", "postgres")


def city_statements(dialect: str) -> list[Honest]:
    """All statements for one engine."""
    return listed(FOLDER / f"{dialect}.sql")


def open_city(dialect: str) -> AbstractContextManager[Engine]:
    """A fresh database of the city; skips where there is no server."""
    return open_server(dialect, FOLDER / f"schema_{dialect}.sql", digits=12)
