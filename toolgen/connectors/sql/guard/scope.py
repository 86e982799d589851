"""Checks of a policy's `sql:` section at load time, and the attributes that its row filters need."""

from __future__ import annotations

from toolgen.connectors.sql.guard.filters import attributes_of, columns_of, read_filter
from toolgen.connectors.sql.guard.grants import unknown_names, visible
from toolgen.connectors.sql.guard.identifiers import find_table
from toolgen.connectors.sql.guard.refusal import StatementRefusal
from toolgen.model.database import Database
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["SqlScope", "TableScope", "check_scope", "row_attributes", "visible"]


def row_attributes(scope: SqlScope) -> frozenset[str]:
    """Return the `:name`s that the scope's row filters need from a principal's attributes."""
    return frozenset(name for table in scope.tables.values() if table.rows for name in attributes_of(table.rows))


def check_scope(scope: SqlScope, database: Database) -> list[str]:
    """Return the errors of a scope, as messages for its author; empty if there are none."""
    found = unknown_names(scope, database)
    for name, table_scope in scope.tables.items():
        if table_scope.rows is None or (table := find_table(database, name)) is None:
            continue
        try:
            columns_of(read_filter(table_scope.rows, database.dialect)[0], table, database.dialect)
        except StatementRefusal as error:
            found.append(f"the row filter of table {name!r} cannot be used: {error.reason}; {error.suggestion}")
    sizes = {
        "max_rows": scope.max_rows,
        "max_bytes": scope.max_bytes,
        "max_cell_bytes": scope.max_cell_bytes,
        "timeout": scope.timeout_s,
    }
    found.extend(f"{label} must be more than 0" for label, value in sizes.items() if value <= 0)
    return found
