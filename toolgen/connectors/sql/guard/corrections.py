"""Corrections of statements: aliases out of their scope, aggregates beside ungrouped columns, and impossible values of a column.

They are derived from the statement and the schema only; an engine's own message may quote the data.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.equivalents import function_advice
from toolgen.connectors.sql.guard.grammar import called
from toolgen.connectors.sql.guard.grants import scoped_tables
from toolgen.connectors.sql.guard.identifiers import full_name
from toolgen.connectors.sql.guard.label_comparisons import labels_text
from toolgen.connectors.sql.guard.placeholders import CALL, SLOT
from toolgen.connectors.sql.guard.refusal import shown
from toolgen.model.database import Column, Database, DialectName
from toolgen.model.excerpt import bounded
from toolgen.model.sql_scope import SqlScope

__all__ = ["alias_advice", "corrections"]

_MAX_LENGTH: Final = 160
_MAX_TOLD: Final = 6
_AROUND: Final = "put the query into FROM, SELECT … FROM (SELECT …) AS q WHERE"


def alias_advice(identifier: exp.Expr, dialect: DialectName) -> str:
    """Return advice on a name that is an alias of the SELECT list, in a clause that cannot see aliases; "" for any other name."""
    select = identifier.find_ancestor(exp.Select)
    clause: exp.Expr | None = identifier
    while clause is not None and clause.parent is not select:
        clause = clause.parent
    if select is None or clause is None:
        return ""
    wanted = identifier.name.lower()
    named = next(
        (one for one in select.expressions if isinstance(one, exp.Alias) and one.alias.lower() == wanted), None
    )
    if named is None:
        return ""
    value, where = named.this, _clause(clause)
    said = f"{shown(identifier.name)} is an alias of the SELECT list, which {where} does not know"
    if value.find(exp.Window):
        return f"{said}: {_AROUND} {shown(identifier.name)} …"
    if where == "WHERE" and _has_aggregate(value):
        return f"{said}: compare it in HAVING, {_text(value, dialect) or 'with its expression'}"
    written = _text(value, dialect)
    return f"{said}: repeat its expression{f', {written}' if written else ''}"


def corrections(
    root: exp.Expr, columns: Iterable[str], functions: Collection[str], database: Database, scope: SqlScope
) -> dict[str, str]:
    """Return the advice on a statement by the kind of error that an engine may report: `grouping`, `function`, `types`."""
    dialect = database.dialect
    found: dict[str, str] = {}
    grouped = not _AGGREGATES.isdisjoint(functions) or root.find(exp.Group, exp.Window, exp.AggFunc, exp.WithinGroup)
    if grouped and (grouping := next(_grouping(root, dialect), "")):
        found["grouping"] = grouping
    foreign = sorted(name for name in functions if name in RECORDS[dialect].equivalents)
    if foreign:
        found["function"] = f"{foreign[0]}: {function_advice(foreign[0], dialect)}"
    used = frozenset(columns)
    if used and (typed := [*_typed(database, scope, used)]):
        more = f" and {len(typed) - _MAX_TOLD} more" if len(typed) > _MAX_TOLD else ""
        found["types"] = f"the columns are {'; '.join(typed[:_MAX_TOLD])}{more}"
    return found


def _typed(database: Database, scope: SqlScope, used: frozenset[str]) -> Iterator[str]:
    """Return the columns of a statement with their types, those with few values first. The values of a masked column are not listed."""
    told: list[tuple[bool, str]] = []
    for table, entry in scoped_tables(database, scope):
        columns = (one for one in table.columns if f"{full_name(table)}.{one.name}" in used)
        told += (_described(one, masked=one.name in entry.masks) for one in columns)
    return (text for _plain, text in sorted(told, key=lambda item: item[0]))


def _described(column: Column, *, masked: bool) -> tuple[bool, str]:
    """Describe a column. The first element is True if the description has only the type, without labels."""
    if not column.labels or masked:
        declared = column.type.partition("(")[0] if column.labels else column.type
        return True, f"{shown(column.name)} {bounded(declared, 40)}"
    return False, labels_text(column)


def _grouping(root: exp.Expr, dialect: DialectName) -> Iterator[str]:
    """Yield advice on parts of a query in a clause that allows only groups, or only rows."""
    for select in root.find_all(exp.Select):
        where = select.args.get("where")
        if where is not None:
            if (window := where.find(exp.Window)) is not None and _own(window, select):
                yield f"a window function is not allowed in WHERE: {_AROUND} …"
            windows = {
                one.alias.lower() for one in select.expressions if isinstance(one, exp.Alias) and one.find(exp.Window)
            }
            if any(one.name.lower() in windows for one in where.find_all(exp.Column) if _own(one, select)):
                yield f"an alias of a window function is not allowed in WHERE: {_AROUND} …"
            for call in _aggregates(where):
                if _own(call, select):
                    yield f"an aggregate is compared in HAVING, after GROUP BY: HAVING {_text(where.this, dialect) or '…'}"
        group = select.args.get("group")
        if group is None and not any(_has_aggregate(one) for one in select.expressions):
            continue
        if group is not None and any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets", "all")):
            continue
        groups = {
            _text(_item(one, select), dialect).lower() for one in (group.expressions if group is not None else ())
        }
        alone = [text for one in select.expressions for text in _ungrouped(one, groups, select, dialect)]
        if alone:
            whole = ", ".join(dict.fromkeys([*groups, *alone]))
            yield f"{alone[0]} is used beside an aggregate: add it, GROUP BY {whole}; or aggregate it, max({alone[0]})"


def _item(group: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return the expression of an item of GROUP BY: a number is the result column at that position."""
    place = int(group.name) if isinstance(group, exp.Literal) and group.name.isdigit() and len(group.name) < 4 else 0
    item = select.expressions[place - 1] if 0 < place <= len(select.expressions) else group
    return item.this if isinstance(item, exp.Alias) else item


