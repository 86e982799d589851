"""Queries of DuckDB in the words of the other engines, as far as these have words for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp, parse_one

__all__ = ["translated"]


def translated(sql: str, dialect: str) -> str:
    """The query for one engine, which may still not be able to run it."""
    if dialect == "duckdb":
        return sql
    root = parse_one(sql, read="duckdb")
    for rewrite in (*_REWRITES[dialect], *_REWRITES[dialect]):  # the second time below what was replaced
        root = root.transform(rewrite)
    return root.sql(dialect=dialect)


def _round_decimals(node: exp.Expr) -> exp.Expr:
    """PostgreSQL rounds no double to a number of digits."""
    if isinstance(node, exp.Round) and node.args.get("decimals") is not None and not isinstance(node.this, exp.Cast):
        node.set("this", exp.Cast(this=node.this, to=exp.DataType.build("decimal")))
    return node


def _name_columns(node: exp.Expr) -> exp.Expr:
    """`(SELECT a …) AS t (x)` with the names inside, for engines without them behind an alias."""
    if isinstance(node, exp.Subquery) and (names := node.alias_column_names) and isinstance(node.this, exp.Select):
        for item, name in zip(list(node.this.expressions), names, strict=True):
            item.replace(exp.alias_(item.unalias().copy(), name))
        node.args["alias"].set("columns", None)
    return node


def _roll_up(node: exp.Expr) -> exp.Expr:
    """`GROUP BY a, b WITH ROLLUP`, with ORDER BY and LIMIT around it."""
    group = node.args.get("group") if isinstance(node, exp.Select) else None
    if group is None or not isinstance(group.expressions[-1], exp.Rollup):
        return node
    *keys, rolled_up = group.expressions
    node.set("group", exp.Group(expressions=[*keys, *rolled_up.expressions], rollup=[exp.Rollup()]))
    tail = {clause: node.args.get(clause) for clause in ("order", "limit") if node.args.get(clause) is not None}
    if not tail:
        return node
    for clause in tail:
        node.set(clause, None)
    for column in tail["order"].find_all(exp.Column) if "order" in tail else ():
        column.set("table", None)
    common = node.args.get("with_")
    node.set("with_", None)
    inner = exp.Subquery(this=node, alias=exp.TableAlias(this=exp.to_identifier("rolled_up")))
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner), with_=common, **tail)


def _name_strings(node: exp.Expr) -> exp.Expr:
    """MySQL takes a name in double quotes for a text; the generator writes backticks where a name is quoted."""
    if isinstance(node, exp.Alias) and isinstance(node.args.get("alias"), exp.Identifier):
        node.args["alias"].set("quoted", True)
    if isinstance(node, exp.TableAlias):  # names of tables and aliases differ by case there
        node.this.set("this", node.name.lower())
    if isinstance(node, exp.Column) and isinstance(node.args.get("table"), exp.Identifier):
        node.args["table"].set("this", node.table.lower())
    return node


def _name_stars(node: exp.Expr) -> exp.Expr:
    """`SELECT a, t.* FROM t`: a `*` behind another column needs its table."""
    source = node.args.get("from_") if isinstance(node, exp.Select) else None
    if source is not None and not node.args.get("joins") and isinstance(source.this, exp.Table):
        for item in node.expressions[1:]:
            if isinstance(item, exp.Star):
                item.replace(exp.Column(this=exp.Star(), table=exp.to_identifier(source.this.alias_or_name)))
    return node


def _without_extract(node: exp.Expr) -> exp.Expr:
    parts = {"YEAR": "%Y", "MONTH": "%m", "DAY": "%d"}
    if isinstance(node, exp.Extract) and (part := parts.get(node.name.upper())) is not None:
        text = exp.Anonymous(this="strftime", expressions=[exp.Literal.string(part), node.expression])
        return exp.Cast(this=text, to=exp.DataType.build("int"))
    return node


def _without_functions(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Concat():
            joined, *others = [exp.func("coalesce", part.copy(), exp.Literal.string("")) for part in node.expressions]
            for other in others:
                joined = exp.DPipe(this=joined, expression=other)
            return exp.Paren(this=joined)
        case exp.StddevSamp():
            value = node.this.sql("sqlite")
            squares, total = f"sum(1.0 * {value} * {value})", f"sum(1.0 * {value})"
            spread = f"sqrt(({squares} - {total} * {total} / count({value})) / nullif(count({value}) - 1, 0))"
            return parse_one(spread, read="sqlite")
    return node


def _without_parentheses(node: exp.Expr) -> exp.Expr:
    """Operands of a set operation without parentheses around them."""
    if isinstance(node, exp.SetOperation):
        for side in ("this", "expression"):
            operand = node.args[side]
            if (
                isinstance(operand, exp.Subquery)
                and not operand.args.get("alias")
                and isinstance(operand.this, exp.Select)
            ):
                node.set(side, operand.this)
    return node


_REWRITES: Final[Mapping[str, tuple[Callable[[exp.Expr], exp.Expr], ...]]] = MappingProxyType(
    {
        "postgres": (_round_decimals,),
        "mysql": (_name_columns, _roll_up, _name_strings, _name_stars),
        "sqlite": (_name_columns, _without_extract, _without_functions, _without_parentheses),
    }
)
