"""PIVOT and UNPIVOT of DuckDB, rewritten as the SELECT that the engine makes of them.

`PIVOT t ON year IN (2023, 2024) USING sum(total) GROUP BY city` is a SELECT with an aggregate for each value, and UNPIVOT is one with two
calls of unnest: https://duckdb.org/docs/stable/sql/statements/pivot and unpivot. Without a list of values the columns of PIVOT depend on
rows: such a statement is left as it is, and refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.guard.marks import CALL, SLOT

__all__ = ["PIVOTED", "rewrite_pivots"]

PIVOTED: Final = (
    "write PIVOT t ON name IN ('a', 'b') USING sum(x) AS total GROUP BY y, with the values and a name for each aggregate,"
    " or sum(x) FILTER (WHERE name = 'a') AS a; UNPIVOT t ON a, b INTO NAME n VALUE v, with the columns by name"
)
"""What to write instead of a PIVOT whose columns depend on rows."""
_ALIAS: Final = "pivoted"
_Named: TypeAlias = tuple[exp.Expr, str]


class _Pivot(Struct, frozen=True, kw_only=True):
    """The parts of a PIVOT: a column of the result for each value and aggregate. Titles end with the names of aggregates."""

    source: exp.Expr
    column: exp.Expr
    values: Sequence[exp.Expr]
    aggregates: Sequence[exp.Expr]
    grouped: Sequence[exp.Expr]


def rewrite_pivots(root: exp.Expr) -> None:
    """Puts a SELECT in place of each PIVOT and UNPIVOT of a plain form."""
    for pivot in list(root.find_all(exp.Pivot)):
        holder = pivot.parent
        if isinstance(holder, (exp.Subquery, exp.CTE)) and pivot.arg_key == "this":
            if (select := _select(pivot, pivot.this)) is not None:
                pivot.replace(select)
        elif isinstance(holder, (exp.Table, exp.Subquery)) and len(holder.args["pivots"]) == 1:
            source = holder.copy()
            source.set("pivots", None)
            if (select := _select(pivot, source)) is not None:
                alias = pivot.args.get("alias") or exp.TableAlias(this=exp.to_identifier(_ALIAS, quoted=True))
                holder.replace(exp.Subquery(this=select, alias=alias.copy(), joins=holder.args.get("joins")))


def _select(pivot: exp.Expr, source: exp.Expr) -> exp.Select | None:
    given = {name for name, value in pivot.args.items() if value}
    if pivot.args.get("unpivot"):
        return _unpivoted(pivot, source) if "group" not in given else None
    if given - {"this", "expressions", "using", "group", "fields", "alias", "columns", "pivot_column_naming"}:
        return None
    fields = pivot.args.get("fields")
    values = fields or pivot.expressions
    if len(values) != 1 or not isinstance(values[0], exp.In) or not _is_of_columns(values[0].this):
        return None
    group = pivot.args.get("group")
    return _pivoted(
        _Pivot(
            source=source,
            column=values[0].this,
            values=values[0].expressions,
            aggregates=pivot.expressions if fields else pivot.args.get("using") or (),
            grouped=group.expressions if group is not None else (),
        )
    )


def _pivoted(pivot: _Pivot) -> exp.Select | None:
    aggregates = [*_aggregates(pivot.aggregates)]
    values = [_value(value) for value in pivot.values]
    if not aggregates or None in aggregates or not values or None in values or not all(map(_is_name, pivot.grouped)):
        return None
    columns = [
        _column(call, pivot.column, text, f"{title}_{name}" if name else title)
        for text, title in filter(None, values)
        for call, name in filter(None, aggregates)
    ]
    names = [column.alias.lower() for column in columns] + [column.name.lower() for column in pivot.grouped]
    if len(set(names)) < len(names):
        return None  # DuckDB gives the second one another name
    rest = [column.copy() for column in pivot.grouped] or [_others([pivot.column, *pivot.aggregates])]
    every = exp.Group(expressions=[column.copy() for column in pivot.grouped]) if pivot.grouped else exp.Group(all=True)
    return exp.Select(expressions=[*rest, *columns], from_=exp.From(this=_source(pivot.source)), group=every)


def _is_of_columns(node: exp.Expr) -> bool:
    """True for a column, and for what is worked out from columns of the same row."""
    return (
        all(map(_is_name, columns)) if (columns := [*node.find_all(exp.Column)]) and not node.find(exp.Query) else False
    )


def _is_name(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.Column)
        and isinstance(node.this, exp.Identifier)
        and node.args.get("table") is None
        and not node.name.startswith(SLOT)
    )


def _aggregates(using: Sequence[exp.Expr]) -> Iterator[_Named | None]:
    """Each call, and what its columns' names end with: several have names of their own. Without any, rows are counted."""
    if not using:
        yield exp.Anonymous(this=f"{CALL}count", expressions=[exp.Star()]), ""
    for item in using:
        plain = isinstance(item.unalias(), exp.Anonymous) and (len(using) == 1 or bool(item.alias))
        yield (item.unalias(), item.alias) if plain else None


