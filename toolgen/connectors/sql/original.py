"""Original of a database's description: comments of tables and columns, or their names."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.connectors.original import ModelText, described
from toolgen.model.manifest import SourceInfo

__all__ = ["schema_texts"]


def schema_texts(info: SourceInfo) -> Iterator[ModelText]:
    """Yield the comment of each table and column, or its name."""
    for table in info.database.tables if info.database else ():
        yield from described(table.name, table.comment or table.name)
        for column in table.columns:
            yield from described(f"{table.name}.{column.name}", column.comment or column.name)
