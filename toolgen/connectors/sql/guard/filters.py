"""Row filters: parsing of a policy's `rows:`, and the subquery that replaces a table in a statement."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.column_names import conceal
from toolgen.connectors.sql.guard.filtered_changes import conjunction
from toolgen.connectors.sql.guard.grammar import check_grammar
from toolgen.connectors.sql.guard.identifiers import fold_column, full_name
from toolgen.connectors.sql.guard.placeholders import SLOT, slot_number
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.relations import Filtered
from toolgen.connectors.sql.guard.text import parse
from toolgen.model.database import DialectName, Table

__all__ = ["attributes_of", "columns_of", "install", "numbered", "read_filter"]

# A string, a quoted name, a cast (`::`), or what we look for: `:name` where neither a name nor another colon stands before it.
_PIECE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|::|(?<![\w:]):([A-Za-z_][A-Za-z0-9_.]*)")


@lru_cache(maxsize=256)
def _split(rows: str, numbered: bool) -> tuple[str, tuple[str, ...]]:
    """The filter with a placeholder for each `:name`, and the names in order."""
    names: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        names.append(found[1])
        return f"${len(names)}" if numbered else "?"

    return _PIECE.sub(replaced, rows), tuple(names)


def read_filter(rows: str, dialect: DialectName) -> tuple[exp.Expr, tuple[str, ...]]:
    """The condition and the attributes its placeholders stand for. Raises `StatementRefusal` when it is not one plain condition.

    The text is parsed as the WHERE of a SELECT and must be nothing else: no further clause, no subquery, no comma.
    """
    text, names = _split(rows, RECORDS[dialect].always_numbered)
    parsed = parse(f"SELECT 1 WHERE ({text})", dialect)
    root = parsed.root
    check_grammar(root, dialect, frozenset())
    extra = {name for name, value in root.args.items() if value} - {"expressions", "where"}
    if not isinstance(root, exp.Select) or extra or len(root.expressions) != 1 or parsed.asked != len(names):
        refuse("row-filter", "it is not one condition", "write what would follow WHERE")
    condition: exp.Expr = root.args["where"].this
    if not isinstance(condition, exp.Paren) or not isinstance(condition.this, exp.Condition):
        refuse("row-filter", "it is not one condition", "write what would follow WHERE")
    if any(isinstance(node, (exp.Query, exp.Table, exp.Window, exp.Star)) for node in condition.walk()):
        refuse(
            "row-filter",
            "it holds a subquery, a window or a *",
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
    """The columns a filter reads, as the database spells them. Raises `StatementRefusal` for one the table does not have."""
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
    """Puts filter and masks in the tree: `t` becomes `(SELECT granted columns FROM t WHERE condition) AS t`.

    Of the granted columns it has those that are `used` (`table.column`): nothing is read that the statement does not touch.
    The subquery of a filter that is `fenced` has a limit that limits nothing: no optimizer moves a condition into it, where it would be
    asked about rows the filter leaves out, and an error (`1 / 0`, a cast) would tell of them. Conditions that are `asked` there cannot
    fail. Without a fence the engines pull the subquery up.

    Its placeholders are numbered from `first`. Returns the attributes they stand for and the columns (`table.column`) the filter reads.
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
    conceal(seen)
    node.replace(seen)
    return names, frozenset(f"{owner}.{column}" for column in columns)


def _bare(node: exp.Table) -> exp.Table:
    """The table itself, with whatever belongs to it alone: a sample, hints for an index. `node` is left without them."""
    return exp.Table(**{name: value for name, value in node.args.items() if name not in {"alias", "joins"}})


def _is_merged_wrongly(node: exp.Expr) -> bool:
    """True below a query with WITH ROLLUP, a window function or a subquery in HAVING, into which MariaDB may not merge the subquery.

    With ROLLUP it takes columns of rows for those of groups: totals have a key in place of NULL. With a window function it finds names in
    ORDER BY ambiguous. With ROLLUP, HAVING and a window function it loses rows either way. A subquery in HAVING sees the key of another
    group.
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
            "WITH ROLLUP, HAVING and a window function stand in one query, which MariaDB answers with other rows each way",
            "group in a subquery, and use the window function outside of it",
        )
    having = query.args.get("having")
    return rolled_up or windows or (having is not None and having.find(exp.Query) is not None)


def _constant() -> exp.Expr:
    """For a table of which no column is used: its rows are counted."""
    return exp.Alias(this=exp.Literal.number(1), alias=exp.to_identifier("1", quoted=True))


def _fence(dialect: DialectName) -> tuple[str, exp.Expr]:
    """A clause that is no bound, and past which no condition is moved."""
    clause, count = RECORDS[dialect].fence
    number = exp.Literal.number(abs(count))
    value = exp.Neg(this=number) if count < 0 else number
    return clause, exp.Offset(expression=value) if clause == "offset" else exp.Limit(expression=value)


def _seen(name: str, masks: Mapping[str, str]) -> exp.Expr:
    """A column of the table, or what a mask says is seen instead."""
    identifier = exp.to_identifier(name, quoted=True)
    if name in masks:
        return exp.Alias(this=exp.Literal.string(masks[name]), alias=identifier)
    return exp.Column(this=identifier)


def attributes_of(rows: str) -> tuple[str, ...]:
    """The `:name`s in a filter, in order."""
    return _split(rows, False)[1]
