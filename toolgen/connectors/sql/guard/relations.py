"""Relations in a FROM clause, and the names visible in a query.

Tables of a scope under the names that a statement may use: folded names, the hidden parts of each, and whether a subquery replaces it.

GROUP BY of a key, if the table is read through a subquery: PostgreSQL knows no key there, so the columns that depend on it are added.

https://www.postgresql.org/docs/current/sql-select.html#SQL-GROUPBY: a column that depends on a grouped primary key needs not be grouped.
The groups do not change, because rows with the same key are one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.guard.grants import (
    DEFAULT_SCHEMA,
    ByIdentity,
    NameRules,
    Names,
    find_table,
    fold_column,
    full_name,
    visible_columns,
)
from toolgen.model.database import Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["Filtered", "Granted", "GrantedTable", "QueryRelation", "SelectScope", "complete_groups", "granted"]


class QueryRelation(Struct, kw_only=True):
    """Something in a FROM clause. `hidden` are folded names it has and the principal may not use."""

    alias: str
    names: Names
    hidden: frozenset[str] = frozenset()
    table: Table | None = None
    columns: tuple[str, ...] = ()  # of a base table, as spelt by the database
    row_ids: list[str] | None = (
        None  # those a statement asks for; None where the table has none, or they would tell of a hidden column
    )
    whole: bool = False  # naming it as a value is allowed: a subquery whose columns were all checked
    identifier: exp.Identifier | None = None
    narrowed: bool = False  # it is read through a subquery of what may be seen


class SelectScope(Struct, kw_only=True):
    """The names in reach of one SELECT. `outer` is the query around it, when that is in reach at all."""

    outer: SelectScope | None
    relations: list[QueryRelation] = []
    aliases: frozenset[str] = frozenset()
    computed: bool = False  # a column of the result has no name but the engine's
    lambdas: frozenset[str] = frozenset()
    clause: str = ""  # of the SELECT, as the parser calls it, that is looked at; "on" for a join's condition

    def chain(self) -> Iterator[SelectScope]:
        scope: SelectScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


class Filtered(Struct, frozen=True, kw_only=True):
    """A place in the tree where `table` is read through a subquery: of granted `columns`, with the policy's filter and masks."""

    node: exp.Table
    table: Table
    columns: tuple[str, ...]
    rows: str | None
    masks: Mapping[str, str]
    row_ids: Sequence[str] = ()


class GrantedTable(Struct, frozen=True, kw_only=True):
    """A table and what the policy opens of it. `names` are the folded `columns`; `hidden` folded ones that must not be used."""

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
        """Return True if the query around `node` already is the subquery of granted columns: it selects some of them, and nothing else."""
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
    """Every table of a scope that the database has."""

    def __init__(self, database: Database, scope: SqlScope, spelling: NameRules) -> None:
        """`schema` is the folded name of the one where tables without a schema are."""
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
        """The full names of the tables."""

    def find(self, name: str, schema: str = "") -> GrantedTable | None:
        """The table of a folded name."""
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
    """The tables of a scope, worked out once."""
    known = _KNOWN.get(database, scope)
    if known is None:
        known = Granted(database, scope, NameRules(database.dialect, database.table_names))
        _KNOWN.put(database, scope, known)
    return known


def _folded(name: str, spelling: NameRules) -> str:
    return spelling.relation(exp.to_identifier(name, quoted=True)) if name else ""


def _is_plain(item: exp.Expr, columns: Sequence[str]) -> bool:
    """A column by its own name in quotes, or a constant."""
    if isinstance(item, exp.Alias):
        return isinstance(item.this, exp.Literal)
    name = item.this if isinstance(item, exp.Column) and item.args.get("table") is None else None
    return isinstance(name, exp.Identifier) and bool(name.args.get("quoted")) and name.name in columns


_CLAUSES: Final = ("expressions", "having", "order", "distinct", "windows")
# Values of these types cannot be compared, so nothing is grouped by them.
_UNGROUPED: Final = re.compile(r"json$|xml|point|line|lseg|box|path|polygon|circle", re.IGNORECASE)


def complete_groups(select: exp.Select, scope: SelectScope, spelling: NameRules) -> None:
    """Adds to a plain GROUP BY what the query uses of the tables whose primary key is in it."""
    group = select.args.get("group")
    narrowed = [relation for relation in scope.relations if relation.narrowed and relation.table and relation.alias]
    if group is None or not narrowed or any(value for name, value in group.args.items() if name != "expressions"):
        return
    grouped = [*_grouped(select, group)]
    for relation in narrowed:
        mine = {spelling.column(column) for column in grouped if _belongs(column, relation, spelling)}
        key = relation.table.primary_key if relation.table else ()
        if not key or not mine.issuperset(key):
            continue
        for name in _used(select, relation, spelling):
            if name not in mine and relation.identifier is not None:
                column = exp.Column(this=exp.to_identifier(name, quoted=True), table=relation.identifier.copy())
                group.append("expressions", column)


def _grouped(select: exp.Select, group: exp.Expr) -> Iterator[exp.Column]:
    """The columns that are grouped by, each by itself, by name or by its place."""
    for item in group.expressions:
        bare = item.unnest()
        if isinstance(bare, exp.Literal) and bare.is_int and 0 < int(bare.name) <= len(select.expressions):
            bare = select.expressions[int(bare.name) - 1].unalias()
        if isinstance(bare, exp.Column):
            yield bare


def _belongs(column: exp.Column, relation: QueryRelation, spelling: NameRules) -> bool:
    qualifier = column.args.get("table")
    if qualifier is not None:
        return spelling.relation(qualifier) == relation.alias
    return spelling.column(column) in relation.names


def _used(select: exp.Select, relation: QueryRelation, spelling: NameRules) -> list[str]:
    """Names of the relation's columns in the clauses that must not name ungrouped ones, those of subqueries included, in order."""
    found: dict[str, None] = {}
    comparable = {
        column.name
        for column in (relation.table.columns if relation.table else ())
        if not _UNGROUPED.match(column.type)
    }
    for clause in _CLAUSES:
        value = select.args.get(clause)
        for node in value if isinstance(value, list) else [value]:
            for column in node.find_all(exp.Column) if isinstance(node, exp.Expr) else ():
                name = spelling.column(column)
                if name in relation.names and name in comparable and _belongs(column, relation, spelling):
                    found[name] = None
    return list(found)
