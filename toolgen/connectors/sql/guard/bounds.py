"""Bound on a value of a statement: its size, and the resources of one computation of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from sqlglot import exp

from toolgen.connectors.sql.dialects.computed_counts import bounded_count
from toolgen.connectors.sql.guard.placeholders import CALL

__all__ = [
    "GATHERED",
    "MAX_DIGITS",
    "MAX_GATHERED",
    "NUMBER",
    "Bound",
    "Bounds",
    "argument",
    "bare",
    "called_name",
    "digits_of",
    "is_negative",
    "is_smallest",
    "megabytes",
    "narrowed",
    "seconds",
    "subtracts_numbers",
    "written_number",
]

NUMBER: Final = 40
"""Bytes of an ordinary number or date."""
MAX_DIGITS: Final = 147_455
"""https://www.postgresql.org/docs/current/datatype-numeric.html#DATATYPE-NUMERIC-TABLE"""
GATHERED: Final = 100_000
"""Minimum bytes that are assumed for a value aggregated from rows."""
MAX_GATHERED: Final = 10
"""Assumed number of values of maximum size in one aggregated value: the engine can be interrupted between rows."""
_UNKNOWN: Final = 20_000.0  # assumed for a number without a bound


class Bound(NamedTuple):
    """Bound on a value: its bytes, and the work and memory of one computation of it, in nanoseconds and bytes.

    `depth`: nested brackets in it. `large`: aggregated from rows, with a bound during aggregation. `digits`: digits of the numbers with an
    exponent in a text, written out. `json`: a document. `built`: computed by the statement, not a stored value. `element`: size of the
    largest value in an aggregated list; negative if unknown. `fixed`: a number of a type with a fixed size. `wild`: the statement or a
    parameter may have inserted a sign of LIKE, `%`, `_` or a backslash.
    """

    size: float
    work: float = 0.0
    memory: float = 0.0
    depth: int = 0
    large: bool = False
    digits: float = 0.0
    json: bool = False
    built: bool = True
    element: float = -1.0
    fixed: bool = False
    wild: bool = False

    def merged(self, other: Bound) -> Bound:
        """Return the larger bound in each respect."""
        return Bound(
            max(self.size, other.size),
            max(self.work, other.work),
            max(self.memory, other.memory),
            max(self.depth, other.depth),
            self.large or other.large,
            max(self.digits, other.digits),
            self.json or other.json,
            self.built or other.built,
            max(self.element, other.element) if min(self.element, other.element) >= 0 else -1.0,
            self.fixed and other.fixed,
            self.wild or other.wild,
        )


Bounds: TypeAlias = Sequence[Bound]


def digits_of(node: exp.Expr) -> int:
    """Count the digits of a number; a number like `1e1000` counts with its exponent written out."""
    mantissa, _, exponent = node.name.lower().partition("e")
    return len(mantissa) + (int(exponent.lstrip("+-")[:9] or 0) if exponent.lstrip("+-").isdigit() else 0)


def argument(node: exp.Expr, place: int) -> exp.Expr | None:
    arguments = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
    return arguments[place] if place < len(arguments) else None


_HOLDERS: Final = (exp.Paren, exp.Filter, exp.Window, exp.Alias)
_FIXED: Final = frozenset(
    {
        *(exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.UINT, exp.DType.UBIGINT),
        *(
            exp.DType.FLOAT,
            exp.DType.DOUBLE,
            exp.DType.BOOLEAN,
            exp.DType.DATE,
            exp.DType.TIMESTAMP,
            exp.DType.TIMESTAMPTZ,
        ),
    }
)
_OF_FIXED: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.Case, exp.If)
"""What has a number of a fixed size if all of its operands are such numbers; engines fail where it does not fit."""
_LISTING: Final = frozenset({"array_agg", "range_agg", "range_intersect_agg"})
_LIMITS: Final = frozenset({"lower", "unnest", "upper"})  # functions that return elements of a range
_NUMBERS: Final = _FIXED | {exp.DType.DECIMAL}


def narrowed(node: exp.Expr, value: Bound, values: Bounds) -> Bound:
    """Return the bound on a computed value by its kind: one of the values that `array_agg` aggregated, or a number converted from text."""
    if not values:
        return value
    if isinstance(node, _OF_FIXED) and all(one.fixed for one in values):
        return value._replace(size=NUMBER, fixed=True)
    first = values[0]
    name = called_name(node)
    if name in _LISTING:
        return value if first.large else value._replace(element=first.size)
    if (name in _LIMITS or isinstance(node, exp.Unnest)) and first.element >= 0:
        return value._replace(size=first.element, large=False)
    if isinstance(node, _HOLDERS):
        return value._replace(element=first.element, fixed=first.fixed)
    if isinstance(node, exp.Bracket):
        taken = len(node.expressions) == 1 and not isinstance(node.expressions[0], exp.Slice) and first.element >= 0
        return value._replace(size=first.element, large=any(one.large for one in values[1:])) if taken else value
    if isinstance(node, exp.Cast) and node.to.this in _FIXED:
        return value._replace(size=NUMBER if value.large else value.size, large=False, fixed=True)
    if isinstance(node, exp.Cast) and value.large and node.to.this is exp.DType.DECIMAL:
        return value._replace(size=min(value.size, MAX_DIGITS), large=False)
    return value


def subtracts_numbers(node: exp.Expr) -> bool:
    """Return True if one side of a minus is converted to a number: it does not remove keys from a document."""
    return isinstance(node, exp.Sub) and any(
        isinstance(side, exp.Cast) and side.to.this in _NUMBERS for side in (node.this, node.expression)
    )


def bare(node: exp.Expr | None) -> exp.Expr | None:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    return node


def written_number(node: exp.Expr | None) -> float:
    """Return the number of a literal, or the largest value of a bounded expression; a large assumed number for any other."""
    if node is None:
        return 1
    if is_smallest(node):  # `least(level, 100)`
        return min(map(written_number, node.expressions), default=1)
    if is_negative(node):
        return 1
    if (largest := bounded_count(node)) > 0:
        return largest
    digits = node.name.partition(".")[0] if isinstance(node, exp.Literal) else ""
    return int(digits[:9]) if digits.isdigit() else _UNKNOWN


def is_negative(node: exp.Expr) -> bool:
    """Return True if a value is a number with a minus before it. `-(0 - n)` does not count: its value may be positive."""
    return isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string


def is_smallest(node: exp.Expr) -> bool:
    """Return True if a value is the smallest of several values of a row: `least(n, 100)`, and `min(n, 100)` in SQLite."""
    name = called_name(node)
    return name == "least" or (name == "min" and len(node.expressions) > 1)


def called_name(node: exp.Expr) -> str:
    name = node.this if isinstance(node, exp.Anonymous) else None
    return name[len(CALL) :].lower() if isinstance(name, str) and name.startswith(CALL) else ""


def megabytes(size: float) -> str:
    """Return bytes as text."""
    return f"{size / 1e6:,.0f} MB" if size < 1e12 else "more than 1,000,000 MB"


def seconds(work: float) -> str:
    """Return nanoseconds as text."""
    return f"{work / 1e9:,.1f} s" if work < 1e14 else "more than 100,000 s"