def _value(value: exp.Expr) -> tuple[str, str] | None:
    """A value as a text, and what its column is called."""
    if isinstance(value, exp.PivotAlias):
        text = _text(value.this)
        return (text, value.args["alias"].name) if text else None
    text = _text(value)
    return (text, text) if text else None


def _text(value: exp.Expr) -> str | None:
    """A text or a whole number as a text."""
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
        found.set("alias", exp.TableAlias(this=exp.to_identifier(_ALIAS, quoted=True)))
    return found


def _unpivoted(pivot: exp.Expr, source: exp.Expr) -> exp.Select | None:
    columns, name, value = _unpivoted_parts(pivot)
    given = [(item.unalias(), item.alias) for item in columns]
    if not given or not all(_is_name(column) for column, _ in given) or name is None or value is None:
        return None
    titles = [exp.Literal.string(alias or column.name) for column, alias in given]
    listed = [column.copy() for column, _ in given]
    items = [
        exp.Star(except_=[column.this.copy() for column, _ in given]),
        exp.Alias(this=exp.Explode(this=exp.Array(expressions=titles)), alias=name.copy()),
        exp.Alias(this=exp.Explode(this=exp.Array(expressions=listed)), alias=value.copy()),
    ]
    rows = exp.Select(expressions=items, from_=exp.From(this=_source(source)))
    if pivot.args.get("include_nulls"):
        return rows
    alias = exp.TableAlias(this=exp.to_identifier(_ALIAS, quoted=True))
    known = exp.Not(this=exp.Is(this=exp.Column(this=value.copy()), expression=exp.Null()))
    return exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(this=exp.Subquery(this=rows, alias=alias)),
        where=exp.Where(this=known),
    )


_Parts: TypeAlias = tuple[Sequence[exp.Expr], exp.Identifier | None, exp.Identifier | None]


def _unpivoted_parts(pivot: exp.Expr) -> _Parts:
    """The columns that become rows, and what the columns of their names and of their values are called."""
    if fields := pivot.args.get("fields"):
        holder = fields[0]
        if len(fields) != 1 or not isinstance(holder, exp.In) or len(pivot.expressions) != 1:
            return (), None, None
        return holder.expressions, _identifier(holder.this), _identifier(pivot.expressions[0])
    into = pivot.args.get("into")
    if into is None:
        return pivot.expressions, exp.to_identifier("name"), exp.to_identifier("value")
    if len(into.expressions) != 1:
        return (), None, None
    return pivot.expressions, _identifier(into.this), _identifier(into.expressions[0])


def _identifier(node: exp.Expr) -> exp.Identifier | None:
    inner = node.this if isinstance(node, exp.Column) else node
    return inner if isinstance(inner, exp.Identifier) else None
