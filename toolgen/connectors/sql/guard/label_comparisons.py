"""Comparisons with a text that a column can never have: engines silently return no rows for most of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.grants import scoped_tables
from toolgen.connectors.sql.guard.identifiers import full_name
from toolgen.connectors.sql.guard.placeholders import slot_number
from toolgen.connectors.sql.guard.refusal import shown
from toolgen.model.database import Column, Database, DialectName
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope

__all__ = ["LabelComparison", "label_comparisons", "label_note", "labels_text"]

_MAX_LABELS: Final = 20
_MAX_TOLD: Final = 3


def labels_text(column: Column) -> str:
    """Return `status one of 'open', 'paid'`, with the first labels of many."""
    labels = ", ".join(f"'{shown(label)}'" for label in column.labels[:_MAX_LABELS])
    more = len(column.labels) - _MAX_LABELS
    return f"{shown(column.name)} one of {labels}{f' and {more} more' if more > 0 else ''}"


class LabelComparison(Struct, frozen=True, kw_only=True):
    """Column of few values, and the compared text, or the index of the compared parameter."""

    column: Column
    value: str | int
    dialect: DialectName


def label_comparisons(
    root: exp.Expr, used: frozenset[str], database: Database, scope: SqlScope
) -> tuple[LabelComparison, ...]:
    """Return the comparisons of a resolved query that may be with a text that no row has.

    Names of derived columns and masked columns are ignored. A text that differs from a label only in case counts as another text only
    for engines with case-sensitive labels.
    """
    labelled = _labelled(database, scope, used)
    if not labelled:
        return ()
    derived = {one.alias.lower() for one in root.find_all(exp.Alias)}
    derived |= {one.name.lower() for alias in root.find_all(exp.TableAlias) for one in alias.columns}
    return tuple(
        LabelComparison(column=labelled[name], value=value, dialect=database.dialect)
        for name, value in _compared(root)
        if name in labelled and name not in derived
    )


def label_note(comparisons: Iterable[LabelComparison], parameters: Sequence[Json]) -> str:
    """Return a note on a query that compares a column of few values with another text; "" if it does not."""
    told: dict[str, str] = {}
    for one in comparisons:
        value = one.value if isinstance(one.value, str) else parameters[one.value]
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str) and not _may_be(text, one.column, one.dialect):
                told.setdefault(f"'{shown(text)}'", labels_text(one.column))
    return "; ".join(f"the schema has no value {text}: {labels}" for text, labels in [*told.items()][:_MAX_TOLD])


def _labelled(database: Database, scope: SqlScope, used: frozenset[str]) -> dict[str, Column]:
    """Return the columns of few values by name, if no other column of the query has that name."""
    found: dict[str, list[tuple[Column, bool]]] = {}
    for table, entry in scoped_tables(database, scope):
        for one in table.columns:
            if f"{full_name(table)}.{one.name}" in used:
                found.setdefault(one.name.lower(), []).append((one, one.name in entry.masks))
    return {name: same[0][0] for name, same in found.items() if len(same) == 1 and same[0][0].labels and not same[0][1]}


def _compared(root: exp.Expr) -> Iterator[tuple[str, str | int]]:
    """Yield a column's name in lower case, and the text or parameter that it is compared with."""
    for node in root.find_all(exp.EQ, exp.In):
        values = node.expressions if isinstance(node, exp.In) else [node.expression]
        column = node.this
        if isinstance(node, exp.EQ) and _value(column) is not None:
            column, values = node.expression, [column]
        if isinstance(column, exp.Column) and _value(column) is None:
            for value in map(_value, values):
                if value is not None:
                    yield column.name.lower(), value


def _value(node: exp.Expr) -> str | int | None:
    """Return a literal text, the index of a parameter, or None for anything else. `= ANY(parameter)` compares with each element of a list.

    A text in ANY is a list: `= ANY ('{a,b}')`.
    """
    listed = isinstance(node, exp.Any)
    while isinstance(node, (exp.Any, exp.Cast, exp.Paren)):
        node = node.this
    if isinstance(node, exp.Column):
        return slot_number(node)
    return node.name if isinstance(node, exp.Literal) and node.is_string and not listed else None


def _may_be(text: str, column: Column, dialect: DialectName) -> bool:
    """Return True if a row can have the text: a label, or for a SET any combination of labels in any order."""
    record = RECORDS[dialect]
    labels = column.labels if record.exact_labels else {label.casefold().rstrip() for label in column.labels}
    text = text if record.exact_labels else text.casefold().rstrip()
    if record.lenient_labels and (not text or text.isdigit()):
        return True  # an invalid value was stored as '', and a number is the position of a label
    parts = text.split(",") if column.type.lower().startswith("set(") else [text]
    return all(part in labels for part in parts)
