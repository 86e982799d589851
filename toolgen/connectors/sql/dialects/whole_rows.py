"""Whole rows of tables as values: `json_agg(t)`, `to_jsonb(t.*)`, and `(t).name` in PostgreSQL."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.guard.marks import CALL

__all__ = ["ROW_FUNCTIONS", "is_source", "name_fields", "read_through_subqueries", "select_rows"]

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


def select_rows(root: exp.Expr) -> None:
    """Reads a table through `(SELECT * FROM t) AS t` where its row is selected or shown in DuckDB: `SELECT t FROM t`, `list(t)`.

    A column of the same name comes before the row, in both. In any other expression the row stays one of a table, which is refused.
    """
    for select in root.find_all(exp.Select):
        tables = {table.alias_or_name.lower(): table for table in _tables(select)}
        for item in select.expressions:
            for value in (item,) if type(item) is exp.Column else tuple(item.find_all(exp.Column)):
                table = tables.get(value.name.lower())
                if table is None or table.parent is None or value.table or not _is_shown(value, item):
                    continue
                if value.find_ancestor(exp.Select) is select:
                    _wrap(table)


_SHOWING: Final = frozenset(
    CALL + name
    for name in (
        *(
            "any_value",
            "arbitrary",
            "arg_max",
            "arg_max_null",
            "arg_min",
            "arg_min_null",
            "argmax",
            "argmin",
            "array_agg",
            "first",
        ),
        *("json_group_array", "last", "list", "max_by", "min_by", "struct_extract", "to_json"),
    )
)


def _is_shown(value: exp.Expr, item: exp.Expr) -> bool:
    around = value.parent.parent if isinstance(value.parent, exp.Order) else value.parent
    if item.unalias() is value or isinstance(around, (exp.Unnest, exp.Explode, exp.Bracket)):
        return True
    return isinstance(around, exp.Anonymous) and (
        around.name.lower() in _SHOWING or around.name.lower() == f"{CALL}unnest"
    )


def name_fields(root: exp.Expr) -> None:
    """Writes `(t).name` and `(t).*` as `t.name` and `t.*` where t is a source of the query or of one around it.

    A column of that name would come first: it is left as it is where the statement names one so.
    """
    for dot in reversed(list(root.find_all(exp.Dot))):
        row, field = dot.this, dot.expression
        if not isinstance(row, exp.Paren) or not isinstance(row.this, exp.Column) or row.this.table:
            continue
        source = row.this.this
        if (
            isinstance(field, (exp.Identifier, exp.Star))
            and is_source(dot, source.name)
            and not _is_named(root, source)
        ):
            dot.replace(exp.Column(this=field.copy(), table=source.copy()))


def is_source(node: exp.Expr, name: str) -> bool:
    """Return True if a query around a node reads something under this name."""
    select = node.find_ancestor(exp.Select)
    while select is not None:
        source = select.args.get("from_")
        read = [one.this for one in (source, *(select.args.get("joins") or ())) if one is not None]
        if any(one.alias_or_name.lower() == name.lower() for one in (*read, *(select.args.get("laterals") or ()))):
            return True
        select = select.find_ancestor(exp.Select)
    return False


def _is_named(root: exp.Expr, name: exp.Expr) -> bool:
    sought = name.name.lower()
    if any(alias.alias.lower() == sought for alias in root.find_all(exp.Alias)):
        return True
    return any(
        column.name.lower() == sought
        for alias in root.find_all(exp.TableAlias)
        for column in alias.args.get("columns") or ()
    )


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
