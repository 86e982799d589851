"""MySQL and MariaDB."""

from __future__ import annotations

from functools import partial
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from toolgen.policy.sql.dialects.mysql_costs import MYSQL_FUNCTIONS, MYSQL_OPERATORS
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


def _replace_before_gathering(root: exp.Expr) -> None:
    """Makes `REPLACE(GROUP_CONCAT(x SEPARATOR ','), ',', ' | ')` a GROUP_CONCAT of replaced values with a replaced separator.

    MariaDB moves the rest of the text at each replacement that is longer than what it replaces, which takes minutes for 1 MB. One
    character is never half of a value and half of a separator, so the answer is the same.
    """
    for call in list(root.find_all(exp.Anonymous)):
        if call.name.lower() != f"{CALL}replace" or len(call.expressions) != 3:
            continue
        gathered, sought, given = call.expressions
        if not (
            isinstance(gathered, exp.GroupConcat) and _is_text(sought) and _is_text(given) and len(sought.name) == 1
        ):
            continue
        ordered = gathered.this if isinstance(gathered.this, exp.Order) else None
        value = ordered.this if ordered is not None else gathered.this
        separator = gathered.args.get("separator")
        if isinstance(value, (exp.Distinct, exp.Concat)) or not (separator is None or _is_text(separator)):
            continue
        between = (separator.name if separator is not None else ",").replace(sought.name, given.name)
        (ordered or gathered).set("this", exp.Anonymous(this=call.this, expressions=[value, sought, given]))
        gathered.set("separator", exp.Literal.string(between))
        call.replace(gathered)


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


MYSQL: Final = Dialect(
    name="mysql",
    engine="MySQL",
    functions=MYSQL_FUNCTIONS,
    operators=MYSQL_OPERATORS,
    uninterruptible=True,
    interval_units=_UNITS,
    token_rewrites=(TokenRewrite(TokenType.INTERVAL, partial(enclose_interval_values, units=_UNITS)),),
    tree_rewrites=(
        TreeRewrite((exp.Interval,), _restore_values),
        TreeRewrite((exp.GroupConcat,), _replace_before_gathering),
        TreeRewrite((exp.Identifier,), quote_reserved_names("mysql"), makes_nodes=False),
    ),
)
