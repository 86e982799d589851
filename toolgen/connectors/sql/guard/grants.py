"""Grants of a policy's `sql:` section on a database: their load-time checks, and the part of the database that they make visible."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from threading import Lock
from typing import Final, Generic, TypeVar

import msgspec

from toolgen.connectors.sql.guard.identifiers import find_table, fold_column, full_name
from toolgen.core.spelling import nearest
from toolgen.model.database import Database, DialectName, Table
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["ByIdentity", "row_notes", "scoped_tables", "visible", "visible_columns"]


def row_notes(database: Database, scope: SqlScope, tables: Collection[str]) -> tuple[str, ...]:
    """Return `table: note` for each of the tables, by full name, of which callers see only a part according to the policy."""
    noted = (
        (full_name(table), entry.row_note)
        for name, entry in scope.tables.items()
        if entry.row_note and (table := find_table(database, name)) is not None
    )
    return tuple(f"{name}: {note}" for name, note in sorted(noted) if name in tables)


def visible_columns(table: Table, scope: TableScope, dialect: DialectName) -> tuple[str, ...]:
    """Return the columns of a table that a policy grants, in the table's order."""
    if scope.columns is None:
        return tuple(column.name for column in table.columns)
    granted = {_own(dialect, name) for name in scope.columns}
    return tuple(column.name for column in table.columns if _own(dialect, column.name) in granted)


def visible(database: Database, scope: SqlScope) -> Database:
    """Return the visible part of the database: it contains no table or column outside the policy."""
    granted: dict[str, tuple[str, ...]] = {}
    masks: dict[str, Collection[str]] = {}
    tables: list[Table] = []
    for name, table_scope in scope.tables.items():
        if table := find_table(database, name):
            tables.append(table)
            granted[full_name(table)] = visible_columns(table, table_scope, database.dialect)
            masks[full_name(table)] = frozenset(table_scope.masks)
    order = {id(table): index for index, table in enumerate(database.tables)}
    changed: dict[str, TableScope] = {}
    for name, table_scope in scope.tables.items():
        if table_scope.writes and (table := find_table(database, name)):
            changed[full_name(table)] = table_scope
    notes = {
        full_name(table): entry.row_note
        for name, entry in scope.tables.items()
        if entry.row_note and (table := find_table(database, name)) is not None
    }
    shown = (
        msgspec.structs.replace(
            _with_writes(_visible_table(table, granted, masks[full_name(table)]), changed.get(full_name(table))),
            row_note=notes.get(full_name(table), ""),
        )
        for table in sorted(tables, key=lambda table: order[id(table)])
    )
    return Database(dialect=database.dialect, tables=tuple(shown))


def _with_writes(table: Table, scope: TableScope | None) -> Table:
    """Return a table with the columns and operations that a caller may change."""
    if scope is None:
        return table
    names = [column.name for column in table.columns if scope.writable is None or column.name in scope.writable]
    return msgspec.structs.replace(table, writes=tuple(sorted(scope.writes)), writable=tuple(names))


def _visible_table(table: Table, granted: Mapping[str, tuple[str, ...]], masked: Collection[str]) -> Table:
    columns = set(granted[full_name(table)])
    references = {}
    for column, target in table.references.items():
        other, _, referred = target.rpartition(".")
        if column in columns and referred in granted.get(other, ()):
            references[column] = target
    # A check that may contain a hidden or masked name is omitted, with any quotes around the name.
    hidden = [column.name.lower() for column in table.columns if column.name not in columns or column.name in masked]
    return msgspec.structs.replace(
        table,
        columns=tuple(
            msgspec.structs.replace(column, default="", labels=()) if column.name in masked else column
            for column in table.columns
            if column.name in columns
        ),
        indexes=tuple(index for index in table.indexes if columns.issuperset(index.columns)),
        checks=tuple(check for check in table.checks if not any(name in check.lower() for name in hidden)),
        primary_key=table.primary_key if columns.issuperset(table.primary_key) else (),
        references=references,
    )


def unknown_names(scope: SqlScope, database: Database) -> list[str]:
    """Return tables and columns of a policy that the database does not have, each with the nearest existing name."""
    found: list[str] = []
    seen: dict[str, str] = {}
    for name, table_scope in scope.tables.items():
        table = find_table(database, name)
        if table is None:
            found.append(f"there is no table {name!r}{nearest(name, map(full_name, database.tables))}")
            continue
        if earlier := seen.get(full_name(table)):
            found.append(f"table {name!r} is the same table as {earlier!r}; keep one of them")
        seen[full_name(table)] = name
        known = [column.name for column in table.columns]
        folded = {_own(database.dialect, column) for column in known}
        found.extend(
            f"table {name!r} has no column {column!r}{nearest(column, known)}"
            for column in (*(table_scope.columns or ()), *(table_scope.writable or ()))
            if _own(database.dialect, column) not in folded
        )
        if table.view and table_scope.writes:
            found.append(f"{name!r} is a view, and writes: applies only to tables; open its base table")
        if table_scope.writable is not None and not table_scope.writes:
            found.append(f"table {name!r} has writable: and no writes: [insert, update, delete]")
        if table_scope.cascades and not table_scope.writes:
            found.append(f"table {name!r} has cascades: and no writes: [insert, update, delete]")
    return found


def _own(dialect: DialectName, name: str) -> str:
    """Return a name of a policy, which must have the database's spelling."""
    return fold_column(dialect, name, quoted=True)


_Value = TypeVar("_Value")


class ByIdentity(Generic[_Value]):
    """Cache of at most `size` values, by database, scope and a text; the least recently used value is removed first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._entries: OrderedDict[tuple[int, int, str], tuple[Database, SqlScope, _Value]] = OrderedDict()

    def get(self, database: Database, scope: SqlScope, text: str = "") -> _Value | None:
        """Return the value, or None."""
        key = (id(database), id(scope), text)
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
        return found[2]

    def put(self, database: Database, scope: SqlScope, value: _Value, text: str = "") -> None:
        """Store the value."""
        with self._lock:
            self._entries[id(database), id(scope), text] = (database, scope, value)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)


_SCOPED: Final[ByIdentity[tuple[tuple[Table, TableScope], ...]]] = ByIdentity(200)


def scoped_tables(database: Database, scope: SqlScope) -> tuple[tuple[Table, TableScope], ...]:
    """Return the tables of the database that the scope opens, each with its open part."""
    known = _SCOPED.get(database, scope)
    if known is None:
        found = ((find_table(database, name), entry) for name, entry in scope.tables.items())
        known = tuple((table, entry) for table, entry in found if table is not None)
        _SCOPED.put(database, scope, known)
    return known
