"""Whole rows of tables as JSON, in PostgreSQL: `json_agg(t)`, `to_jsonb(t.*)`."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from toolgen.policy.sql.marks import CALL

__all__ = ["ROW_FUNCTIONS", "read_through_subqueries"]

_AGGREGATES: Final = frozenset({"json_agg", "jsonb_agg"})
ROW_FUNCTIONS: Final = frozenset({"row_to_json", "to_json", "to_jsonb", *_AGGREGATES})
"""Functions that make JSON of a row."""


def read_through_subqueries(root: exp.Expr) -> None:
    """Reads a table through `(SELECT * FROM t) AS t` where its row is an argument: a row of that has the columns that `*` stands for.

    A column of the same name comes before the row, in both.
    """
    for call in root.find_all(exp.Anonymous):
        function = call.name.removeprefix(CALL).lower()
        if function not in ROW_FUNCTIONS or not call.expressions:
            continue
        argument = call.expressions[0]
        value = argument.this if isinstance(argument, (exp.Order, exp.Distinct)) else argument
        select = call.find_ancestor(exp.Select)
        if not isinstance(value, exp.Column) or select is None or value.args.get("db") is not None:
            continue
        if select.args.get("group") is not None and function not in _AGGREGATES:
            continue  # what is grouped by a key is known of a table alone
        name = value.table if isinstance(value.this, exp.Star) else "" if value.table else value.name
        for table in _tables(select):
            if name and table.alias_or_name.lower() == name.lower() and table.parent is not None:
                _wrap(table)


def _tables(select: exp.Select) -> list[exp.Table]:
    source = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    read = [one.this for one in (source, *joins) if one is not None]
    return [one for one in read if isinstance(one, exp.Table) and isinstance(one.this, exp.Identifier)]


def _wrap(table: exp.Table) -> None:
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return
    joins = table.args.get("joins")
    inner = table.copy()
    inner.set("joins", None)
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner))
    named = alias.copy() if alias is not None else exp.TableAlias(this=table.this.copy())
    table.replace(exp.Subquery(this=query, alias=named, joins=joins))
