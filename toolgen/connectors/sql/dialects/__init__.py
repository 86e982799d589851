"""SQL dialects: one record per engine."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from toolgen.connectors.sql.dialects.duckdb import DUCKDB
from toolgen.connectors.sql.dialects.mysql import MYSQL
from toolgen.connectors.sql.dialects.postgres import POSTGRES
from toolgen.connectors.sql.dialects.record import Dialect
from toolgen.connectors.sql.dialects.sqlite import SQLITE
from toolgen.model.database import DialectName

__all__ = ["RECORDS", "Dialect"]

RECORDS: Final[Mapping[DialectName, Dialect]] = MappingProxyType(
    {record.name: record for record in (SQLITE, POSTGRES, MYSQL, DUCKDB)}
)
"""Every dialect by its name."""
