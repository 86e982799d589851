"""WHERE clause of a change under a row filter: the caller's condition is evaluated only for rows that the filter permits."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from toolgen.connectors.sql.guard.identifiers import NameRules, fold_column
from toolgen.connectors.sql.guard.placeholders import slot_number
from toolgen.model.database import DialectName, Table

__all__ = ["conjunction", "narrowed"]

_WHOLE_NUMBER = re.compile(r"(tiny|small|medium|big)?int(eger|[248])?\b", re.IGNORECASE)


def narrowed(asked: exp.Expr, condition: exp.Expr, table: Table, dialect: DialectName) -> exp.Expr:
    """Return `asked` evaluated only for the rows of `condition`.

    Engines evaluate the terms of an AND in any order, and an error (`1 / (n - 5)`, a cast) would reveal hidden rows; the order of a CASE is
    fixed. Only a term that cannot fail, a key of integers compared with values, stays outside of the CASE, so that the key's index is used
    and only the intended rows are read and locked.
    """
    keys = _keys(table, dialect)
    terms = list(asked.flatten()) if isinstance(asked, exp.And) else [asked]
    plain = [term for term in terms if _cannot_fail(term, keys, NameRules(dialect))]
    rest = [term for term in terms if term not in plain]
    found = [*plain, condition]
    if rest:
        found.append(exp.Case(ifs=[exp.If(this=condition.copy(), true=conjunction(rest))]))
    return conjunction(found)


def conjunction(terms: Sequence[exp.Expr]) -> exp.Expr:
    joined = terms[0].copy() if len(terms) == 1 else _closed(terms[0])
    for term in terms[1:]:
        joined = exp.And(this=joined, expression=_closed(term))
    return joined


def _closed(term: exp.Expr) -> exp.Expr:
    return term.copy() if isinstance(term, (exp.Paren, exp.Case)) else exp.Paren(this=term.copy())


def _keys(table: Table, dialect: DialectName) -> frozenset[str]:
    return frozenset(
        fold_column(dialect, column.name, quoted=True)
        for column in table.columns
        if column.name in table.primary_key and _WHOLE_NUMBER.match(column.type)
    )


def _cannot_fail(term: exp.Expr, keys: frozenset[str], spelling: NameRules) -> bool:
    match term.unnest():
        case exp.EQ(this=column, expression=value):
            values = [value]
        case exp.In(this=column, expressions=values) as one if not any(
            given for name, given in one.args.items() if name not in {"this", "expressions"}
        ):
            pass
        case _:
            return False
    return (
        isinstance(column, exp.Column)
        and isinstance(column.this, exp.Identifier)
        and slot_number(column) is None
        and spelling.column(column) in keys
        and all(map(_is_number, values))
    )


def _is_number(value: exp.Expr) -> bool:
    """Return True for an integer literal or a parameter."""
    if isinstance(value, exp.Column):
        return slot_number(value) is not None
    return isinstance(value, exp.Literal) and value.is_int
