"""Computed counts: `repeat('#', n)` gets a bound that the engine checks during execution.

A computed count could be any number, and the engine would immediately make a text of that length. The count is replaced by an expression
with the same value up to about 1,000 and an error above: an error instead of a large text, and never another text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.guard.marks import CALL

__all__ = ["MYSQL_COUNTS", "SMALL_COUNTS", "CountForm", "bound_counts", "bounded_count"]

_PLACES: Final = MappingProxyType({f"{CALL}repeat": 1, f"{CALL}lpad": 1, f"{CALL}rpad": 1, f"{CALL}space": 0})
_Wrap = Callable[[exp.Expr], exp.Expr]


class CountForm(Struct, frozen=True, kw_only=True):
    """Form of a bounded count in one dialect: `wrap` builds it, and its count is multiplied with `number` and divided by it.

    The product fits into the type up to `largest`. `places` are the positions of counts by the names of functions.
    """

    number: str
    largest: int
    wrap: _Wrap
    places: Mapping[str, int] = _PLACES


def _small(count: exp.Expr) -> exp.Cast:
    """Return `(n * 32)::smallint`, which is out of range for n beyond 1,023."""
    product = exp.Mul(this=count, expression=exp.Literal.number(32))
    return exp.Cast(this=exp.Paren(this=product), to=exp.DataType(this=exp.DType.SMALLINT, nested=False))


def _small_in_postgres(count: exp.Expr) -> exp.Expr:
    return exp.Div(this=_small(exp.Paren(this=count)), expression=exp.Literal.number(32), typed=True, safe=False)


def _small_in_duckdb(count: exp.Expr) -> exp.Expr:
    """Return the count with a cast, because DuckDB multiplies a small type with a number in that type."""
    whole = exp.Cast(this=count, to=exp.DataType(this=exp.DType.BIGINT, nested=False))
    return exp.IntDiv(this=_small(whole), expression=exp.Literal.number(32))


_LARGE: Final = "9223372036854775"


def _product(count: exp.Expr) -> exp.Expr:
    """Return `CAST(n AS SIGNED) * 9223372036854775 DIV 9223372036854775`, which is out of range for n beyond 1,000."""
    whole = exp.Cast(this=count, to=exp.DataType(this=exp.DType.BIGINT, nested=False))
    product = exp.Mul(this=whole, expression=exp.Literal.number(_LARGE))
    return exp.IntDiv(this=product, expression=exp.Literal.number(_LARGE))


SMALL_COUNTS: Final = MappingProxyType(
    {
        "postgres": CountForm(
            number="32", largest=1_023, wrap=_small_in_postgres, places={**_PLACES, f"{CALL}factorial": 0}
        ),
        "duckdb": CountForm(number="32", largest=1_023, wrap=_small_in_duckdb),
    }
)
"""Counts of PostgreSQL and DuckDB, whose casts fail for an overflow."""
MYSQL_COUNTS: Final = CountForm(number=_LARGE, largest=1_000, wrap=_product)
"""Counts of MySQL and MariaDB, whose products fail for more than 64 bits."""


def bound_counts(form: CountForm) -> Callable[[exp.Expr], None]:
    """Return the rewrite that bounds each count of a tree, except numbers, placeholders and bounded counts."""

    def rewrite(root: exp.Expr) -> None:
        for call in list(root.find_all(exp.Anonymous)):
            place = form.places.get(str(call.this).lower())
            if place is None or place >= len(call.expressions):
                continue
            count = call.expressions[place]
            if _is_computed(count) and not bounded_count(count):
                count.replace(form.wrap(count.copy()))

    return rewrite


def _is_computed(count: exp.Expr) -> bool:
    """Return True if a count must be computed: not a number, not a negative number, and not the smallest of several numbers."""
    if isinstance(count, exp.Anonymous):
        return str(count.this).lower() != f"{CALL}least"
    negative = isinstance(count, exp.Neg) and isinstance(count.this, exp.Literal)
    return not negative and not isinstance(count, (exp.Literal, exp.Null))


def bounded_count(count: exp.Expr | None) -> int:
    """Return the largest value of a count in a bounded form; 0 for any other expression."""
    if not isinstance(count, (exp.Div, exp.IntDiv)) or not isinstance(count.expression, exp.Literal):
        return 0
    number, product = count.expression.name, count.this
    if isinstance(product, exp.Cast) and product.to.this is exp.DType.SMALLINT and isinstance(product.this, exp.Paren):
        multiplied = product.this.this
        return SMALL_COUNTS["postgres"].largest if number == "32" and _is_multiplied(multiplied, number) else 0
    is_product = _is_multiplied(product, number) and number == _LARGE and isinstance(count, exp.IntDiv)
    whole = is_product and isinstance(product.this, exp.Cast) and product.this.to.this is exp.DType.BIGINT
    return MYSQL_COUNTS.largest if whole else 0


def _is_multiplied(node: exp.Expr, number: str) -> bool:
    return isinstance(node, exp.Mul) and isinstance(node.expression, exp.Literal) and node.expression.name == number
