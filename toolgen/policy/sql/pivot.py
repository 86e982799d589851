"""`PIVOT t ON year IN (2023, 2024) USING sum(total) GROUP BY city` is a SELECT with an aggregate for each value.

https://duckdb.org/docs/stable/sql/statements/pivot: DuckDB makes the same of it. Without a list of values the columns are those that rows
have, which nobody knows before it runs; this form, and others than the plain one, are left as they are, and refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from toolgen.policy.sql.marks import CALL, slot_number

__all__ = ["settle_pivots"]


def settle_pivots(root: exp.Expr, _dialect: str) -> None:
    """Puts a SELECT in place of every plain PIVOT."""
    for pivot in list(root.find_all(exp.Pivot)):
        if isinstance(pivot.parent, (exp.Subquery, exp.CTE)) and (select := _select(pivot)) is not None:
            pivot.replace(select)


def _select(pivot: exp.Expr) -> exp.Select | None:
    values = pivot.expressions[0] if len(pivot.expressions) == 1 else None
    odd = {name for name, value in pivot.args.items() if value} - {"this", "expressions", "using", "group"}
    if odd or not isinstance(values, exp.In) or not _is_name(values.this) or not values.expressions:
        return None
    group = pivot.args.get("group")
    grouped = group.expressions if group is not None else []
    aggregates = [*_aggregates(pivot.args.get("using") or ())]
    titles = [_text(value) for value in values.expressions]
    if not aggregates or None in aggregates or not all(titles) or not all(map(_is_name, grouped)):
        return None
    columns = [
        _column(call, values.this, title, f"{title}_{name}" if name else title)
        for title in filter(None, titles)
        for call, name in filter(None, aggregates)
    ]
    names = [column.alias.lower() for column in columns] + [column.name.lower() for column in grouped]
    if len(set(names)) < len(names):
        return None  # DuckDB gives the second one another name
    rest = [column.copy() for column in grouped] or [_others([values.this, *(pivot.args.get("using") or ())])]
    every = exp.Group(expressions=[column.copy() for column in grouped]) if grouped else exp.Group(all=True)
    return exp.Select(expressions=[*rest, *columns], from_=exp.From(this=_source(pivot.this)), group=every)


def _is_name(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.Column)
        and isinstance(node.this, exp.Identifier)
        and node.args.get("table") is None
        and slot_number(node) is None
    )


def _aggregates(using: Sequence[exp.Expr]) -> Iterator[tuple[exp.Expr, str] | None]:
    """Each call, and what its columns' names end with: several have names of their own. Without any, rows are counted."""
    if not using:
        yield exp.Anonymous(this=f"{CALL}count", expressions=[exp.Star()]), ""
    for item in using:
        plain = isinstance(item.unalias(), exp.Anonymous) and (len(using) == 1 or bool(item.alias))
        yield (item.unalias(), item.alias) if plain else None


def _text(value: exp.Expr) -> str | None:
    """A text or a whole number as a text, which is what its column is called."""
    sign, number = ("-", value.this) if isinstance(value, exp.Neg) else ("", value)
    if not isinstance(number, exp.Literal):
        return None
    if number.is_string:
        return number.name if not sign else None
    return f"{sign}{int(number.name)}" if number.name.isdigit() and len(number.name) < 19 else None


def _column(call: exp.Expr, column: exp.Expr, text: str, name: str) -> exp.Expr:
    """Values are compared as texts."""
    kind = exp.DataType(this=exp.DType.TEXT, nested=False)
    same = exp.EQ(this=exp.Cast(this=column.copy(), to=kind), expression=exp.Literal.string(text))
    kept = exp.Filter(this=call.copy(), expression=exp.Where(this=same))
    return exp.Alias(this=kept, alias=exp.to_identifier(name, quoted=True))


def _others(used: Sequence[exp.Expr]) -> exp.Expr:
    """Without GROUP BY: every column that stands nowhere else."""
    names = {column.name.lower(): column.this for item in used for column in item.find_all(exp.Column)}
    return exp.Star(except_=[name.copy() for name in names.values()])


def _source(source: exp.Expr) -> exp.Expr:
    found = source.copy()
    if isinstance(found, exp.Subquery) and found.args.get("alias") is None:
        found.set("alias", exp.TableAlias(this=exp.to_identifier("pivoted", quoted=True)))
    return found
