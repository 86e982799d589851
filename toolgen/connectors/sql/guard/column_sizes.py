"""Sizes of columns by the types that the catalog gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from toolgen.connectors.sql.guard.bounds import NUMBER, Bound
from toolgen.connectors.sql.guard.grants import ByIdentity
from toolgen.model.database import Database
from toolgen.model.sql_scope import SqlScope

__all__ = ["TEXT", "column_sizes"]

TEXT: Final = 1_000  # size of a column without a length
_MAX_COLUMN: Final = 10_000
_OF_TYPE: Final = re.compile(r"(?:char|varying|text|binary|bit)[^(]*\(([0-9]+)\)", re.IGNORECASE)
_FIXED_TYPE: Final = re.compile(
    r"(?:(?:tiny|small|medium|big)?(?:int|serial)(?:eger)?\d?\b|float|double|real\b)[^\[]*\Z", re.IGNORECASE
)
_UNBOUNDED: Final = re.compile(
    r"char|text|clob|blob|json|bytea|binary|xml|string|\[|vector|^$|struct|map|list|enum|set", re.IGNORECASE
)
_COLUMNS: ByIdentity[Mapping[str, Bound]] = ByIdentity(200)


def column_sizes(database: Database, scope: SqlScope) -> Mapping[str, Bound]:
    """Return the size of each column, by its name in lower case; the largest if several tables have it."""
    known = _COLUMNS.get(database, scope)
    if known is None:
        found: dict[str, float] = {}
        others: set[str] = set()
        for table in database.tables:
            for column in table.columns:
                name = column.name.lower()
                found[name] = max(found.get(name, 0), _size_of_type(column.type))
                if not _FIXED_TYPE.match(column.type):
                    others.add(name)
        known = MappingProxyType(
            {name: Bound(size, built=False, fixed=name not in others) for name, size in found.items()}
        )
        _COLUMNS.put(database, scope, known)
    return known


def _size_of_type(written: str) -> int:
    if (length := _OF_TYPE.search(written)) is not None:
        return min(max(NUMBER, int(length[1][:9])), _MAX_COLUMN)
    return TEXT if _UNBOUNDED.search(written) else NUMBER
