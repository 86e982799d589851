"""Row filters: parsing of a policy's `rows:`, and the subquery that replaces a table in a statement."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.column_names import hide_text
from toolgen.connectors.sql.guard.filtered_changes import conjunction
from toolgen.connectors.sql.guard.grammar import check_grammar
from toolgen.connectors.sql.guard.identifiers import fold_column, full_name
from toolgen.connectors.sql.guard.placeholders import SLOT, slot_number
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.relations import Filtered
from toolgen.connectors.sql.guard.text import parse
from toolgen.model.database import DialectName, Table

__all__ = ["attributes_of", "columns_of", "install", "numbered", "read_filter"]

# A string, a quoted name, a cast (`::`), or the searched `:name`, which follows neither a name nor another colon.
_PIECE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|::|(?<![\w:]):([A-Za-z_][A-Za-z0-9_.]*)")


@lru_cache(maxsize=256)
def _split(rows: str, numbered: bool) -> tuple[str, tuple[str, ...]]:
    """Return the filter with a placeholder for each `:name`, and the names in order."""
    names: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        names.append(found[1])
        return f"${len(names)}" if numbered else "?"

    return _PIECE.sub(replaced, rows), tuple(names)


def read_filter(rows: str, dialect: DialectName) -> tuple[exp.Expr, tuple[str, ...]]:
    """Return the condition and the attributes of its placeholders. Raises `StatementRefusal` if it is not one simple condition.

    The text is parsed as the WHERE of a SELECT and must contain nothing else: no further clause, no subquery, no comma.
    """
    text, names = _split(rows, RECORDS[dialect].always_numbered)
    parsed = parse(f"SELECT 1 WHERE ({text})", dialect)
    root = parsed.root
    check_grammar(root, dialect, frozenset())
    extra = {name for name, value in root.args.items() if value} - {"expressions", "where"}
    if not isinstance(root, exp.Select) or extra or len(root.expressions) != 1 or parsed.asked != len(names):
        refuse("row-filter", "it is not one condition", "write the condition as after WHERE")
    condition: exp.Expr = root.args["where"].this
    if not isinstance(condition, exp.Paren) or not isinstance(condition.this, exp.Condition):
        refuse("row-filter", "it is not one condition", "write the condition as after WHERE")
    if any(isinstance(node, (exp.Query, exp.Table, exp.Window, exp.Star)) for node in condition.walk()):
        refuse(
            "row-filter",
            "it contains a subquery, a window or a *",
            "compare columns of the table with values and attributes",
        )
    return condition, names


def numbered(rows: str, dialect: DialectName, first: int) -> tuple[exp.Expr, tuple[str, ...]]:
    """Read a row filter with its placeholders numbered from `first`, for a statement that has placeholders before them."""
    condition, names = read_filter(rows, dialect)
    for column in list(condition.find_all(exp.Column)):
        if (number := slot_number(column)) is not None:
            column.set("this", exp.to_identifier(f"{SLOT}{first + number}", quoted=False))
    return condition, names


def columns_of(condition: exp.Expr, table: Table, dialect: DialectName) -> tuple[str, ...]:
    """Return the columns that a filter reads, as the database spells them. Raises `StatementRefusal` for a column the table does not
    have.
    """
    known = {fold_column(dialect, column.name, quoted=True): column.name for column in table.columns}
    found: list[str] = []
    for column in condition.find_all(exp.Column):
        if slot_number(column) is not None:
            continue
        name = fold_column(dialect, column.name, quoted=bool(column.this.args.get("quoted")))
        if column.args.get("table") is not None or name not in known:
            refuse(
                "row-filter",
                f"it uses {column.name!r}, which is not a column of the table",
                "use the table's own columns, without a prefix",
            )
        found.append(known[name])
    return tuple(found)


def install(
    place: Filtered,
    used: Container[str],
    dialect: DialectName,
    first: int,
    *,
    fenced: bool,
    asked: Sequence[exp.Expr] = (),
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Insert filter and masks into the tree: `t` becomes `(SELECT granted columns FROM t WHERE condition) AS t`.

    It contains only the granted columns that are `used` (`table.column`), so that no other column is read. The subquery of a `fenced`
    filter has a limit without effect, so that no optimizer moves a condition into it: there a condition would be evaluated for filtered
    rows, and an error (`1 / 0`, a cast) would reveal them. Conditions in `asked` cannot fail. Without a fence the engines merge the
    subquery.

    Its placeholders are numbered from `first`. Returns their attributes and the columns (`table.column`) that the filter reads.
    """
    condition, names = numbered(place.rows, dialect, first) if place.rows is not None else (None, ())
    columns = columns_of(condition, place.table, dialect) if condition is not None else ()
    node = place.node
    if node.args.get("sample") is not None and (condition is not None or place.masks):
        refuse("syntax", "a sample of this table is not supported", "use ORDER BY random() and LIMIT")
    alias = node.args.get("alias")
    if alias is None:
        alias = exp.TableAlias(this=exp.to_identifier(place.table.name, quoted=True))
    joins = node.args.get("joins")
    owner = full_name(place.table)
    read = [_seen(name, place.masks) for name in place.columns if f"{owner}.{name}" in used]
    read.extend(exp.Column(this=exp.to_identifier(name)) for name in dict.fromkeys(place.row_ids))
    where = conjunction([condition, *asked]) if condition is not None else None
    inner = exp.Select(
        expressions=read or [_constant()],
        from_=exp.From(this=_bare(node)),
        where=exp.Where(this=where) if where is not None else None,
    )
    if (condition is not None and fenced) or (RECORDS[dialect].merges_subqueries_wrongly and _is_merged_wrongly(node)):
        inner.set(*_fence(dialect))
    seen = exp.Subquery(this=inner, alias=alias, joins=joins)
    hide_text(seen)
    node.replace(seen)
    return names, frozenset(f"{owner}.{column}" for column in columns)


