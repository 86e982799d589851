"""Kinds of values of attributes in row filters: those of the columns that they are compared with.

Engines compare values of two kinds differently. MySQL and MariaDB compare text with a number as numbers, and other text as 0: `tenant = 0`
finds every tenant with a name. SQLite converts true to `'1'` for a text column, DuckDB converts numbers to text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.filters import read_filter
from toolgen.connectors.sql.guard.grammar import called
from toolgen.connectors.sql.guard.identifiers import find_table, fold_column
from toolgen.connectors.sql.guard.placeholders import slot_number
from toolgen.model.database import Database, DialectName
from toolgen.model.sql_scope import SqlScope

__all__ = ["Misfit", "compared_kinds", "fits", "kind_of"]

_TRUTH = re.compile(r"tinyint\(1\)|bool|bit\b", re.IGNORECASE)
_NUMERIC = re.compile(
    r"u?(tiny|small|medium|big|huge)?int(eger|[248])?\b|(big|small)?serial|dec|numeric|fixed|real|double|float|year",
    re.IGNORECASE,
)
_TEXTUAL = re.compile("char|clob|text", re.IGNORECASE)
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})\Z")
# Functions that count or measure a text, by the names that they keep after parsing.
_MEASURES = frozenset({"length", "char_length", "character_length", "octet_length", "bit_length"})


class Misfit(Struct, frozen=True, kw_only=True):
    """Attribute with another kind than the values that a filter compares it with, so that no value can be compared."""

    kind: str
    wanted: frozenset[str]


def compared_kinds(scope: SqlScope, database: Database) -> Mapping[str, frozenset[str]]:
    """Return the kinds that each attribute is compared with in the filters of a scope: `text`, `number`, `truth`, `plain` (a text or a
    number), or several. Other comparisons are unknown.

    Raises `StatementRefusal` for a filter that cannot be read.
    """
    found: dict[str, frozenset[str]] = {}
    for name, entry in scope.tables.items():
        table = find_table(database, name)
        if entry.rows is None or table is None:
            continue
        condition, names = read_filter(entry.rows, database.dialect)
        types = {
            fold_column(database.dialect, column.name, quoted=True): _kind_of_type(column.type, database.dialect)
            for column in table.columns
        }
        for number, kinds in _compared(condition, types, database.dialect):
            found[names[number]] = found.get(names[number], frozenset()) | kinds
    return found


def fits(value: object, kinds: frozenset[str]) -> bool:
    """Return True if a value is unambiguous in every comparison with these kinds. Whole numbers may be written as text, as in tokens."""
    match value:
        case bool():
            meant = {"truth"}
        case int() | float():
            meant = {"number", "plain", "truth"} if value in {0, 1} else {"number", "plain"}
        case str():
            meant = {"text", "plain", "number"} if _WHOLE.match(value) else {"text", "plain"}
        case _:
            return not kinds
    return kinds <= meant


def kind_of(value: object) -> str:
    """Return the kind of a value in ordinary words."""
    match value:
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case str():
            return "text"
        case None:
            return "null"
        case _:
            return "list" if isinstance(value, (list, tuple)) else "object"


def _kind_of_type(type_: str, dialect: DialectName) -> str:
    """Return the kind of a column type. SQLite's columns contain any values, by their affinity (datatype3.html, section 3.1)."""
    if "[" in type_:
        return "text"
    if _TRUTH.match(type_):
        return "truth"
    if "affinities" in RECORDS[dialect].spellings:
        if "INT" in type_.upper() or _NUMERIC.match(type_):
            return "number"
        return "text" if _TEXTUAL.search(type_) else "plain"
    return "number" if _NUMERIC.match(type_) else "text"


def _compared(
    condition: exp.Expr, types: Mapping[str, str], dialect: DialectName
) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the index of each attribute, and the kinds of the operator's other side or the other arguments of the function."""
    for column in condition.find_all(exp.Column):
        number = slot_number(column)
        if number is not None:
            yield number, _demanded(column, types, dialect)


def _demanded(slot: exp.Expr, types: Mapping[str, str], dialect: DialectName) -> frozenset[str]:
    holder = slot.parent
    while holder is not None:
        match holder:
            case exp.Paren():
                pass
            case exp.Connector() | exp.Not() | exp.Where():
                return frozenset({"truth"})  # it is a condition itself
            case exp.Cast():
                kind = _kind_of_type(holder.to.sql(dialect), dialect)
                return frozenset({"plain" if kind == "text" else kind})
            case exp.Anonymous() if called(holder) in _MEASURES:
                return frozenset({"text"})
            case exp.Is():
                return frozenset()
            case _:
                if kinds := frozenset(_kinds(holder, types, dialect)):
                    return kinds
        holder = holder.parent
    return frozenset({"truth"})


def _kinds(node: exp.Expr, types: Mapping[str, str], dialect: DialectName) -> Iterator[str]:
    """Return the kinds of a node: of a literal its own, of a cast the type's, of anything else those of its columns."""
    match node:
        case exp.Literal():
            yield "text" if node.is_string else "number"
        case exp.Boolean():
            yield "truth"
        case exp.Cast():
            if not any(slot_number(column) is not None for column in node.find_all(exp.Column)):
                yield _kind_of_type(node.to.sql(dialect), dialect)
        case exp.Column():
            if slot_number(node) is None:
                quoted = bool(node.this.args.get("quoted"))
                yield types.get(fold_column(dialect, node.name, quoted=quoted), "text")
        case exp.Anonymous() if called(node) in _MEASURES:
            if any(slot_number(column) is None for column in node.find_all(exp.Column)):
                yield "number"
        case _:
            for child in node.iter_expressions():
                yield from _kinds(child, types, dialect)
