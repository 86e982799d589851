"""Bounds of lists of numbers and dates that DuckDB computes from rows: `range(n)`, `generate_series(a, b, INTERVAL 1 DAY)`.

DuckDB makes the lists of 2,048 rows at once, and its memory limit does not count all of them. The bounds of a list may
differ by at most 4,095, in the unit of its step; with a larger difference the statement fails. The result is an error instead of a large
list, and never a different list.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.dialects.computed_counts import bounded_count
from toolgen.connectors.sql.guard.marks import CALL
from toolgen.connectors.sql.guard.refusal import refuse

__all__ = ["MAX_ELEMENTS", "bound_series", "is_bounded_series"]

MAX_ELEMENTS: Final = 4_095
_FACTOR: Final = "8"  # times 4,095 fits into a SMALLINT, times 4,096 does not
_NAMES: Final = frozenset({f"{CALL}range", f"{CALL}generate_series"})
_UNITS: Final = frozenset(
    {"microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"}
)
# Each use of such a function gives another value, and a bound is used twice.
_RANDOM: Final = frozenset(f"{CALL}{name}" for name in ("random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid"))
_STEP: Final = re.compile(r"\s*[0-9]{1,6}\s+([a-z]+?)s?\s*\Z", re.IGNORECASE)
_COMPUTED: Final = (exp.Column, exp.Query, exp.Anonymous, exp.Identifier, exp.CurrentDate, exp.CurrentTimestamp)


def bound_series(root: exp.Expr) -> None:
    """Bound each list of a tree. Functions in FROM return rows one after the other."""
    for call in reversed(list(root.find_all(exp.Anonymous))):
        arguments = call.expressions
        if not _makes_list(call) or is_bounded_series(call):
            continue
        if any(str(inner.this).lower() in _RANDOM for inner in call.find_all(exp.Anonymous)):
            refuse(
                "size",
                "a bound of a list is random",
                "compute the number in a subquery: FROM (SELECT random() AS r FROM t)",
            )
        stop = arguments[min(1, len(arguments) - 1)]
        call.expressions[min(1, len(arguments) - 1)].replace(_bounded(call, stop.copy()))


def is_bounded_series(call: exp.Expr) -> bool:
    """Return True if a list of computed bounds has the form that fails beyond MAX_ELEMENTS."""
    arguments = call.expressions
    stop = arguments[min(1, len(arguments) - 1)] if arguments else None
    branches = stop.args.get("ifs") if isinstance(stop, exp.Case) else None
    if not branches or len(branches) != 1:
        return False
    asked: exp.Expr = branches[0].args["true"]
    same: bool = stop == _bounded(call, asked.copy())
    return same


def _makes_list(call: exp.Expr) -> bool:
    named = isinstance(call.this, str) and call.this.lower() in _NAMES
    if not named or not 1 <= len(call.expressions) <= 3 or isinstance(call.parent, (exp.Table, exp.Lateral)):
        return False
    bounds = call.expressions[:2]
    if not any(isinstance(node, _COMPUTED) for bound in bounds for node in bound.walk()):
        return False
    return not _is_small(bounds[-1], first=len(bounds) == 1 or isinstance(bounds[0], exp.Literal))


def _is_small(stop: exp.Expr, *, first: bool) -> bool:
    """Return True for an upper bound `least(n, 100)`, or a count that fails beyond about 1,000; `first`: the list begins with a literal."""
    if first and isinstance(stop, exp.Anonymous) and str(stop.this).lower() == f"{CALL}least":
        return any(
            isinstance(one, exp.Literal) and one.name.isdigit() and len(one.name) < 9 and int(one.name) <= MAX_ELEMENTS
            for one in stop.expressions
        )
    return first and bounded_count(stop) > 0


def _bounded(call: exp.Expr, stop: exp.Expr) -> exp.Expr:
    """Return `CASE WHEN (b - a) * 8 fits into a SMALLINT THEN b END`; the cast fails if it does not fit."""
    start = call.expressions[0] if len(call.expressions) > 1 else None
    step = call.expressions[2] if len(call.expressions) > 2 else None
    unit = _unit(step) if step is not None else ""
    distance: exp.Expr
    if unit and start is not None:
        distance = exp.Anonymous(
            this=f"{CALL}date_diff", expressions=[exp.Literal.string(unit), start.copy(), stop.copy()]
        )
    else:
        distance = _whole(stop)
        if start is not None:
            distance = exp.Paren(this=exp.Sub(this=distance, expression=_whole(start)))
    product = exp.Paren(this=exp.Mul(this=distance, expression=exp.Literal.number(_FACTOR)))
    fits = exp.Cast(this=product, to=exp.DataType(this=exp.DType.SMALLINT, nested=False))
    known = exp.Not(this=exp.Is(this=fits, expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=known, true=stop)])


def _whole(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.BIGINT, nested=False))


def _unit(step: exp.Expr) -> str:
    """Return the unit of a step of dates; "" for a number."""
    value = step.this if isinstance(step, (exp.Neg, exp.Paren)) else step
    if isinstance(value, exp.Literal) and not value.is_string:
        return ""
    unit = ""
    if isinstance(value, exp.Interval) and isinstance(value.args.get("unit"), exp.Var):
        count = value.this.unnest() if isinstance(value.this, exp.Expr) else None
        if isinstance(count, exp.Literal):
            unit = value.args["unit"].name.lower().removesuffix("s")
    elif isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal) and value.to.this is exp.DType.INTERVAL:
        found = _STEP.match(value.this.name)
        unit = found[1].lower() if found is not None else ""
    if unit not in _UNITS:
        refuse("size", "the step of a list of dates is not a literal", "write the step as INTERVAL 1 DAY")
    return unit
