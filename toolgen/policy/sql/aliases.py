"""Where a name that SELECT gives to a column of its result may be used, by engine; columns of tables come before it, except in ORDER BY.

https://www.postgresql.org/docs/current/sql-select.html#SQL-GROUPBY, https://dev.mysql.com/doc/refman/8.4/en/problems-with-alias.html,
lookupName in SQLite's src/resolve.c, https://duckdb.org/docs/stable/sql/dialect/friendly_sql. tests/execute/sql/test_names.py asks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from toolgen.policy.sql.relations import Scope

__all__ = ["alias_answers", "is_sorted_by"]

# By dialect, the clauses of the SELECT itself in which its aliases answer inside of expressions too.
_OWN: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "sqlite": frozenset({"where", "on", "group", "having", "order"}),
        "postgres": frozenset(),
        "mysql": frozenset({"group", "having", "order"}),
        "duckdb": frozenset({"expressions", "where", "group", "having", "qualify", "order", "distinct", "windows"}),
    }
)
# And the clauses whose subqueries see them.
_WITHIN: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "sqlite": frozenset({"where", "on", "group", "having", "order"}),
        "postgres": frozenset(),
        "mysql": frozenset({"expressions", "group", "having", "order"}),
        "duckdb": frozenset({"expressions", "where", "order"}),
    }
)
_BARE: Final = frozenset({"order", "group", "distinct"})


def alias_answers(identifier: exp.Expr, around: Scope, scope: Scope, dialect: str) -> bool:
    """Whether the aliases of `around` answer for a name in `scope`, which is `around` itself or a query inside of it."""
    if around is not scope:
        return around.clause in _WITHIN[dialect]
    if dialect == "postgres":
        return around.clause in _BARE and _stands_bare(identifier)
    if dialect == "mysql" and around.clause in {"expressions", "windows"}:
        return isinstance(identifier.find_ancestor(exp.Window, exp.Query), exp.Window)
    return around.clause in _OWN[dialect]


def is_sorted_by(identifier: exp.Expr, scope: Scope, name: str) -> bool:
    """Whether a bare name stands in the ORDER BY or GROUP BY of a query that gives it to a column of its result (SQL-92 rule)."""
    return name in scope.aliases and scope.clause in _BARE and _stands_bare(identifier)


def _stands_bare(identifier: exp.Expr) -> bool:
    """Whether a name is the whole of an item of ORDER BY, GROUP BY or DISTINCT ON."""
    node = identifier.parent
    while node is not None and isinstance(node.parent, (exp.Paren, exp.Ordered)):
        node = node.parent
    holder = node.parent if node is not None else None
    if isinstance(holder, exp.Tuple) and isinstance(holder.parent, exp.Distinct):
        holder = holder.parent
    return isinstance(holder, (exp.Order, exp.Group, exp.Distinct, exp.Rollup, exp.Cube, exp.GroupingSets))
