"""Leakproof statements: conditions that cannot fail for any row, so that engines may evaluate them for rows that a filter hides.

Engines evaluate the conditions on a table in any order. An error of one (`1 / x`, a cast) would reveal hidden rows, so a row filter is a
subquery that no condition is moved into. That also prevents the use of an index. A statement whose conditions all compare columns with
values, other columns or rows of leakproof queries needs no such fence. In any other statement, a comparison of a column with a value is
also evaluated inside of the subquery. PostgreSQL has a similar concept for row security: functions that are LEAKPROOF.
https://www.postgresql.org/docs/current/rules-privileges.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.identifiers import NameRules, fold_column
from toolgen.connectors.sql.guard.placeholders import CALL, slot_number
from toolgen.connectors.sql.guard.relations import Filtered
from toolgen.model.database import Database

__all__ = ["is_leakproof", "key_conditions"]

# Types with built-in comparisons in PostgreSQL that fail for no value.
_PLAIN: Final = re.compile(
    r"(tiny|small|medium|big)?(int|serial)(eger|[248])?\b|(character|char|varchar|varying|text|bpchar|tinytext|mediumtext|longtext)\b"
    r"|(numeric|decimal|real|double|float[48]?)\b|(date|datetime|time|timestamp|timestamptz)\b|bool(ean)?\b|uuid\b|enum\b|$",
    re.IGNORECASE,
)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_STRUCTURE: Final = (
    exp.And, exp.Or, exp.Not, exp.Paren, exp.Is, exp.Null, exp.Boolean, exp.Between, exp.In, exp.Exists, exp.Literal, exp.Identifier,
    exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.From, exp.Join, exp.Where, exp.Table, exp.TableAlias, exp.With,
    exp.CTE, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Distinct, exp.Alias, exp.Star, exp.Tuple,
    exp.Window, exp.WindowSpec, exp.Var,
)  # fmt: skip
# Clauses computed after WHERE, if there is no enclosing query.
_AFTERWARDS: Final = frozenset({"expressions", "order", "group", "distinct", "limit", "offset", "windows"})
_AGGREGATES: Final = frozenset(
    CALL + name for name in ("avg", "count", "max", "min", "sum", "rank", "dense_rank", "row_number", "lag", "lead")
)
_NOW: Final = (exp.CurrentDate, exp.CurrentTimestamp)
_MAX_PATTERN: Final = 200
_STRICT: Final = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)  # never true for NULL


def is_leakproof(root: exp.Expr, database: Database) -> bool:
    """Return True if no condition of the resolved statement can fail for a row, so that row filters need no fence."""
    if not RECORDS[database.dialect].stable_comparisons:
        return False
    return all(_is_safe(part, database) for part in _conditions(root))


def _conditions(root: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts of a statement that an engine may evaluate before a row filter.

    For the outermost query these are all except the select list, groups and order; for an inner query, all parts.
    """
    match root:
        case exp.SetOperation():
            yield from _conditions(root.this)
            yield from _conditions(root.expression)
            yield from _common(root)
        case exp.Subquery():
            yield from _conditions(root.this)
        case exp.Select():
            for name, value in root.args.items():
                for part in value if isinstance(value, list) else [value]:
                    if not isinstance(part, exp.Expr):
                        continue
                    if name in _AFTERWARDS:
                        yield from part.find_all(exp.Query)
                    else:
                        yield part
        case _:
            yield root


def _common(root: exp.Expr) -> Iterator[exp.Expr]:
    if (clause := root.args.get("with_")) is not None:
        yield clause


def _is_safe(part: exp.Expr, database: Database) -> bool:
    stack = [part]
    while stack:
        node = stack.pop()
        match node:
            case exp.Column():
                if not (isinstance(node.this, exp.Star) or slot_number(node) is not None or _is_plain(node, database)):
                    return False
                continue
            case exp.Like():
                if not _is_plain_pattern(node):
                    return False
                stack.append(node.this)
                continue
            case exp.Cast():
                if not _is_date(node):
                    return False
                continue
            case exp.Subquery() if not _is_source(node):
                return False  # a subquery as a value, which fails if it has several rows
            case exp.Anonymous():
                if node.this.lower() not in _AGGREGATES or any(item.find(exp.Anonymous) for item in node.expressions):
                    return False
            case _ if isinstance(node, _NOW):
                continue
            case _ if not isinstance(node, (*_COMPARISONS, *_STRUCTURE)):
                return False
        stack.extend(node.iter_expressions())
    return True


