"""SQL dialects: one record per engine."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from toolgen.model.database import DialectName
from toolgen.policy.sql.dialects.duckdb import DUCKDB
from toolgen.policy.sql.dialects.mysql import MYSQL
from toolgen.policy.sql.dialects.postgres import POSTGRES
from toolgen.policy.sql.dialects.record import Dialect
from toolgen.policy.sql.dialects.sqlite import SQLITE

__all__ = ["RECORDS", "Dialect"]

RECORDS: Final[Mapping[DialectName, Dialect]] = MappingProxyType(
    {record.name: record for record in (SQLITE, POSTGRES, MYSQL, DUCKDB)}
)
"""Every dialect by its name."""
