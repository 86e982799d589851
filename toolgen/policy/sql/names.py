"""How a dialect compares names: what a table, a column and an alias are called once case and quotes are out of the way."""

from __future__ import annotations

from typing import TypeAlias

from sqlglot import exp

from toolgen.policy.sql.grants import fold, fold_column
from toolgen.policy.sql.refusal import refuse

__all__ = ["DEFAULT_SCHEMA", "Names", "Spelling", "name_of", "renamed"]

Names: TypeAlias = tuple[str | None, ...]
"""The folded output columns of a query in order; None is a column without a name of its own."""

DEFAULT_SCHEMA = {"sqlite": "main", "postgres": "public", "mysql": "", "duckdb": "main"}


class Spelling:
    """The rules of one dialect."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect

    def relation(self, node: exp.Expr) -> str:
        """A table, schema or alias as the dialect compares it. MySQL may keep case, so here it does: the stricter of the two."""
        name = node.name
        match self._dialect:
            case "postgres":
                return name if node.args.get("quoted") else fold("postgres", name)
            case "mysql":
                return name
            case _:
                return fold(self._dialect, name)

    def column(self, node: exp.Expr) -> str:
        """A column's name as the dialect compares it."""
        inner = node.this if isinstance(node, exp.Column) else node
        return fold_column(self._dialect, inner.name, quoted=bool(inner.args.get("quoted")))

    def alias(self, node: exp.Expr | None) -> str:
        """The name an alias gives to a relation, or "" when there is none."""
        name = name_of(node)
        return self.relation(name) if name is not None else ""

    def alias_columns(self, node: exp.Expr | None) -> Names:
        """The names an alias gives to columns, as in `t(a, b)`."""
        return tuple(self.column(name) for name in node.args.get("columns") or []) if node is not None else ()


def name_of(node: exp.Expr | None) -> exp.Identifier | None:
    """The identifier in an alias."""
    name = node.this if isinstance(node, exp.TableAlias) else node
    return name if isinstance(name, exp.Identifier) else None


def renamed(names: Names, columns: Names) -> Names:
    """`names` with the first ones replaced by `columns`. Raises `Refusal` for more of them than there are."""
    if len(columns) > len(names):
        refuse("column", "more columns are renamed than there are", "give as many names as the query has columns")
    return (*columns, *names[len(columns) :]) if columns else names
