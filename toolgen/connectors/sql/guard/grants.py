"""Access of a principal to a database: the policy's `sql:` section as data, its load-time checks, and the database seen through it.

Comparison of names per engine: the names of tables, columns and aliases after case, quotes and length are normalized. PostgreSQL
cuts names at 63 bytes, and so does the guard, in the tree that is rendered: https://www.postgresql.org/docs/current/limits.html. SQLite and
DuckDB fold ASCII letters alone and cut nothing. MySQL folds columns by its own tables, and tables and aliases by a server setting:
https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html. tests/connectors/sql/execution/test_names.py asks the engines.
"""

from __future__ import annotations

import string
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from sqlglot import exp
from sqlglot.tokenizer_core import Token

from toolgen.connectors.sql.dialects import RECORDS, ByDialect
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.core.spelling import nearest
from toolgen.model.database import Database, DialectName, Table
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = [
    "DEFAULT_SCHEMA",
    "IMPLICIT",
    "NILADIC",
    "ByIdentity",
    "NameRules",
    "Names",
    "check_name",
    "cut_names",
    "find_table",
    "fold_column",
    "name_of",
    "names_of",
    "renamed",
    "row_notes",
    "scoped_tables",
    "visible",
    "visible_columns",
]

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def full_name(table: Table) -> str:
    """`schema.table`, or the name alone in the default schema."""
    return f"{table.schema}.{table.name}" if table.schema else table.name


def fold_column(dialect: DialectName, name: str, *, quoted: bool) -> str:
    """A column name as the dialect compares it: only PostgreSQL keeps the case of a quoted one."""
    return name if quoted and RECORDS[dialect].keeps_quoted_case else fold(dialect, name)


def fold(dialect: DialectName, name: str) -> str:
    """A name without its case: of ASCII letters alone, except in MySQL (Python also folds the Kelvin sign to k, no other engine does).

    For MySQL no two names are told apart here that it takes for one; some are one here that are two there.
    """
    record = RECORDS[dialect]
    if record.exact_names:
        return name
    if name.isascii():
        return name.lower()
    return name.replace("\u0130", "i").lower() if record.folds_all_letters else name.translate(_ASCII_LOWER)


def find_table(database: Database, name: str) -> Table | None:
    """The table a policy names, spelt as the database spells it; SQLite and DuckDB ignore case."""
    folds = RECORDS[database.dialect].folds_tables
    for table in database.tables:
        known = full_name(table)
        if known == name or (folds and fold(database.dialect, known) == fold(database.dialect, name)):
            return table
    return None


def row_notes(database: Database, scope: SqlScope, tables: Collection[str]) -> tuple[str, ...]:
    """`table: note` for each of the tables, by their full names, of which the policy tells callers that they see a part."""
    noted = (
        (full_name(table), entry.row_note)
        for name, entry in scope.tables.items()
        if entry.row_note and (table := find_table(database, name)) is not None
    )
    return tuple(f"{name}: {note}" for name, note in sorted(noted) if name in tables)


def visible_columns(table: Table, scope: TableScope, dialect: DialectName) -> tuple[str, ...]:
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
    """A table with what of it a caller may change."""
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


def _own(dialect: DialectName, name: str) -> str:
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


_SCOPED: Final[ByIdentity[tuple[tuple[Table, TableScope], ...]]] = ByIdentity(200)


def scoped_tables(database: Database, scope: SqlScope) -> tuple[tuple[Table, TableScope], ...]:
    """The tables of the database that the scope opens, each with what is open of it."""
    known = _SCOPED.get(database, scope)
    if known is None:
        found = ((find_table(database, name), entry) for name, entry in scope.tables.items())
        known = tuple((table, entry) for table, entry in found if table is not None)
        _SCOPED.put(database, scope, known)
    return known


Names: TypeAlias = tuple[str | None, ...]
"""The folded output columns of a query in order; None is a column without a name of its own."""

DEFAULT_SCHEMA: Final[Mapping[str, str]] = ByDialect(lambda record: record.default_schema)

IMPLICIT: Final[Mapping[str, frozenset[str]]] = ByDialect(lambda record: record.implicit_columns)
"""Columns that a table may have though no catalog lists them; the engine finds them before an alias of the result."""

