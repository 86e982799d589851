"""Sizes of columns of a recursive query, in an engine that types them by the first query and fails for longer values.

https://mariadb.com/kb/en/recursive-common-table-expressions-overview/#cast-to-avoid-data-truncation
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.guard.bounds import NUMBER
from toolgen.connectors.sql.guard.column_names import computed_title

__all__ = ["first_sizes"]

_MAX_LENGTH: Final = 16_000  # characters of a type; a longer one becomes a TEXT, which holds more
_MAX_DIGITS: Final = len(str(_MAX_LENGTH))
_CHARACTER: Final = 4  # bytes
_TEXTS: Final = (exp.DType.CHAR, exp.DType.VARCHAR, exp.DType.NCHAR)


def first_sizes(cte: exp.Expr) -> Mapping[str, float]:
    """Return the bytes of the columns with an explicit type in the first query, by their names in lower case."""
    query, others = cte.this.this, cte.this.expression
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select) or others.find(exp.SetOperation) is not None:
        return {}  # several first queries determine their types together
    renamed = [column.name.lower() for column in cte.args["alias"].args.get("columns") or ()]
    found: dict[str, float] = {}
    for place, item in enumerate(query.expressions):
        length = _length(item.unalias())
        if length and not (renamed and place >= len(renamed)):
            name = renamed[place] if renamed else computed_title(item).lower()
            found[name] = max(found.get(name, 0.0), float(length * _CHARACTER + NUMBER))
    return found


def _length(value: exp.Expr) -> int:
    """Return the characters of the type that a value is converted to; 0 for any other value."""
    if isinstance(value, exp.Cast) and value.to.this in _TEXTS and len(value.to.expressions) == 1:
        written = value.to.expressions[0].name
        return int(written) if written.isdigit() and len(written) <= _MAX_DIGITS and int(written) <= _MAX_LENGTH else 0
    return 0
