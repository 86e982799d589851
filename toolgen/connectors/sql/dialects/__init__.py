"""SQL dialects: one record per engine."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from toolgen.connectors.sql.dialects.duckdb import DUCKDB
from toolgen.connectors.sql.dialects.mysql import MYSQL
from toolgen.connectors.sql.dialects.postgres import POSTGRES
from toolgen.connectors.sql.dialects.record import Dialect
from toolgen.connectors.sql.dialects.sqlite import SQLITE

__all__ = ["RECORDS", "ByDialect", "Dialect"]

_RECORDS: Final[dict[str, Dialect]] = {record.name: record for record in (SQLITE, POSTGRES, MYSQL, DUCKDB)}
RECORDS: Final[Mapping[str, Dialect]] = MappingProxyType(_RECORDS)
"""Every dialect by its name."""

_Value = TypeVar("_Value")


class ByDialect(dict[str, _Value], Generic[_Value]):
    """Values that `make` gives for the records of dialects, made when they are first asked for."""

    def __init__(self, make: Callable[[Dialect], _Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> _Value:
        value = self[name] = self._make(RECORDS[name])
        return value