def _is_source(node: exp.Subquery) -> bool:
    """Return True for a query in FROM, IN, EXISTS or a set operation."""
    parent = node.parent
    if isinstance(parent, exp.In):
        return node.arg_key == "query"
    return isinstance(parent, (exp.From, exp.Join, exp.Exists, exp.SetOperation, exp.CTE, exp.Subquery))


def _is_plain(column: exp.Column, database: Database) -> bool:
    """Return True unless some table has a column of this name whose comparisons may fail."""
    name = column.name.lower()
    return all(
        _PLAIN.match(known.type) is not None and "[" not in known.type
        for table in database.tables
        for known in table.columns
        if known.name.lower() == name
    )


def _is_plain_pattern(node: exp.Like) -> bool:
    """Return False for a pattern that ends with its escape, which PostgreSQL refuses only when a row is compared."""
    pattern = node.expression
    return (
        isinstance(pattern, exp.Literal)
        and bool(pattern.is_string)
        and len(pattern.name) <= _MAX_PATTERN
        and "\\" not in pattern.name
        and isinstance(node.this, exp.Column)
    )


def _is_date(node: exp.Cast) -> bool:
    """Return True for `DATE '2024-01-31'`, which an engine computes once."""
    return (
        isinstance(node.this, exp.Literal)
        and bool(node.this.is_string)
        and node.to.this
        in {
            exp.DType.DATE,
            exp.DType.TIMESTAMP,
            exp.DType.DATETIME,
        }
    )


def key_conditions(place: Filtered, database: Database) -> list[exp.Expr]:
    """Return comparisons of columns of the table with values in the enclosing query, to be repeated in the subquery.

    They are in WHERE, all must hold, and none holds for NULL, so that the rows of the query stay the same even if the table is outer
    joined.
    """
    node = place.node
    query = node.find_ancestor(exp.Select)
    where = query.args.get("where") if query is not None else None
    if query is None or where is None or not RECORDS[database.dialect].stable_comparisons or not _is_own(node, query):
        return []
    alone = not query.args.get("joins") and not query.args.get("laterals") and not node.args.get("joins")
    alias = node.args.get("alias")
    spelling = NameRules(database.dialect, database.table_names)
    name = spelling.alias(alias) if alias is not None else ""
    name = name or spelling.relation(exp.to_identifier(place.table.name, quoted=True))
    open_columns = {
        fold_column(database.dialect, column, quoted=True): column
        for column in place.columns
        if column not in place.masks
    }
    condition = where.this
    terms = condition.flatten() if isinstance(condition, exp.And) else [condition]
    found: list[exp.Expr] = []
    for term in terms:
        column = _compared(term.unnest())
        if column is None or not _is_plain(column, database):
            continue
        qualifier = column.args.get("table")
        owned = spelling.relation(qualifier) == name if qualifier is not None else alone
        known = open_columns.get(spelling.column(column))
        if owned and known is not None and column.args.get("db") is None:
            found.append(_renamed(term.unnest(), column, known))
    return found


def _is_own(node: exp.Expr, query: exp.Select) -> bool:
    """Return True for a table in FROM or in a join of the query itself."""
    parent = node.parent
    while isinstance(parent, (exp.From, exp.Join, exp.Subquery, exp.Table)):
        parent = parent.parent
    return parent is query


def _compared(term: exp.Expr) -> exp.Column | None:
    """Return the column that a term compares with values."""
    match term:
        case exp.In(this=exp.Column() as column) if term.expressions and not term.args.get("query"):
            values: Iterable[exp.Expr] = term.expressions
        case exp.Between(this=exp.Column() as column) if not term.args.get("symmetric"):
            values = (term.args["low"], term.args["high"])
        case exp.Binary(this=exp.Column() as column, expression=value) if isinstance(term, _STRICT):
            values = (value,)
        case exp.Binary(this=value, expression=exp.Column() as column) if isinstance(term, _STRICT):
            values = (value,)
        case _:
            return None
    if slot_number(column) is not None or isinstance(column.this, exp.Star) or not all(map(_is_value, values)):
        return None
    return column


def _is_value(node: exp.Expr) -> bool:
    if isinstance(node, exp.Neg):
        node = node.this
    return (
        isinstance(node, exp.Literal)
        or (isinstance(node, exp.Column) and slot_number(node) is not None)
        or (isinstance(node, exp.Cast) and _is_date(node))
    )


def _renamed(term: exp.Expr, column: exp.Column, name: str) -> exp.Expr:
    """Return a copy of the term with the table's own name of the column."""
    copied = term.copy()
    for found in list(copied.find_all(exp.Column)):
        if slot_number(found) is None:
            found.replace(exp.Column(this=exp.to_identifier(name, quoted=True)))
    return copied
