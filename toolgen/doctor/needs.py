"""What a database's account needs for what the policy opens: no privilege on any table or column beyond these."""

from __future__ import annotations

from toolgen.model.database import Database, Table
from toolgen.model.rights import Grant
from toolgen.policy.sql.filters import columns_of, read_filter
from toolgen.policy.sql.grants import SqlScope, TableScope, find_table, fold_column, full_name, visible_columns

__all__ = ["needs"]

_BY_COLUMN = {"insert": "INSERT", "update": "UPDATE"}


def needs(database: Database, scope: SqlScope) -> frozenset[Grant]:
    """One `Grant` a column, and one a table for DELETE."""
    found: set[Grant] = set()
    for name, table_scope in scope.tables.items():
        table = find_table(database, name)
        if table is not None:
            found |= _of_table(table, table_scope, database.dialect)
    return frozenset(found)


def _of_table(table: Table, scope: TableScope, dialect: str) -> set[Grant]:
    """Reading takes the columns that are opened and those the row filter asks about; a masked one is never read."""
    name = full_name(table)
    opened = visible_columns(table, scope, dialect)
    asked = columns_of(read_filter(scope.rows, dialect)[0], table, dialect) if scope.rows else ()
    read = ({*opened} - {*scope.masks}) | {*asked}
    found = {Grant(table=name, privilege="SELECT", column=column) for column in read}
    for kind, privilege in _BY_COLUMN.items():
        if kind in scope.writes:
            # No statement sets a column that the row filter asks about; a new row gets the principal's own value there.
            set_by_statement = _settable(scope, opened, dialect) - {*asked}
            columns = set_by_statement | {*asked} if kind == "insert" else set_by_statement
            found |= {Grant(table=name, privilege=privilege, column=column) for column in columns}
    if "delete" in scope.writes:
        found.add(Grant(table=name, privilege="DELETE"))
    return found


def _settable(scope: TableScope, opened: tuple[str, ...], dialect: str) -> set[str]:
    named = None if scope.writable is None else {fold_column(dialect, name, quoted=True) for name in scope.writable}
    return {
        column
        for column in opened
        if column not in scope.masks and (named is None or fold_column(dialect, column, quoted=True) in named)
    }
