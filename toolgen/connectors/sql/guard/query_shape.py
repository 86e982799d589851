"""Parameters and result columns of a trusted query, read from its text."""

from __future__ import annotations

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.guard.placeholders import slot_number
from toolgen.connectors.sql.guard.refusal import StatementRefusal, refuse, shown
from toolgen.connectors.sql.guard.text import parse
from toolgen.model.database import DialectName
from toolgen.model.verdict import Deny

__all__ = ["ResultShape", "shape_of"]


class ResultShape(Struct, frozen=True, kw_only=True):
    """Shape of a query. `parameters` are the `:name`s in order of their first appearance, `columns` the names of the result's."""

    parameters: tuple[str, ...]
    columns: tuple[str, ...]


def shape_of(sql: str, dialect: DialectName) -> ResultShape | Deny:
    """Return the shape of a query with `:name` placeholders and named columns. `guard` makes the other checks."""
    try:
        parsed = parse(sql, dialect)
        if len(parsed.names) != parsed.asked or parsed.style not in {"", ":name"}:
            refuse(
                "parameters", "the placeholders are not written as :name", "write the parameter's name after a colon"
            )
        return ResultShape(parameters=parsed.names, columns=_columns(parsed.root))
    except StatementRefusal as refusal:
        return refusal.verdict()


def _columns(root: exp.Expr) -> tuple[str, ...]:
    query = root
    while isinstance(query, (exp.Subquery, exp.SetOperation)):
        query = query.this
    if not isinstance(query, exp.Select):
        refuse("columns", "the query returns columns without names", "write a SELECT that names its columns")
    names: list[str] = []
    for number, item in enumerate(query.expressions, 1):
        if isinstance(item.this if isinstance(item, exp.Column) else item, exp.Star):
            refuse("columns", "* could return different columns for each caller", "name the columns")
        named = isinstance(item, exp.Alias) or (isinstance(item, exp.Column) and slot_number(item) is None)
        if not named or not item.alias_or_name:
            refuse("columns", f"column {number} of the result has no name", "give it one with AS")
        if item.alias_or_name in names:
            refuse("columns", f"two columns are called {shown(item.alias_or_name)}", "give one another name with AS")
        names.append(item.alias_or_name)
    return tuple(names)