def _ungrouped(item: exp.Expr, groups: set[str], select: exp.Select, dialect: DialectName) -> Iterator[str]:
    """Return the columns of a select item that are in no group and in no aggregate."""
    value = item.this if isinstance(item, exp.Alias) else item
    if _text(value, dialect).lower() in groups or (isinstance(item, exp.Alias) and item.alias.lower() in groups):
        return
    for column in value.find_all(exp.Column):
        text = _text(column, dialect)
        inside = any(_is_aggregate(above) for above in _above(column, value))
        bare = column.name.lower()
        grouped = text.lower() in groups or bare in groups or any(group.endswith(f".{bare}") for group in groups)
        if _own(column, select) and text and not inside and not grouped:
            yield text


def _above(node: exp.Expr, top: exp.Expr) -> Iterator[exp.Expr]:
    at: exp.Expr | None = node
    while at is not None:
        yield at
        at = None if at is top else at.parent


def _own(node: exp.Expr, select: exp.Select) -> bool:
    """Return True if a node belongs to this query and to no query inside of it."""
    return node.find_ancestor(exp.Select) is select


_AGGREGATES: Final = frozenset(
    [
        "any_value",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bool_and",
        "bool_or",
        "count",
        "every",
        "group_concat",
        "json_agg",
        "json_arrayagg",
        "json_group_array",
        "json_group_object",
        "json_object_agg",
        "jsonb_agg",
        "list",
        "max",
        "median",
        "min",
        "mode",
        "percentile_cont",
        "percentile_disc",
        "quantile_cont",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "total",
        "var_pop",
        "var_samp",
        "variance",
    ]
)


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node.parent, exp.Window) and node.parent.this is node:
        return False
    if isinstance(node, exp.Anonymous):
        name = called(node)
        # SQLite's min and max of two values are not aggregates.
        return name in _AGGREGATES and not (name in {"min", "max"} and len(node.expressions) > 1)
    return isinstance(node, (exp.AggFunc, exp.WithinGroup))


def _aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    return (one for one in node.walk() if _is_aggregate(one))


def _has_aggregate(node: exp.Expr) -> bool:
    return any(one.find_ancestor(exp.Select) is node.find_ancestor(exp.Select) for one in _aggregates(node))


def _clause(node: exp.Expr) -> str:
    match node:
        case exp.Where():
            return "WHERE"
        case exp.Having():
            return "HAVING"
        case exp.Group():
            return "GROUP BY"
        case _:
            return "this clause"


def _text(node: exp.Expr, dialect: DialectName) -> str:
    """Return an expression as text for a message; "" if it is too long."""
    text = re.sub(CALL, "", re.sub(rf"{SLOT}\d*", "?", node.sql(dialect=dialect)), flags=re.IGNORECASE)
    return text if len(text) <= _MAX_LENGTH and text.isprintable() else ""
