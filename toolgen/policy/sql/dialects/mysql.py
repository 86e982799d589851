"""MySQL and MariaDB."""

from __future__ import annotations

from functools import partial
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from toolgen.policy.sql.dialects.record import Dialect, TokenRewrite, TreeRewrite, words
from toolgen.policy.sql.dialects.reserved_names import quote_reserved_names
from toolgen.policy.sql.dialects.token_rewrites import enclose_interval_values
from toolgen.policy.sql.marks import CALL

__all__ = ["MYSQL"]

# https://dev.mysql.com/doc/refman/8.4/en/expressions.html#temporal-intervals
_UNITS: Final = words(
    """
    MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR SECOND_MICROSECOND MINUTE_MICROSECOND MINUTE_SECOND HOUR_MICROSECOND
    HOUR_SECOND HOUR_MINUTE DAY_MICROSECOND DAY_SECOND DAY_MINUTE DAY_HOUR YEAR_MONTH
    """
)


def _restore_values(root: exp.Expr) -> None:
    """Makes an interval without a unit the value or the call that it is.

    The parser reads `INTERVAL 1 DAY + '2024-01-31'` as a sum of two intervals, and the function `INTERVAL(n, 1, 10)` as an interval.
    """
    for interval in list(root.find_all(exp.Interval)):
        value = interval.this
        if interval.args.get("unit") is not None:
            continue
        if isinstance(value, exp.Tuple):
            value = exp.Anonymous(this=f"{CALL}INTERVAL", expressions=value.expressions)
        interval.replace(value)


MYSQL: Final = Dialect(
    name="mysql",
    engine="MySQL",
    functions=frozenset({"percentile_cont", "percentile_disc", "row"}),
    interval_units=_UNITS,
    token_rewrites=(TokenRewrite(TokenType.INTERVAL, partial(enclose_interval_values, units=_UNITS)),),
    tree_rewrites=(
        TreeRewrite((exp.Interval,), _restore_values),
        TreeRewrite((exp.Identifier,), quote_reserved_names("mysql"), makes_nodes=False),
    ),
)
