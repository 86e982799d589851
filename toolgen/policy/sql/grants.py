"""What a principal may see of a database: the policy's `sql:` section as data, its load-time checks, and the database seen through it.

What was worked out for a database and a scope lately. Both are compared by identity, and kept, so that no id is ever reused.
"""

from __future__ import annotations

import string
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from toolgen.model.database import Database, Table
from toolgen.model.names import nearest

__all__ = ["ByIdentity", "SqlScope", "TableScope", "find_table", "fold_column", "visible", "visible_columns"]

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScope:
    """One table of a policy. `columns` None means every column; `rows` is a filter in the database's own SQL, with `:attribute`s.

    `masks` holds what a statement reads instead of a column's values, wherever in it the column stands. `writes` holds the kinds of
    statement that may change the table (insert, update, delete), and `writable` the columns they may set; None means every granted one.
    `cascades`: they may also set off triggers, rules and actions of foreign keys.
    `samples` says what describing the table shows of its values, `unsampled` of which columns it shows nothing.
    """

    columns: tuple[str, ...] | None = None
    rows: str | None = None
    masks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    writes: frozenset[str] = frozenset()
    writable: tuple[str, ...] | None = None
    cascades: bool = False
    samples: str = ""  # "" | shapes | values
    unsampled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SqlScope:
    """The tables a principal may read and how much of an answer it is given; sizes are bytes. Compared by identity, as caches need it.

    `tables` is keyed by the table's name as the database spells it, `schema.table` outside the default schema. `functions` are added to
    the curated list of the dialect. `max_changes` is how many rows one statement may change. `compared` says what the
    attributes in row filters are compared with (policy/sql/scope.py).
    """

    tables: Mapping[str, TableScope] = field(default_factory=lambda: MappingProxyType({}))
    max_rows: int = 100
    max_bytes: int = 1_000_000
    max_cell_bytes: int = 100_000
    timeout_s: float = 5.0
    functions: frozenset[str] = frozenset()
    max_changes: int = 1
    compared: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))


def full_name(table: Table) -> str:
    """`schema.table`, or the name alone in the default schema."""
    return f"{table.schema}.{table.name}" if table.schema else table.name


def fold_column(dialect: str, name: str, *, quoted: bool) -> str:
    """A column name as the dialect compares it: only PostgreSQL keeps the case of a quoted one."""
    return name if dialect == "postgres" and quoted else fold(dialect, name)


def fold(dialect: str, name: str) -> str:
    """A name without its case: of ASCII letters alone, except in MySQL (Python also folds the Kelvin sign to k, no other engine does).

    For MySQL no two names are told apart here that it takes for one; some are one here that are two there.
    """
    if name.isascii():
        return name.lower()
    return name.replace("\u0130", "i").lower() if dialect == "mysql" else name.translate(_ASCII_LOWER)


def find_table(database: Database, name: str) -> Table | None:
    """The table a policy names, spelt as the database spells it; SQLite and DuckDB ignore case."""
    folds = database.dialect in {"sqlite", "duckdb"}
    for table in database.tables:
        known = full_name(table)
        if known == name or (folds and fold(database.dialect, known) == fold(database.dialect, name)):
            return table
    return None


def visible_columns(table: Table, scope: TableScope, dialect: str) -> tuple[str, ...]:
    """The columns of a table that a policy grants, in the table's order."""
    if scope.columns is None:
        return tuple(column.name for column in table.columns)
    granted = {_own(dialect, name) for name in scope.columns}
    return tuple(column.name for column in table.columns if _own(dialect, column.name) in granted)


def visible(database: Database, scope: SqlScope) -> Database:
    """The part of the database a principal may know about: nothing in the answer names a table or column outside the policy."""
    granted: dict[str, tuple[str, ...]] = {}
    masks: dict[str, Collection[str]] = {}
    tables: list[Table] = []
    for name, table_scope in scope.tables.items():
        if table := find_table(database, name):
            tables.append(table)
            granted[full_name(table)] = visible_columns(table, table_scope, database.dialect)
            masks[full_name(table)] = frozenset(table_scope.masks)
    order = {id(table): index for index, table in enumerate(database.tables)}
    shown = (
        _visible_table(table, granted, masks[full_name(table)])
        for table in sorted(tables, key=lambda table: order[id(table)])
    )
    return Database(dialect=database.dialect, tables=tuple(shown))


def _visible_table(table: Table, granted: Mapping[str, tuple[str, ...]], masked: Collection[str]) -> Table:
    columns = set(granted[full_name(table)])
    references = {}
    for column, target in table.references.items():
        other, _, referred = target.rpartition(".")
        if column in columns and referred in granted.get(other, ()):
            references[column] = target
    # A check may name what is hidden or masked: then it is left out, whatever quotes the name has there.
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
    """Tables and columns a policy names that the database does not have, each with the nearest one it has."""
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
            found.append(f"{name!r} is a view, and writes: opens tables; open the table it shows")
        if table_scope.writable is not None and not table_scope.writes:
            found.append(f"table {name!r} has writable: and no writes: [insert, update, delete]")
        if table_scope.cascades and not table_scope.writes:
            found.append(f"table {name!r} has cascades: and no writes: [insert, update, delete]")
    return found


def _own(dialect: str, name: str) -> str:
    """A name out of a policy, which is written as the database spells it."""
    return fold_column(dialect, name, quoted=True)


_Value = TypeVar("_Value")


class ByIdentity(Generic[_Value]):
    """At most `size` values, by database, scope and a text; the one asked for the longest time ago goes first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._entries: OrderedDict[tuple[int, int, str], tuple[Database, SqlScope, _Value]] = OrderedDict()

    def get(self, database: Database, scope: SqlScope, text: str = "") -> _Value | None:
        """The value, unless there is none."""
        key = (id(database), id(scope), text)
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
        return found[2]

    def put(self, database: Database, scope: SqlScope, value: _Value, text: str = "") -> None:
        """Keeps the value."""
        with self._lock:
            self._entries[id(database), id(scope), text] = (database, scope, value)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