NILADIC: Final[Mapping[str, frozenset[str]]] = ByDialect(lambda record: record.niladic)
"""Functions that are called without parentheses, by a name that reads like a column's."""

_LARGEST: Final = "\uffff"  # character of a name that is kept in three bytes a character


class NameRules:
    """The rules of one database: its dialect and, for MySQL, what its server was told about the case of tables."""

    def __init__(self, dialect: DialectName, table_names: str = "") -> None:
        self._dialect = dialect
        record = RECORDS[dialect]
        self._keeps_case = record.keeps_quoted_case
        self._exact = record.server_folds_tables and table_names != "folded"
        self.unsure = record.server_folds_tables and not table_names
        """Whether nobody knows if names of tables and aliases that differ in case alone are one."""

    def relation(self, node: exp.Expr) -> str:
        """A table, schema or alias as the engine compares it."""
        name = node.name
        if self._exact:
            return name
        return name if self._keeps_case and node.args.get("quoted") else fold(self._dialect, name)

    def cte(self, node: exp.Expr) -> str:
        """A common table expression's name. MariaDB ignores its case whatever it was told, MySQL does not: the resolver refuses both."""
        return fold(self._dialect, node.name) if self._exact else self.relation(node)

    def column(self, node: exp.Expr) -> str:
        """A column's name as the engine compares it."""
        inner = node.this if isinstance(node, exp.Column) else node
        return fold_column(self._dialect, inner.name, quoted=bool(inner.args.get("quoted")))

    def alias(self, node: exp.Expr | None) -> str:
        """The name an alias gives to a relation, or "" when there is none."""
        name = name_of(node)
        return self.relation(name) if name is not None else ""

    def alias_columns(self, node: exp.Expr | None) -> Names:
        """The names an alias gives to columns, as in `t(a, b)`."""
        columns = node.args.get("columns") or [] if node is not None else []
        return tuple(self.column(column.this if isinstance(column, exp.ColumnDef) else column) for column in columns)


def cut_names(root: exp.Expr, tokens: Iterable[Token], dialect: DialectName) -> None:
    """Cuts every name as PostgreSQL does, so that what is checked, what is rendered and what the server reads are one name.

    No character is cut in two. `tokens` are those of the text: most have no name that is long.
    """
    most = RECORDS[dialect].max_name_bytes
    if not most or all(_fits(token.text, most) for token in tokens):
        return
    for identifier in root.find_all(exp.Identifier):
        if not _fits(identifier.name, most):
            cut = identifier.name.encode()[:most].decode(errors="ignore")
            identifier.set("this", cut)


def names_of(root: exp.Expr, dialect: DialectName) -> frozenset[str]:
    """Every name in a tree as the engine has it."""
    spelling = NameRules(dialect)
    return frozenset(spelling.column(identifier) for identifier in root.find_all(exp.Identifier))


def _fits(name: str, most: int) -> bool:
    return len(name) <= most // 4 or len(name.encode()) <= most


def check_name(name: str, dialect: DialectName) -> None:
    """Raises `StatementRefusal`, rule `name`, for what is no name or becomes another one in the engine."""
    if not name or not name.isprintable():
        refuse("name", "a name is empty or not printable", "use the names as they are listed")
    record = RECORDS[dialect]
    if not record.max_alias_length:
        return
    if name != name.strip():
        # MariaDB takes leading spaces away from an alias.
        refuse("name", f"the name {shown(name.strip())} begins or ends with a space", "write it without")
    if len(name) > record.max_alias_length:
        refuse("name", f"a name has more than {record.max_alias_length} characters", "use a shorter one")
    if max(name) > _LARGEST:
        refuse(
            "name", f"a name has a character beyond U+FFFF, which {record.engine} has in no name", "use another name"
        )


def name_of(node: exp.Expr | None) -> exp.Identifier | None:
    """The identifier in an alias."""
    name = node.this if isinstance(node, exp.TableAlias) else node
    return name if isinstance(name, exp.Identifier) else None


def renamed(names: Names, columns: Names) -> Names:
    """`names` with the first ones replaced by `columns`. Raises `StatementRefusal` for more of them than there are."""
    if len(columns) > len(names):
        refuse("column", "more columns are renamed than there are", "give as many names as the query has columns")
    return (*columns, *names[len(columns) :]) if columns else names
