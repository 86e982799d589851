"""Rules for the size of the results of functions and operators, by the sizes of their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from math import inf, prod
from types import MappingProxyType
from typing import Final, NamedTuple

from sqlglot import exp

from toolgen.connectors.sql.dialects.costs import Cost, Result
from toolgen.connectors.sql.dialects.duckdb_series import MAX_ELEMENTS, is_bounded_series
from toolgen.connectors.sql.guard.bounds import (
    GATHERED,
    MAX_DIGITS,
    MAX_GATHERED,
    NUMBER,
    Bounds,
    argument,
    bare,
    called_name,
    written_number,
)
from toolgen.connectors.sql.guard.placeholders import slot_number
from toolgen.connectors.sql.guard.refusal import refuse, shown

__all__ = ["DECIMAL", "RESULT_SIZES", "Arguments", "gathered_size", "series_length"]

_SCALAR: Final = 100  # bytes
_EXPONENT: Final = 10_000  # largest exponent that is assumed for a column
_SCALE: Final = 1_000  # maximum digits after the point of a logarithm or an exponential
_SERIES: Final = 100_000
_TAGS: Final = 20  # bytes around a found word, if the statement gives no options for the tags
_WIDE: Final = 200_000
_MANY: Final = 1_000
_ASSUMED_DEPTH: Final = 50  # depth of a document in a column
_MAX_WIDTH: Final = 1_000
_ARGUMENT_WIDTH: Final = 262_144  # width of `%*d`, if the session limits values
_INTEGER: Final = re.compile(r"[0-9]+")
_Type = exp.DType
DECIMAL: Final = frozenset({_Type.DECIMAL, _Type.UDECIMAL})
"""Types of numbers with any number of digits."""


class Arguments(NamedTuple):
    """Function or operator with the bounds of its arguments."""

    node: exp.Expr
    cost: Cost
    values: Bounds
    sizes: Sequence[float]
    rows: float = 1.0  # rows of the enclosing query

    def size(self, place: int) -> float:
        return self.sizes[place] if place < len(self.sizes) else 0.0

    @property
    def number(self) -> float:
        return written_number(argument(self.node, self.cost.count))


def _one(call: Arguments) -> float:
    return max(call.sizes, default=0.0)


_OF_ONE: Final = frozenset({"max", "min"})


def _top(call: Arguments) -> float:
    """Return the size of `max(x, 3)` and `arg_max(x, y, 3)`: a list of values of several rows."""
    places = 1 if called_name(call.node) in _OF_ONE else 2
    counted = len(call.sizes) > places
    return max(call.sizes[:places], default=0.0) * (written_number(argument(call.node, places)) if counted else 1)


def _bits(call: Arguments) -> float:
    """Return the size of `bitstring_agg(x, 1, 100)`; without numbers, those of the table's statistics, up to a limit of the engine."""
    bounds = [written_number(bare(argument(call.node, place))) for place in range(1, len(call.sizes))]
    return sum(bounds) / 8 + NUMBER


def _sum(call: Arguments) -> float:
    return sum(call.sizes) + (0 if isinstance(call.node, exp.DPipe) else NUMBER)


def _pad(call: Arguments) -> float:
    return max(call.size(0), min(call.number, MAX_DIGITS))


_STEPS_A_DAY: Final = MappingProxyType(
    {
        "DAY": 1,
        "WEEK": 1,
        "MONTH": 1,
        "QUARTER": 1,
        "YEAR": 1,
        "HOUR": 24,
        "MINUTE": 1_440,
        "SECOND": 86_400,
        "MILLISECOND": 86_400_000,
        "MICROSECOND": 86_400_000_000,
    }
)
_INTERVAL: Final = re.compile(r"\s*[1-9][0-9]{0,5}\s*([a-zA-Z]+?)S?\s*\Z", re.IGNORECASE)


def _days(arguments: Sequence[exp.Expr]) -> float | None:
    """Return the largest number of elements of a series of literal dates; None for any other series."""
    if len(arguments) != 3:
        return None
    first, last = map(_written_date, arguments[:2])
    step = _steps_a_day(arguments[2])
    if first is None or last is None or not step:
        return None
    return float((abs((last - first).days) + 2) * step)


def _written_date(node: exp.Expr) -> date | None:
    text = bare(node)
    if not (isinstance(text, exp.Literal) and text.is_string):
        return None
    try:
        return date.fromisoformat(text.name[:10])
    except ValueError:
        return None


