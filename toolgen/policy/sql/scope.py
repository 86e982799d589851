"""The policy's `sql:` section: what it says, what it needs from a principal, and what is wrong with it at load time."""

from __future__ import annotations

from toolgen.model.database import Database
from toolgen.policy.sql.filters import attributes_of, columns_of, read_filter
from toolgen.policy.sql.grants import SqlScope, TableScope, find_table, unknown_names, visible
from toolgen.policy.sql.refusal import Refusal

__all__ = ["SqlScope", "TableScope", "check_scope", "row_attributes", "visible"]


def row_attributes(scope: SqlScope) -> frozenset[str]:
    """The `:name`s that the scope's row filters need from a principal's attributes."""
    return frozenset(name for table in scope.tables.values() if table.rows for name in attributes_of(table.rows))


def check_scope(scope: SqlScope, database: Database) -> list[str]:
    """What is wrong with a scope, in words for the person who wrote it; empty when nothing is."""
    found = unknown_names(scope, database)
    for name, table_scope in scope.tables.items():
        if table_scope.rows is None or (table := find_table(database, name)) is None:
            continue
        try:
            columns_of(read_filter(table_scope.rows, database.dialect)[0], table, database.dialect)
        except Refusal as error:
            found.append(f"the row filter of table {name!r} cannot be used: {error.reason}; {error.suggestion}")
    sizes = {
        "max_rows": scope.max_rows,
        "max_bytes": scope.max_bytes,
        "max_cell_bytes": scope.max_cell_bytes,
        "timeout": scope.timeout_s,
    }
    found.extend(f"{label} must be more than 0" for label, value in sizes.items() if value <= 0)
    return found
