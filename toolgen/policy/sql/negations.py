"""`a = b NOT IN (1, 2)` is `(a = b) NOT IN (1, 2)` to SQLite and MySQL, and `a = (b NOT IN (1, 2))` to others and to our parser.

The tree does not say where NOT stood, so it could only be written out as one of the two: beside another operator it needs parentheses.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from toolgen.policy.sql.refusal import refuse

__all__ = ["check_negations"]

_TESTS: Final = (exp.In, exp.Between, exp.Like, exp.ILike, exp.Glob, exp.Is, exp.RegexpLike, exp.SimilarTo, exp.Escape)
_TIGHTER: Final = (exp.Binary, exp.Neg, exp.BitwiseNot, exp.In, exp.Between)
_LOOSER: Final = (exp.Connector, exp.Filter, exp.PropertyEQ)


def check_negations(root: exp.Expr) -> None:
    """Raises `Refusal`, rule `syntax`."""
    for negation in root.find_all(exp.Not):
        around = negation.parent
        if isinstance(negation.this, _TESTS) and isinstance(around, _TIGHTER) and not isinstance(around, _LOOSER):
            refuse(
                "syntax",
                "NOT IN, NOT BETWEEN or IS NOT stands beside another operator, which engines read differently",
                "put parentheses around it: a = (b NOT IN (1, 2))",
            )
