"""GROUP BY of a primary key, for tables that are read through a subquery: the dependent columns are added.

https://www.postgresql.org/docs/current/sql-select.html#SQL-GROUPBY: a column that depends on a grouped primary key needs not be grouped.
PostgreSQL does not know the key of a subquery. The groups do not change, because rows with the same key are one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.guard.identifiers import NameRules
from toolgen.connectors.sql.guard.relations import QueryRelation, SelectScope

__all__ = ["complete_groups"]

_CLAUSES: Final = ("expressions", "having", "order", "distinct", "windows")
# Types whose values cannot be compared, and therefore not grouped.
_UNGROUPED: Final = re.compile(r"json$|xml|point|line|lseg|box|path|polygon|circle", re.IGNORECASE)


def complete_groups(select: exp.Select, scope: SelectScope, spelling: NameRules) -> None:
    """Add the used columns of tables to a simple GROUP BY that contains their primary key."""
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
    """Return the columns of GROUP BY, each by name or by position."""
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
    """Return the names of the relation's columns in clauses that must not use ungrouped ones, with those of subqueries, in order."""
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