def _steps_a_day(node: exp.Expr) -> int:
    """Return the steps per day of a literal interval, if there are few; else 0."""
    inner = bare(node)
    if isinstance(inner, exp.Interval):
        number, unit = bare(inner.this), inner.args.get("unit")
        text = f"{number.name if number is not None else ''} {unit.name if unit is not None else ''}"
    else:
        text = inner.name if isinstance(inner, exp.Literal) and inner.is_string else ""
    found = _INTERVAL.match(text)
    return _STEPS_A_DAY.get(found[1].upper(), 0) if found is not None else 0


def _series(call: Arguments) -> float:
    arguments = call.node.expressions
    if isinstance(call.node.parent, (exp.Table, exp.Lateral)):
        return NUMBER / call.cost.factor  # rows, one after the other
    if (days := _days(arguments)) is not None:
        return days
    if is_bounded_series(call.node):
        return MAX_ELEMENTS
    if call.cost.count == 1 and arguments and isinstance(bare(arguments[-1]), exp.Literal):
        return min(written_number(arguments[min(1, len(arguments) - 1)]), _SERIES)
    return min(call.number, _SERIES) if call.cost.count != 1 else _SERIES


def _replaced(call: Arguments) -> float:
    if len(call.sizes) < 3:
        return call.size(0)
    sought = call.sizes[1] if isinstance(call.node.expressions[1], exp.Literal) else 1
    return call.sizes[0] * max(1, -(-call.sizes[2] // max(1, sought)))


def _inserted(call: Arguments) -> float:
    return call.size(0) * (1 + call.size(2)) + call.size(2)


def _wrapped(call: Arguments) -> float:
    last = bare(argument(call.node, len(call.sizes) - 1))
    is_query = last is None or called_name(last).endswith("tsquery") or len(call.sizes) < 3
    return max(call.sizes, default=0) * (1 + (_TAGS if is_query else call.sizes[-1]))


def _join_rest(call: Arguments) -> float:
    return sum(call.sizes) + call.size(0) * len(call.sizes)


def _template(call: Arguments) -> float:
    """Return the size of a formatted text: https://www.postgresql.org/docs/current/functions-string.html#FUNCTIONS-STRING-FORMAT, and
    fmt's format in DuckDB and MariaDB.
    """
    name = called_name(call.node)
    template = call.node.expressions[0] if call.node.expressions else None
    if not isinstance(template, exp.Literal) or not template.is_string:
        refuse("size", f"the template of {shown(name)} must be a literal", "write the template as a string")
    text = template.name
    if any(int(number[:9]) > _MAX_WIDTH for number in _INTEGER.findall(text)) or re.search(r"\{[^}]*\{", text):
        refuse(
            "size",
            f"a width in the template of {shown(name)} is not a number up to {_MAX_WIDTH}",
            "write the width as a number, or indent with substr('          ', 1, n) in place of *",
        )
    width = _ARGUMENT_WIDTH if "*" in text else max((int(number) for number in _INTEGER.findall(text)), default=0)
    places = text.count("%") + text.count("{")
    return len(text) + places * (2 * max(call.sizes[1:], default=0) + 4 * width + NUMBER)


def _mapped(call: Arguments) -> float:
    listed, made = call.size(0), max(call.sizes[1:], default=0)
    if isinstance(call.node, exp.Comprehension):  # [made FOR name IN listed]
        made, listed = call.size(0), call.size(2)
    return (listed / 8 + 1) * (made + 8)


def gathered_size(values: Bounds, rows: float) -> float:
    """Return the bytes of an aggregated value. A value larger than any column, and not aggregated itself, is assumed to come from many
    rows.
    """
    size = sum(value.size for value in values)
    wide = size > _WIDE and not any(value.large for value in values)
    return max(GATHERED, max(_MANY if wide else MAX_GATHERED, rows) * size)


def series_length(call: exp.Expr) -> float:
    """Return the number of rows of a function in FROM, if it has a literal number."""
    if called_name(call) not in {"generate_series", "range"}:
        return 1.0
    numbers = [written_number(bare(one)) for one in call.expressions if isinstance(bare(one), exp.Literal)]
    return min(max(numbers, default=1.0), _SERIES)


def _gathered(call: Arguments) -> float:
    return gathered_size(call.values, call.rows)


def _document(call: Arguments) -> float:
    """Return the size of a document. A text in it is quoted, and so are its existing quotes: \\u0001 has six bytes."""
    return sum(size if value.json else 6 * size for value, size in zip(call.values, call.sizes, strict=True)) + NUMBER


def _json(call: Arguments) -> float:
    return sum(call.sizes)


def _indented(call: Arguments) -> float:
    depth = max((value.depth for value in call.values), default=0) or _ASSUMED_DEPTH
    return call.size(0) * (2 + 2 * depth)


def _power(call: Arguments) -> float:
    """Return the size of a power: the maximum digits of a number in PostgreSQL, unless its exponent is certainly small."""
    node = call.node
    exponent = node.expression if isinstance(node, exp.Pow) else node.expressions[-1] if node.expressions else None
    while isinstance(exponent, exp.Paren):
        exponent = exponent.this
    total = sum(call.sizes)
    if isinstance(exponent, exp.Div) and isinstance(exponent.this, exp.Literal):
        return total  # a root: `1.0 / n`
    if len(call.sizes) == 1 and isinstance(exponent, exp.Literal):  # `exp(1)`
        return min(MAX_DIGITS, total + _SCALE + written_number(exponent))
    if len(call.sizes) == 1 and isinstance(exponent, exp.Column) and not call.values[0].built:
        return _EXPONENT
    if len(call.sizes) > 1 and isinstance(exponent, exp.Literal):
        return min(MAX_DIGITS, call.sizes[0] * max(1, written_number(exponent)))
    if (
        len(call.sizes) > 1
        and isinstance(exponent, exp.Column)
        and slot_number(exponent) is None
        and not call.values[-1].built
    ):
        return min(MAX_DIGITS, call.sizes[0] * _EXPONENT)
    return MAX_DIGITS


_MAX_FACTORIAL: Final = 1_023  # as in a bounded count of `computed_counts.py`
_MAX_FILLED: Final = 10_000  # elements


def _factorial(call: Arguments) -> float:
    """Return the size of a factorial: at most four digits for each number up to 10,000."""
    if call.number > _MAX_FACTORIAL:
        refuse("size", f"the factorial of a number beyond {_MAX_FACTORIAL}", "write factorial(least(n, 1000)) or less")
    return 4 * call.number + NUMBER


def _filled(call: Arguments) -> float:
    """Return the size of `array_fill(x, ARRAY[2, 3])` with literal sizes."""
    sizes = bare(argument(call.node, 1))
    counts = [written_number(bare(size)) for size in sizes.expressions] if isinstance(sizes, exp.Array) else [inf]
    if prod(counts) > _MAX_FILLED:
        refuse(
            "size",
            f"the sizes of array_fill are not literal numbers with {_MAX_FILLED:,} elements at most",
            "write array_fill(0, ARRAY[10]), or ARRAY(SELECT 0 FROM generate_series(1, n))",
        )
    return (call.size(0) + NUMBER) * prod(counts)


def _cast(call: Arguments) -> float:
    kind = call.node.args["to"]
    numbers = [written_number(size.this) for size in kind.find_all(exp.DataTypeParam)]
    if kind.this in DECIMAL and numbers:
        return numbers[0]
    grown = 2 if kind.this in {_Type.VARBINARY, _Type.BINARY} else 8 if kind.this is _Type.ARRAY else 1
    return max(call.size(0) * grown, *numbers, 1.0)


RESULT_SIZES: Final[Mapping[Result, Callable[[Arguments], float]]] = MappingProxyType(
    {
        "scalar": lambda _: _SCALAR,
        "digest": lambda _: _SCALAR,
        "one": _one,
        "top": _top,
        "bits": _bits,
        "sum": _sum,
        "repeat": lambda call: call.size(0) * call.number,
        "pad": _pad,
        "space": lambda call: call.number,
        "series": _series,
        "replace": _replaced,
        "insert": _inserted,
        "wrap": _wrapped,
        "join": lambda call: call.size(0) * (1 + call.size(1) + call.size(2)),
        "join_rest": _join_rest,
        "template": _template,
        "map": _mapped,
        "filter": _mapped,
        "gather": _gathered,
        "collect": _gathered,
        "document": _document,
        "json": _json,
        "indent": _indented,
        "power": _power,
        "factorial": _factorial,
        "fill": _filled,
        "cast": _cast,
    }
)
"""Rules by their names."""
