"""PIVOT and UNPIVOT of DuckDB, rewritten as the equivalent SELECT.

`PIVOT t ON year IN (2023, 2024) USING sum(total) GROUP BY city` is a SELECT with an aggregate for each value, and UNPIVOT is one with two
calls of unnest: https://duckdb.org/docs/stable/sql/statements/pivot and unpivot. Without a list of values the columns of PIVOT depend on
rows: such a statement is not rewritten, and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, TypeAlias

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.dialects.duckdb_columns import each_column, is_selector, titles_of_columns
from toolgen.connectors.sql.dialects.record import words
from toolgen.connectors.sql.guard.marks import CALL, SLOT
from toolgen.connectors.sql.guard.refusal import refuse, shown

__all__ = ["PIVOTED", "rewrite_pivots"]

PIVOTED: Final = (
    "ask for the values first, SELECT DISTINCT name FROM t, and write them: PIVOT t ON name IN ('a', 'b') USING sum(x) AS total GROUP BY y,"
    " with a name for each of several aggregates, or sum(x) FILTER (WHERE name = 'a') AS a; UNPIVOT t ON a, b INTO NAME n VALUE v"
)
"""Suggestion for a PIVOT whose columns depend on rows."""
_ALIAS: Final = "pivoted"
_MAX_COLUMNS: Final = 500
_DAY: Final = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])")
# Allowed aggregates of DuckDB: https://duckdb.org/docs/stable/sql/functions/aggregates
_AGGREGATES: Final = words(
    """
    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null
    arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or bit_xor bitstring_agg bool_and bool_or corr count count_if countif
    covar_pop covar_samp entropy favg first fsum geomean group_concat histogram histogram_exact json_group_array json_group_object
    kahan_sum kurtosis kurtosis_pop last list listagg mad max max_by mean median min min_by mode product quantile quantile_cont
    quantile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile sem
    skewness stddev stddev_pop stddev_samp string_agg sum sumkahan var_pop var_samp variance weighted_avg
    """
)
_Named: TypeAlias = tuple[exp.Expr, str]


class _Pivot(Struct, frozen=True, kw_only=True):
    """Parts of a PIVOT: a column of the result for each value and aggregate. Titles end with the names of aggregates."""

    source: exp.Expr
    columns: Sequence[exp.Expr]
    values: Sequence[Sequence[exp.Expr]]
    aggregates: Sequence[exp.Expr]
    grouped: Sequence[exp.Expr]


def rewrite_pivots(root: exp.Expr) -> None:
    """Replace each PIVOT and UNPIVOT of a simple form by a SELECT."""
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
    _refuse_unlisted(pivot, source)
    if not values or not all(isinstance(value, exp.In) and _is_of_columns(value.this) for value in values):
        return None
    group = pivot.args.get("group")
    return _pivoted(
        _Pivot(
            source=source,
            columns=[value.this for value in values],
            values=[value.expressions for value in values],
            aggregates=pivot.expressions if fields else pivot.args.get("using") or (),
            grouped=group.expressions if group is not None else (),
        )
    )


def _refuse_unlisted(pivot: exp.Expr, source: exp.Expr) -> None:
    """Refuse `PIVOT t ON name` without values, whose columns depend on rows, and suggest the values to query."""
    unlisted = [value for value in pivot.expressions if isinstance(value, exp.Column) and _is_name(value)]
    if pivot.args.get("fields") or not unlisted:
        return
    read = shown(source.name) if isinstance(source, exp.Table) else "(…)"
    names = ", ".join(shown(value.name) for value in unlisted)
    listed = " ".join(
        f"{shown(value.name)} IN ('…', '…')" for value in pivot.expressions if isinstance(value, exp.Column)
    )
    refuse(
        "pivot",
        f"the columns of PIVOT are the values of {names}, which are not listed",
        f"first send SELECT DISTINCT {names} FROM {read}, then write the values: PIVOT {read} ON {listed} USING …, or an aggregate with"  # noqa: S608 - advice
        f" FILTER (WHERE {shown(unlisted[0].name)} = '…') for each",
    )


def _pivoted(pivot: _Pivot) -> exp.Select | None:
    """Return a column for each aggregate and each value, or each combination of values of several columns."""
    aggregates = [*_aggregates(pivot.aggregates)]
    values = [[_value(value) for value in listed] for listed in pivot.values]
    count = len(aggregates)
    for listed in values:
        count *= len(listed)
    if not 0 < count <= _MAX_COLUMNS or None in aggregates or any(None in listed for listed in values):
        return None
    if not all(map(_is_name, pivot.grouped)):
        return None
    columns = [
        _column(call, [*zip(pivot.columns, (text for text, _ in chosen), strict=True)], "_".join(filter(None, names)))
        for chosen in product(*([*filter(None, listed)] for listed in values))
        for call, name in filter(None, aggregates)
        for names in [[*(title for _, title in chosen), name]]
    ]
    names = [column.alias.lower() for column in columns] + [column.name.lower() for column in pivot.grouped]
    if len(set(names)) < len(names):
        return None  # DuckDB renames the second one
    rest = [column.copy() for column in pivot.grouped] or [_others([*pivot.columns, *pivot.aggregates])]
    every = exp.Group(expressions=[column.copy() for column in pivot.grouped]) if pivot.grouped else exp.Group(all=True)
    return exp.Select(expressions=[*rest, *columns], from_=exp.From(this=_source(pivot.source)), group=every)


def _is_of_columns(node: exp.Expr) -> bool:
    """Return True for a column, or an expression of columns of the same row."""
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
    """Yield each expression with its alias, a suffix of column names; None if it has several aggregates, or shares USING without an alias.

    Without aggregates, rows are counted.
    """
    if not using:
        yield exp.Anonymous(this=f"{CALL}count", expressions=[exp.Star()]), ""
    for item in using:
        calls = [*_aggregates_in(item)]
        plain = len(calls) == 1 and (len(using) == 1 or bool(item.alias))
        yield (item.unalias(), item.alias) if plain else None


def _aggregates_in(item: exp.Expr) -> Iterator[exp.Anonymous]:
    """Return the aggregate calls in an expression: `sum(x)` of `round(sum(x), 2)`. DuckDB permits one."""
    for call in item.find_all(exp.Anonymous):
        if isinstance(call.this, str) and call.this.lower().removeprefix(CALL) in _AGGREGATES:
            yield call


def _value(value: exp.Expr) -> tuple[str, str] | None:
    """Return a value as text, and the name of its column."""
    if isinstance(value, exp.PivotAlias):
        text = _text(value.this)
        return (text, value.args["alias"].name) if text else None
    text = _text(value)
    return (text, text) if text else None


def _text(value: exp.Expr) -> str | None:
    """Return a text, a date, a boolean or an integer as text."""
    if isinstance(value, exp.Boolean):
        return "true" if value.this else "false"
    if isinstance(value, exp.Cast) and value.to.this is exp.DType.DATE and value.this.is_string:
        return value.this.name if _DAY.fullmatch(value.this.name) else None
    sign, number = ("-", value.this) if isinstance(value, exp.Neg) else ("", value)
    if not isinstance(number, exp.Literal):
        return None
    if number.is_string:
        return number.name if not sign else None
    return f"{sign}{int(number.name)}" if number.name.isdigit() and len(number.name) < 19 else None


def _column(item: exp.Expr, chosen: Sequence[tuple[exp.Expr, str]], name: str) -> exp.Expr:
    """Return the expression of a column. Values are compared as texts."""
    kind = exp.DataType(this=exp.DType.TEXT, nested=False)
    tests = [
        exp.EQ(this=exp.Cast(this=column.copy(), to=kind.copy()), expression=exp.Literal.string(text))
        for column, text in chosen
    ]
    copy = exp.Paren(this=item.copy())
    for call in [*_aggregates_in(copy)]:
        call.replace(exp.Filter(this=call.copy(), expression=exp.Where(this=exp.and_(*tests, wrap=False))))
    return exp.Alias(this=copy.this.pop(), alias=exp.to_identifier(name, quoted=True))


def _others(used: Sequence[exp.Expr]) -> exp.Expr:
    """Return the columns that are not used elsewhere, for a PIVOT without GROUP BY."""
    names = {column.name.lower(): column.this for item in used for column in item.find_all(exp.Column)}
    return exp.Star(except_=[name.copy() for name in names.values()])


def _source(source: exp.Expr) -> exp.Expr:
    found = source.copy()
    if isinstance(found, exp.Subquery) and found.args.get("alias") is None:
        found.set("alias", exp.TableAlias(this=exp.to_identifier(_ALIAS, quoted=True)))
    return found


class _PivotRow(Struct, frozen=True, kw_only=True):
    """Item of UNPIVOT that becomes rows: an expression for each column of values, or a selection of columns."""

    values: Sequence[exp.Expr]
    title: exp.Expr
    columns: Sequence[exp.Expr]


def _row(item: exp.Expr) -> _PivotRow | None:
    alias = item.args["alias"].name if isinstance(item, exp.PivotAlias) else item.alias
    value = item.this if isinstance(item, (exp.PivotAlias, exp.Alias)) else item
    selectors = [node for node in value.walk() if isinstance(node, exp.Star) or is_selector(node)]
    if selectors:
        first = selectors[0]
        return (
            _PivotRow(values=[each_column(value)], title=titles_of_columns(first), columns=[first])
            if not alias
            else None
        )
    parts = value.expressions if isinstance(value, exp.Tuple) else [value]
    found = [[*part.find_all(exp.Column)] for part in parts]
    if not parts or not all(len(columns) == 1 and _is_name(columns[0]) for columns in found) or value.find(exp.Query):
        return None
    names = [columns[0] for columns in found]
    bare = all(isinstance(part, (exp.Column, exp.Cast)) for part in parts)
    if not alias and not bare:
        return None  # DuckDB names it by its own text of the expression
    title = alias or "_".join(name.name for name in names)
    return _PivotRow(values=parts, title=exp.Literal.string(title), columns=names)


def _unpivoted(pivot: exp.Expr, source: exp.Expr) -> exp.Select | None:
    columns, name, values = _unpivoted_parts(pivot)
    rows = [_row(item) for item in columns]
    given = [*filter(None, rows)]
    if not given or len(given) < len(rows) or name is None or not values:
        return None
    if any(len(row.values) != len(values) for row in given):
        return None
    names = [
        column.this.copy() if isinstance(column, exp.Column) else column.copy()
        for row in given
        for column in row.columns
    ]
    left_out = [*{name.sql().lower(): name for name in names}.values()]
    listed = [exp.Array(expressions=[row.values[place].copy() for row in given]) for place in range(len(values))]
    items = [
        exp.Star(except_=left_out),
        exp.Alias(this=exp.Explode(this=exp.Array(expressions=[row.title for row in given])), alias=name.copy()),
        *(
            exp.Alias(this=exp.Explode(this=values_of), alias=value.copy())
            for values_of, value in zip(listed, values, strict=True)
        ),
    ]
    select = exp.Select(expressions=items, from_=exp.From(this=_source(source)))
    if pivot.args.get("include_nulls"):
        return select
    alias = exp.TableAlias(this=exp.to_identifier(_ALIAS, quoted=True))
    known = [exp.Not(this=exp.Is(this=exp.Column(this=value.copy()), expression=exp.Null())) for value in values]
    return exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(this=exp.Subquery(this=select, alias=alias)),
        where=exp.Where(this=exp.and_(*known, wrap=False)),
    )


_Parts: TypeAlias = tuple[Sequence[exp.Expr], exp.Identifier | None, Sequence[exp.Identifier]]


def _unpivoted_parts(pivot: exp.Expr) -> _Parts:
    """Return the items that become rows, the name of the column of names and those of the columns of values."""
    if fields := pivot.args.get("fields"):
        holder = fields[0]
        if len(fields) != 1 or not isinstance(holder, exp.In) or len(pivot.expressions) != 1:
            return (), None, ()
        value = pivot.expressions[0]
        return holder.expressions, _identifier(holder.this), _identifiers([value])
    into = pivot.args.get("into")
    if into is None:
        return pivot.expressions, exp.to_identifier("name"), (exp.to_identifier("value"),)
    return pivot.expressions, _identifier(into.this), _identifiers(into.expressions)


def _identifiers(nodes: Sequence[exp.Expr]) -> Sequence[exp.Identifier]:
    """Return the names of all columns of values, or none if one of them is not a name."""
    parts = [part for node in nodes for part in (node.expressions if isinstance(node, exp.Tuple) else [node])]
    found = [*filter(None, map(_identifier, parts))]
    return found if len(found) == len(parts) else ()


def _identifier(node: exp.Expr) -> exp.Identifier | None:
    inner = node.this if isinstance(node, exp.Column) else node
    return inner if isinstance(inner, exp.Identifier) else None
