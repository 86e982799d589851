"""Names that the generator quotes, because they are reserved in some version of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from toolgen.connectors.sql.dialects.record import words
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.model.database import DialectName

__all__ = ["quote_reserved_names", "reserved_names"]

# Functions without parentheses, and the table DUAL. Quoted, they are ordinary names.
_FUNCTIONS: Final = words(
    """
    dual current_catalog current_date current_role current_schema current_time current_timestamp current_user localtime localtimestamp
    session_user user utc_date utc_time utc_timestamp
    """
)
# Words that cannot be names in MySQL and MariaDB unless they are quoted or follow a dot.
# https://mariadb.com/kb/en/reserved-words/
_NO_NAMES: Final = {
    "mysql": _FUNCTIONS - {"current_catalog", "current_schema", "dual", "session_user", "user"},
}


def reserved_names(dialect: DialectName) -> frozenset[str]:
    """Return the names that the generator quotes, in lower case."""
    return frozenset(Dialect.get_or_raise(dialect).generator_class.RESERVED_KEYWORDS)


def quote_reserved_names(dialect: DialectName) -> Callable[[exp.Expr], None]:
    """Return a rewrite that quotes such names in the tree: `rank() AS rank` in MariaDB, `x AS at` in DuckDB. Both engines ignore case."""
    reserved = reserved_names(dialect)
    no_names = _NO_NAMES.get(dialect, frozenset())

    def quote(root: exp.Expr) -> None:
        for name in root.find_all(exp.Identifier):
            folded = name.name.lower()
            if folded in no_names and not name.args.get("quoted") and not isinstance(name.parent, exp.Column):
                refuse(
                    "name",
                    f"{shown(name.name)} is a reserved word in the place of a name",
                    f"write it in quotes: `{folded}`",
                )
            if folded in reserved and not name.args.get("quoted") and not (folded in _FUNCTIONS and _is_bare(name)):
                name.set("quoted", True)

    return quote


def _is_bare(name: exp.Expr) -> bool:
    return (
        isinstance(name.parent, (exp.Column, exp.Table))
        and name.parent.this is name
        and not name.parent.args.get("table")
    )
