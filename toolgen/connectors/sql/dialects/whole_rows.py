"""Complete rows of tables as values: `json_agg(t)`, `to_jsonb(t.*)`, and `(t).name` in PostgreSQL."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.guard.marks import CALL

__all__ = ["ROW_FUNCTIONS", "is_source", "name_fields", "read_through_subqueries", "select_rows"]

_AGGREGATES: Final = frozenset({"json_agg", "jsonb_agg"})
ROW_FUNCTIONS: Final = frozenset({"row_to_json", "to_json", "to_jsonb", *_AGGREGATES})
"""Functions that convert a row to JSON."""


def read_through_subqueries(root: exp.Expr) -> None:
    """Read a table through `(SELECT * FROM t) AS t` if its row is an argument: that row has only the columns of `*`.

    In both forms a column with the same name takes precedence over the row.
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
            continue  # functional dependency on a key is known only for a table
        name = value.table if isinstance(value.this, exp.Star) else "" if value.table else value.name
        for table in _tables(select):
            if name and table.alias_or_name.lower() == name.lower() and table.parent is not None:
                _wrap(table)


def select_rows(root: exp.Expr) -> None:
    """Read a table through `(SELECT * FROM t) AS t` if its row is selected or shown in DuckDB: `SELECT t FROM t`, `list(t)`.

    In both forms a column with the same name takes precedence over the row. In any other expression the row of a table is refused.
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
    """Rewrite `(t).name` and `(t).*` as `t.name` and `t.*` if t is a source of the query or of an enclosing one.

    A column with that name would take precedence, so the expression is unchanged if the statement has such a column.
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
    """Return True if an enclosing query of a node has a source with this name."""
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
