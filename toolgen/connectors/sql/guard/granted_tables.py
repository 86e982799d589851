"""Granted tables of a SQL scope, by folded name: columns, hidden columns, and whether a subquery replaces the table."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.guard.grants import ByIdentity, visible_columns
from toolgen.connectors.sql.guard.identifiers import DEFAULT_SCHEMA, NameRules, find_table, fold_column, full_name
from toolgen.model.database import Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["Granted", "GrantedTable", "granted"]


class GrantedTable(Struct, frozen=True, kw_only=True):
    """Table with its open part. `names` are the folded `columns`; `hidden` are folded names that must not be used."""

    table: Table
    scope: TableScope
    name: str  # folded
    columns: tuple[str, ...]  # as the database spells them
    names: tuple[str, ...]
    hidden: frozenset[str]

    @property
    def narrowed(self) -> bool:
        """True if a part of the table is hidden: a column, rows, or values of a column."""
        return bool(self.hidden or self.scope.rows is not None or self.scope.masks)

    def is_narrow(self, node: exp.Table) -> bool:
        """Return True if the query around `node` already is the subquery of granted columns: it selects only some of them."""
        if self.scope.rows is not None or self.scope.masks:
            return False
        query = node.parent.parent if isinstance(node.parent, exp.From) else None
        return (
            isinstance(query, exp.Select)
            and isinstance(query.parent, exp.Subquery)
            and {name for name, value in query.args.items() if value} == {"expressions", "from_"}
            and all(_is_plain(item, self.columns) for item in query.expressions)
        )


class Granted:
    """Tables of a scope that the database has."""

    def __init__(self, database: Database, scope: SqlScope, spelling: NameRules) -> None:
        """Collect the tables. `schema` is the folded name of the default schema."""
        default = DEFAULT_SCHEMA[database.dialect] or database.name
        self.schema = _folded(default, spelling)
        self._dialect = database.dialect
        self._spelling = spelling
        self._tables: dict[tuple[str, str], GrantedTable] = {}
        for name, entry in scope.tables.items():
            if (table := find_table(database, name)) is not None:
                folded = _folded(table.name, spelling)
                self._tables.setdefault((self._schema_of(table), folded), self._granted(table, entry, folded))
        self.names = sorted({full_name(granted.table) for granted in self._tables.values()})
        """Full names of the tables."""

    def find(self, name: str, schema: str = "") -> GrantedTable | None:
        """Return the table with a folded name."""
        return self._tables.get(("" if schema == self.schema else schema, name))

    def _schema_of(self, table: Table) -> str:
        own = _folded(table.schema, self._spelling)
        return "" if own == self.schema else own

    def _granted(self, table: Table, entry: TableScope, name: str) -> GrantedTable:
        columns = visible_columns(table, entry, self._dialect)
        names = tuple(fold_column(self._dialect, column, quoted=True) for column in columns)
        every = (fold_column(self._dialect, column.name, quoted=True) for column in table.columns)
        return GrantedTable(
            table=table,
            scope=entry,
            name=name,
            columns=columns,
            names=names,
            hidden=frozenset(every) - set(names),
        )


_KNOWN: ByIdentity[Granted] = ByIdentity(200)


def granted(database: Database, scope: SqlScope) -> Granted:
    """Return the tables of a scope, computed once."""
    known = _KNOWN.get(database, scope)
    if known is None:
        known = Granted(database, scope, NameRules(database.dialect, database.table_names))
        _KNOWN.put(database, scope, known)
    return known


def _folded(name: str, spelling: NameRules) -> str:
    return spelling.relation(exp.to_identifier(name, quoted=True)) if name else ""


def _is_plain(item: exp.Expr, columns: Sequence[str]) -> bool:
    """Return True for a column by its own quoted name, or a constant."""
    if isinstance(item, exp.Alias):
        return isinstance(item.this, exp.Literal)
    name = item.this if isinstance(item, exp.Column) and item.args.get("table") is None else None
    return isinstance(name, exp.Identifier) and bool(name.args.get("quoted")) and name.name in columns
