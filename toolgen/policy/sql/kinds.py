"""What kinds of values the attributes in row filters may have, where a database would compare others with everything.

MySQL and MariaDB compare text with a number as numbers, and text that is none as 0: `tenant = 0` finds every tenant with a name, and
`tenant_id = '12abc'` the twelfth. No other engine here finds rows by such a comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sqlglot import exp

from toolgen.model.database import Database, Table
from toolgen.model.schema import Json
from toolgen.policy.sql.filters import read_filter
from toolgen.policy.sql.grants import SqlScope, find_table, fold_column
from toolgen.policy.sql.marks import slot_number

__all__ = ["compared_kinds", "fits"]

_TRUTH = re.compile(r"tinyint\(1\)|bool|bit", re.IGNORECASE)
_NUMERIC = re.compile(r"(tiny|small|medium|big)?int|serial|dec|numeric|fixed|real|double|float|year", re.IGNORECASE)
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})\Z")


def compared_kinds(scope: SqlScope, database: Database) -> Mapping[str, frozenset[str]]:
    """What each attribute is compared with in the filters of a scope: `text`, `number`, `truth`, or several. Of others nothing is known.

    Raises `Refusal` for a filter that cannot be read.
    """
    if database.dialect != "mysql":
        return {}
    found: dict[str, frozenset[str]] = {}
    for name, entry in scope.tables.items():
        table = find_table(database, name)
        if entry.rows is None or table is None:
            continue
        condition, names = read_filter(entry.rows, database.dialect)
        for number, kinds in _compared(condition, table):
            found[names[number]] = found.get(names[number], frozenset()) | kinds
    return found


def fits(value: Json, kinds: frozenset[str]) -> bool:
    """Whether a value means one thing in every comparison with these kinds. Whole numbers may be written as text, as tokens do."""
    match value:
        case bool():
            meant = {"truth"}
        case int() | float():
            meant = {"number", "truth"} if value in {0, 1} else {"number"}
        case str():
            meant = {"text", "number"} if _WHOLE.match(value) else {"text"}
        case _:
            return not kinds
    return kinds <= meant


def _compared(condition: exp.Expr, table: Table) -> Iterator[tuple[int, frozenset[str]]]:
    """Each attribute's number, and the kinds of what stands beside it: an operator's other side, the other arguments of a function."""
    for column in condition.find_all(exp.Column):
        number = slot_number(column)
        holder = column.parent
        while isinstance(holder, exp.Paren):
            holder = holder.parent
        if number is not None and holder is not None and not isinstance(holder, (exp.Connector, exp.Not, exp.Where)):
            yield number, _kinds(holder, table)


def _kinds(holder: exp.Expr, table: Table) -> frozenset[str]:
    """A literal is of its kind, anything else of the kinds of the columns in it."""
    types = {fold_column("mysql", column.name, quoted=True): column.type for column in table.columns}
    found = set()
    for node in holder.find_all(exp.Column, exp.Literal):
        if isinstance(node, exp.Literal):
            found.add("text" if node.is_string else "number")
        elif isinstance(node, exp.Column) and slot_number(node) is None:
            type_ = types.get(fold_column("mysql", node.name, quoted=True), "")
            found.add("truth" if _TRUTH.match(type_) else "number" if _NUMERIC.match(type_) else "text")
    return frozenset(found)