def _bare(node: exp.Table) -> exp.Table:
    """Return the table itself, with the parts that belong only to it: a sample, hints for an index. They are removed from `node`."""
    return exp.Table(**{name: value for name, value in node.args.items() if name not in {"alias", "joins"}})


def _is_merged_wrongly(node: exp.Expr) -> bool:
    """Return True below a query with WITH ROLLUP, a window function or a subquery in HAVING, into which MariaDB may not merge the subquery.

    With ROLLUP it confuses columns of rows and of groups: totals have a key instead of NULL. With a window function it reports names in
    ORDER BY as ambiguous. With ROLLUP, HAVING and a window function it loses rows in both forms. A subquery in HAVING sees the key of
    another group.
    """
    query = node.find_ancestor(exp.Select)
    if query is None:
        return False
    windows = any(item.find(exp.Window) for item in query.expressions)
    group = query.args.get("group")
    rolled_up = group is not None and bool(group.args.get("rollup"))
    if rolled_up and windows and query.args.get("having") is not None:
        refuse(
            "syntax",
            "one query has WITH ROLLUP, HAVING and a window function, which MariaDB answers incorrectly",
            "group in a subquery, and use the window function outside of it",
        )
    having = query.args.get("having")
    return rolled_up or windows or (having is not None and having.find(exp.Query) is not None)


def _constant() -> exp.Expr:
    """Return a constant for a table without a used column, whose rows are counted."""
    return exp.Alias(this=exp.Literal.number(1), alias=exp.to_identifier("1", quoted=True))


def _fence(dialect: DialectName) -> tuple[str, exp.Expr]:
    """Return a clause without effect that prevents conditions from being moved past it."""
    clause, count = RECORDS[dialect].fence
    number = exp.Literal.number(abs(count))
    value = exp.Neg(this=number) if count < 0 else number
    return clause, exp.Offset(expression=value) if clause == "offset" else exp.Limit(expression=value)


def _seen(name: str, masks: Mapping[str, str]) -> exp.Expr:
    """Return a column of the table, or the expression of its mask."""
    identifier = exp.to_identifier(name, quoted=True)
    if name in masks:
        return exp.Alias(this=exp.Literal.string(masks[name]), alias=identifier)
    return exp.Column(this=identifier)


def attributes_of(rows: str) -> tuple[str, ...]:
    """Return the `:name`s in a filter, in order."""
    return _split(rows, False)[1]
