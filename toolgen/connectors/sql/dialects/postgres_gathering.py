"""Bound on values that PostgreSQL aggregates from rows: `string_agg`, `array_agg`, `json_agg`, `ARRAY(SELECT …)`.

PostgreSQL does not limit the memory of a session: four `string_agg` over 200,000 rows of 1 KB took 1.4 GB in two seconds. Each such call
gets a condition that adds the size of the row to a setting of the transaction, and fails beyond MAX_GATHERED. The sum counts for the
complete statement. A setting is the only counter in a read-only transaction; one row costs about a microsecond. Statements may not call the
functions that read and write it (`functions.py`), so no statement can reset it.

https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADMIN-SET
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.guard.marks import CALL
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.model.database import GATHERED_SETTING

__all__ = ["MAX_GATHERED", "bound_gathering", "may_gather"]

MAX_GATHERED: Final = 9_500_000
"""Maximum bytes of all values that a statement aggregates; the cost model uses the same number (`cost.py`)."""

_OVERHEAD: Final = 8  # bytes of an element in addition to its text
_RANGE_OVERHEAD: Final = 150  # bytes of a range, for which range_agg takes 3 KB: 60,000 take 200 MB
_RANGES: Final = f"{CALL}range_agg"
_MAX_LEVELS: Final = 3  # levels of nested aggregates: each level doubles the counted expression
_ALIAS: Final = "gathered"
_VALUE: Final = "value"
_GATHERERS: Final = frozenset(
    CALL + name
    for name in (
        *(
            "array_agg",
            "string_agg",
            "range_agg",
            "xmlagg",
            "json_agg",
            "json_arrayagg",
            "json_object_agg",
            "json_objectagg",
        ),
        *("jsonb_agg", "jsonb_agg_strict", "jsonb_object_agg", "jsonb_object_agg_strict"),
    )
)
_FUNCTIONS: Final = frozenset({"coalesce", "current_setting", "nullif", "octet_length", "set_config"})


def may_gather(sql: str) -> bool:
    """Return True if the text may contain an aggregating call: each has `agg` in its name, or is ARRAY."""
    text = sql.lower()
    return "agg" in text or "array" in text


def bound_gathering(root: exp.Expr) -> frozenset[str]:
    """Add the conditions to a checked tree, in place. Return the added functions."""
    calls = [node for node in root.find_all(exp.Anonymous, exp.Array) if _gathers(node)]
    if any(_levels(node) > _MAX_LEVELS for node in calls):
        refuse(
            "size",
            f"aggregates of values are nested more than {_MAX_LEVELS} levels deep",
            "use fewer levels",
        )
    for node in reversed(calls):  # inner calls first: arguments are copied into conditions
        if isinstance(node, exp.Array):
            _bound_array(node)
        else:
            _bound_aggregate(node)
    return _FUNCTIONS if calls else frozenset()


def _levels(node: exp.Expr) -> int:
    levels = 0
    while (above := node.find_ancestor(exp.Anonymous, exp.Array)) is not None:
        levels += _gathers(above)
        node = above
    return levels


def _gathers(node: exp.Expr) -> bool:
    if isinstance(node, exp.Array):
        return len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query)
    return isinstance(node.this, str) and node.this.lower() in _GATHERERS


def _bound_aggregate(node: exp.Expr) -> None:
    values = [value for argument in node.expressions for value in _values(argument)]
    condition = _condition(values, _RANGE_OVERHEAD if node.name.lower() == _RANGES else _OVERHEAD)
    around = node.parent
    if isinstance(around, exp.Filter):
        where = around.expression
        kept = exp.Case(ifs=[exp.If(this=where.this, true=condition)], default=exp.false())
        where.set("this", kept)  # CASE: rows that FILTER excludes are not counted
        return
    node.replace(exp.Filter(this=node.copy(), expression=exp.Where(this=condition)))


def _values(argument: exp.Expr) -> list[exp.Expr]:
    """Return the values of an argument, without its ORDER BY."""
    while isinstance(argument, exp.Order):
        argument = argument.this
    return argument.expressions if isinstance(argument, exp.Distinct) else [argument]


def _bound_array(node: exp.Expr) -> None:
    """Rewrite as `ARRAY(SELECT value FROM (…) AS gathered (value) WHERE …)`: the order of the rows stays."""
    value = exp.column(_VALUE, _ALIAS)
    alias = exp.TableAlias(this=exp.to_identifier(_ALIAS), columns=[exp.to_identifier(_VALUE)])
    inner = node.expressions[0]
    # optimization fence: no row is counted below a join, a set operation or a condition
    if not inner.args.get("offset"):
        inner.set("offset", exp.Offset(expression=exp.Literal.number(0)))
    query = exp.Subquery(this=inner, alias=alias)
    bounded = exp.Select(
        expressions=[value], from_=exp.From(this=query), where=exp.Where(this=_condition([value.copy()]))
    )
    node.set("expressions", [bounded])


def _condition(values: list[exp.Expr], overhead: int = _OVERHEAD) -> exp.Expr:
    """Return a condition that adds the size of the values to the setting. It is true, and fails if the sum is too large."""
    before = _call("nullif", _call("current_setting", _name(), exp.true()), exp.Literal.string(""))
    so_far = _cast(_call("coalesce", before, exp.Literal.string("0")), exp.DType.BIGINT)
    size: exp.Expr = exp.Add(this=so_far, expression=exp.Literal.number(overhead))
    for value in values:
        length = _call("octet_length", _cast(value.copy(), exp.DType.TEXT))
        size = exp.Add(this=size, expression=_call("coalesce", length, exp.Literal.number(0)))
    total = _cast(_set(_cast(size, exp.DType.TEXT)), exp.DType.BIGINT)
    too_large = exp.GT(this=total, expression=exp.Literal.number(MAX_GATHERED))
    return exp.Case(ifs=[exp.If(this=too_large, true=_cast(_set(_name()), exp.DType.BOOLEAN))], default=exp.true())


def _set(value: exp.Expr) -> exp.Expr:
    return _call("set_config", _name(), value, exp.true())


def _name() -> exp.Expr:
    return exp.Literal.string(GATHERED_SETTING)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=CALL + name, expressions=[*arguments])


def _cast(value: exp.Expr, kind: exp.DType) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType(this=kind, nested=False))
