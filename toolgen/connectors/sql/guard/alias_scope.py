"""Clauses in which a name can refer to an alias of a result column, by engine. Columns of tables come first, except in ORDER BY.

https://www.postgresql.org/docs/current/sql-select.html#SQL-GROUPBY, https://dev.mysql.com/doc/refman/8.4/en/problems-with-alias.html,
lookupName in SQLite's src/resolve.c, https://duckdb.org/docs/stable/sql/dialect/friendly_sql.
tests/connectors/sql/execution/test_names.py asks the engines.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.relations import SelectScope
from toolgen.model.database import DialectName

__all__ = ["alias_answers", "is_sorted_by"]

_BARE: Final = frozenset({"order", "group", "distinct"})
_GROUPS: Final = (exp.Rollup, exp.Cube, exp.GroupingSets)


def alias_answers(identifier: exp.Expr, around: SelectScope, scope: SelectScope, dialect: DialectName) -> bool:
    """Return True if a name in `scope` can refer to an alias of `around`, which is `scope` itself or a query around it."""
    record = RECORDS[dialect]
    if around is not scope:
        return around.clause in record.alias_subquery_clauses
    if record.bare_aliases:
        return around.clause in _BARE and _stands_bare(identifier)
    if record.window_aliases and around.clause in {"expressions", "windows"}:
        return isinstance(identifier.find_ancestor(exp.Window, exp.Query), exp.Window)
    return around.clause in record.alias_clauses


def is_sorted_by(identifier: exp.Expr, scope: SelectScope, name: str) -> bool:
    """Return True if a bare name in ORDER BY or GROUP BY is an alias of a result column of the same query (SQL-92 rule)."""
    return name in scope.aliases and scope.clause in _BARE and _stands_bare(identifier)


def _stands_bare(identifier: exp.Expr) -> bool:
    """Return True if a name is a whole item of ORDER BY, GROUP BY or DISTINCT ON."""
    node = identifier.parent
    while node is not None and isinstance(node.parent, (exp.Paren, exp.Ordered)):
        node = node.parent
    holder = node.parent if node is not None else None
    if isinstance(holder, exp.Tuple) and isinstance(holder.parent, (exp.Distinct, *_GROUPS)):
        holder = holder.parent
    return isinstance(holder, (exp.Order, exp.Group, exp.Distinct, *_GROUPS))
