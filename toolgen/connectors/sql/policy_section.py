"""The `sql:` section of a policy: one source's scope, and the effect of redaction and `sensitive:` on its columns.

The module is imported only for a policy with such a section: the SQL parser takes a quarter of the start time of a gateway without
databases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import ENGINES
from toolgen.connectors.sql.guard.attribute_kinds import compared_kinds
from toolgen.connectors.sql.guard.cross_check import AVAILABLE as CROSS_CHECKED
from toolgen.connectors.sql.guard.identifiers import find_table
from toolgen.connectors.sql.guard.scope import check_scope, row_attributes
from toolgen.core.errors import PolicyError
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.database import Database, Table
from toolgen.model.excerpt import bounded
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.sql_section import RowsShape, SqlShape

__all__ = ["SqlSection"]


class SqlSection:
    """Reader of the section."""

    def read(self, document: YamlDocument, source: str, database: Database) -> SqlScope:
        """Read the section `sql.<source>`. Raises `PolicyError` for content that does not fit the database."""
        path = ("sql", source)
        if database.dialect not in ENGINES:
            raise PolicyError(
                f"the SQL dialect {bounded(database.dialect, 20)!r} is not supported",
                where=document.where(*path),
                suggestion="run `toolgen build` with this version",
            )
        given = decode(document, path, SqlShape, PolicyError)
        timeout = parse_duration(given.timeout)
        if timeout is None or timeout <= 0:
            raise PolicyError("timeout: must be like 2s or 500ms", where=document.where(*path, "timeout"))
        if given.cross_check == "required" and not (CROSS_CHECKED and RECORDS[database.dialect].cross_checked):
            raise PolicyError(
                "cross_check: required needs a PostgreSQL database and pglast",
                where=document.where(*path, "cross_check"),
                suggestion='install it with: pip install "toolgen[pglast]"',
            )
        scope = SqlScope(
            tables=MappingProxyType(
                {
                    table: TableScope(
                        columns=None if isinstance(entry.columns, msgspec.UnsetType) else tuple(entry.columns),
                        rows=_filter(entry.rows),
                        row_note=" ".join(entry.rows.note.split()) if isinstance(entry.rows, RowsShape) else "",
                        writes=frozenset(entry.writes),
                        writable=None if isinstance(entry.writable, msgspec.UnsetType) else tuple(entry.writable),
                        cascades=entry.cascades,
                        samples="shapes" if entry.samples is True else entry.samples or "",
                    )
                    for table, entry in given.tables.items()
                }
            ),
            max_rows=given.max_rows,
            max_bytes=given.max_bytes,
            max_cell_bytes=given.max_cell_bytes,
            max_changes=given.max_changes,
            timeout_s=timeout,
            functions=frozenset(name.lower() for name in given.functions),
        )
        faults = check_scope(scope, database)
        if faults:
            culprit = next((table for table in given.tables if table in faults[0]), "")
            raise PolicyError(faults[0], where=document.where(*path, "tables", culprit))
        return replace(scope, compared=MappingProxyType(compared_kinds(scope, database)))

    def row_attributes(self, scope: SqlScope) -> Iterable[str]:
        """Return the attributes of principals that row filters take values from."""
        return row_attributes(scope)

    def masked(
        self, scope: SqlScope, database: Database, masks: Mapping[str, str], sensitive: Sequence[str | None]
    ) -> SqlScope:
        """Return a scope with columns masked, and no sensitive ones sampled."""
        tables = {}
        for name, entry in scope.tables.items():
            table = find_table(database, name)
            tables[name] = replace(entry, masks=_masks(table, masks), unsampled=_unsampled(table, sensitive))
        return replace(scope, tables=MappingProxyType(tables))


def _filter(rows: str | RowsShape | msgspec.UnsetType) -> str | None:
    """Return the condition of `rows:`; None for only a note, for a database that itself hides rows."""
    given = rows.where if isinstance(rows, RowsShape) else rows
    return None if isinstance(given, msgspec.UnsetType) else given


def _unsampled(table: Table | None, named: Iterable[str | None]) -> frozenset[str]:
    """Return the sensitive columns: all of them for None."""
    sensitive = {column.casefold() for column in named if column is not None}
    columns = table.columns if table is not None else ()
    return frozenset(column.name for column in columns if None in named or column.name.casefold() in sensitive)


def _masks(table: Table | None, masks: Mapping[str, str]) -> Mapping[str, str]:
    """Return the masks of one table's columns, by the columns' own spelling."""
    columns = table.columns if table is not None else ()
    return {column.name: masks[column.name.casefold()] for column in columns if column.name.casefold() in masks}
