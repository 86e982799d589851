"""Privileges that the account of a database needs for what the policy opens: none on any other table or column."""

from __future__ import annotations

from toolgen.connectors.sql.guard.filters import columns_of, read_filter
from toolgen.connectors.sql.guard.grants import visible_columns
from toolgen.connectors.sql.guard.identifiers import find_table, fold_column, full_name
from toolgen.model.database import Database, DialectName, Table
from toolgen.model.database_rights import TablePrivilege
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["needed_privileges"]

_BY_COLUMN = {"insert": "INSERT", "update": "UPDATE"}


def needed_privileges(database: Database, scope: SqlScope) -> frozenset[TablePrivilege]:
    """Return the privileges that a policy needs: one `TablePrivilege` for each column, and one for each table for DELETE."""
    found: set[TablePrivilege] = set()
    for name, table_scope in scope.tables.items():
        table = find_table(database, name)
        if table is not None:
            found |= _of_table(table, table_scope, database.dialect)
    return frozenset(found)


def _of_table(table: Table, scope: TableScope, dialect: DialectName) -> set[TablePrivilege]:
    """Return the read privileges of a table: the open columns and the columns of the row filter. Masked columns are never read."""
    name = full_name(table)
    opened = visible_columns(table, scope, dialect)
    asked = columns_of(read_filter(scope.rows, dialect)[0], table, dialect) if scope.rows else ()
    read = ({*opened} - {*scope.masks}) | {*asked}
    found = {TablePrivilege(table=name, privilege="SELECT", column=column) for column in read}
    for kind, privilege in _BY_COLUMN.items():
        if kind in scope.writes:
            # No statement sets a column of the row filter; in a new row the gateway fills in the principal's own value.
            set_by_statement = _settable(scope, opened, dialect) - {*asked}
            columns = set_by_statement | {*asked} if kind == "insert" else set_by_statement
            found |= {TablePrivilege(table=name, privilege=privilege, column=column) for column in columns}
    if "delete" in scope.writes:
        found.add(TablePrivilege(table=name, privilege="DELETE"))
    return found


def _settable(scope: TableScope, opened: tuple[str, ...], dialect: DialectName) -> set[str]:
    named = None if scope.writable is None else {fold_column(dialect, name, quoted=True) for name in scope.writable}
    return {
        column
        for column in opened
        if column not in scope.masks and (named is None or fold_column(dialect, column, quoted=True) in named)
    }
