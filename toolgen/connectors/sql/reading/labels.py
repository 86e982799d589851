"""Possible values of a column: from a type with a list of values, and from checks such as `status IN ('open', 'paid')`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sqlglot
from msgspec.structs import replace
from sqlglot import exp

from toolgen.model.database import Column, DialectName

__all__ = ["enum_labels", "with_labels"]

_LISTING = re.compile(r"(?:enum|set)\(", re.IGNORECASE)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_MAX_LABELS = 200
_MAX_CHECK_LENGTH = 20_000
_Values = tuple[str, tuple[str, ...]]


def enum_labels(declared: str) -> tuple[str, ...]:
    """Return the labels of a type that lists them: `enum('a','b')`, or `set('a','b')`, whose values combine several."""
    if _LISTING.match(declared) is None:
        return ()
    return tuple(label.replace("''", "'") for label in _LABEL.findall(declared)[:_MAX_LABELS])


def with_labels(columns: Iterable[Column], checks: Iterable[str], dialect: DialectName) -> tuple[Column, ...]:
    """Return the columns; a column without listed values in its type gets those that a check of its table allows."""
    found: dict[str, tuple[str, ...]] = {}
    for text in checks:
        if "'" in text and len(text) <= _MAX_CHECK_LENGTH:
            for name, labels in _allowed(text, dialect):
                found.setdefault(name.lower(), labels[:_MAX_LABELS])
    return tuple(
        replace(one, labels=found[one.name.lower()]) if not one.labels and one.name.lower() in found else one
        for one in columns
    )


def _allowed(text: str, dialect: DialectName) -> Iterator[_Values]:
    """Yield column and values of each part of a check that must hold and lists texts for only one column."""
    try:
        parsed = sqlglot.parse_one(text, dialect=dialect)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return
    parts = [parsed]
    while parts:
        part = parts.pop().unnest()
        if isinstance(part, exp.And):
            parts += [part.right, part.left]
        elif (listed := _listed(part)) is not None and listed[1]:
            yield listed


def _listed(part: exp.Expr) -> _Values | None:
    """Return column and values of `c IN ('a', 'b')`, `c = ANY (ARRAY['a', 'b'])`, `c = 'a'`, `c IS NULL`, and an OR of these for the
    same column.
    """
    part = part.unnest()
    match part:
        case exp.Or():
            left, right = _listed(part.left), _listed(part.right)
            if left is None or right is None or left[0].lower() != right[0].lower():
                return None
            return left[0], tuple(dict.fromkeys((*left[1], *right[1])))
        case exp.In() if part.expressions:
            return _named(part.this, part.expressions)
        case exp.EQ(args={"expression": exp.Any(this=inside)}):
            array = _bare(inside)
            return _named(part.this, array.expressions) if isinstance(array, exp.Array) else None
        case exp.EQ():
            return _named(part.this, [part.expression])
        case exp.Is(args={"expression": exp.Null()}):
            return _named(part.this, [])
        case _:
            return None


def _named(column: exp.Expr, values: Iterable[exp.Expr]) -> _Values | None:
    column, texts = _bare(column), [_bare(one) for one in values]
    if not isinstance(column, exp.Column) or not all(isinstance(one, exp.Literal) and one.is_string for one in texts):
        return None
    return column.name, tuple(dict.fromkeys(one.name for one in texts))


def _bare(node: exp.Expr) -> exp.Expr:
    """Remove brackets, casts and character set names, which servers add to checks, from an expression."""
    while isinstance(node, (exp.Paren, exp.Cast, exp.Introducer)):
        node = node.expression if isinstance(node, exp.Introducer) else node.this
    return node
