"""Total order for paginated statements: the table's key, or every column, is added to ORDER BY, so that no page loses or repeats a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.functions import TABLE_FUNCTIONS
from toolgen.connectors.sql.guard.identifiers import fold_column, full_name
from toolgen.connectors.sql.guard.placeholders import CALL, slot_number
from toolgen.connectors.sql.guard.unique_orders import is_unique_order
from toolgen.model.database import Database, DialectName, Table

__all__ = ["complete_order"]

# PostgreSQL cannot sort values of these types, and functions with such a name give some of them.
_UNSORTED = re.compile(r"json|xml|point|line|lseg|box|path|polygon|circle|txid_snapshot|aclitem|xid|cid", re.IGNORECASE)
_UNSORTED_CALL = re.compile(
    r"^(json(?!b)|to_json$|row_to_json|array_to_json|xml|xpath$|point|line|lseg|box|path|polygon|circle|center|diagonal|bound_box)"
)


_TEXT = re.compile(r"char|text|enum|set|^$", re.IGNORECASE)
_NUMERIC_CALLS = frozenset(
    {"count", "sum", "avg", "round", "length", "char_length", "year", "month", "abs", "row_number"}
)
_NUMBERS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.Extract, exp.Predicate, exp.Connector)


def complete_order(root: exp.Expr, database: Database, used: Iterable[str], width: int | None) -> bool:
    """Add the key of the only table, or else every column of the result, to the end of ORDER BY, if the order may have ties.

    `used` are the columns of the statement, as `table.column`. `width` is the number of columns of the result, if known: a `*` of a common
    table expression or a subquery represents several. Columns that PostgreSQL may not be able to sort are left out. Returns False for a
    result with unknown columns, or without a known order: it has no pages.
    """
    order = root.args["order"]
    if any(_orders_all(item) for item in order.expressions):
        return True
    if _is_order_of_groups(root, database.dialect) or _is_order_of_key(root, database):
        return True
    if RECORDS[database.dialect].groups_as_equal and isinstance(root, exp.Select):
        meant = [_resolved_item(item.this, root) for item in order.expressions]
        if not _gives_several_rows(root, database.dialect) and is_unique_order(root, database, meant):
            return True
    if (key := _key_of(root, database)) and _sorts(root, database, used):
        present = {item.this.name for item in order.expressions if isinstance(item.this, exp.Column)}
        added: list[exp.Expr] = [column for column in key if column.name not in present]
    else:
        present = {item.this.name for item in order.expressions if _is_ordinal(item.this)}
        sortable = _sorts(root, database, used)
        places = [place for place, item in _columns(root) if sortable or _is_plain(item, database, used)]
        if (first := _first_star(root)) > 0:
            if width is None or not sortable:
                return False
            places.extend(range(first, width + 1))
        added = [exp.Literal.number(place) for place in places if str(place) not in present]
        if RECORDS[database.dialect].loose_texts:
            added.extend(_exact_texts(root, database))
    if RECORDS[database.dialect].orders_once:
        items = _known_items(root)
        if items is None:
            return False
        added = [one for one in added if not _is_ordered(_item_of(one, items), root)]
    # The parser's default for nulls of an item: text and tree must be equal.
    nulls_first = RECORDS[database.dialect].nulls_first
    order.set(
        "expressions",
        [*order.expressions, *(exp.Ordered(this=item, nulls_first=nulls_first) for item in added)],
    )
    return True


def _known_items(root: exp.Expr) -> Sequence[exp.Expr] | None:
    """Return the select list, for `SELECT *` that of the subquery in FROM; None if a `*` remains."""
    items = _items(root)
    source = root.args["from_"].this if root.args.get("from_") else None
    if len(items) == 1 and items[0].is_star and isinstance(source, exp.Subquery) and not root.args.get("joins"):
        items = _items(source.this)
    return None if any(item.is_star for item in items) else items


def _item_of(added: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
    return items[int(added.name) - 1] if _is_ordinal(added) else added


def _is_ordered(item: exp.Expr, root: exp.Expr) -> bool:
    """Return True if ORDER BY has a column of the result, by its position, its name or its expression."""
    bare = item.unalias()
    for one in root.args["order"].expressions:
        by = one.this
        if isinstance(by, exp.Column) and by.name.lower() == item.alias_or_name.lower():
            owners = {by.table, bare.table} - {""} if isinstance(bare, exp.Column) else set()
            if len(owners) < 2:
                return True
        if isinstance(root, exp.Select) and _resolved_item(by, root) == bare.unnest():
            return True
    return False


def _exact_texts(root: exp.Expr, database: Database) -> Iterator[exp.Expr]:
    """Return the bytes of each column that may be a text: most collations of MariaDB treat texts that differ only in case as equal.

    Rows of DISTINCT and of set operations other than UNION ALL differ in more than case.
    """
    kind = exp.DataType(this=exp.DType.BINARY, nested=False)
    united = isinstance(root, exp.SetOperation)
    if (united and root.args.get("distinct") is not False) or (not united and root.args.get("distinct")):
        return
    for _, item in _columns(root):
        bare = item.unalias()
        if not _may_be_text(bare, database):
            continue
        if united:
            if item.alias_or_name.isidentifier():
                yield exp.Cast(this=exp.Column(this=exp.to_identifier(item.alias_or_name, quoted=True)), to=kind.copy())
        elif bare.find(exp.Query, exp.Window) is None:
            yield exp.Cast(this=bare.copy(), to=kind.copy())


def _may_be_text(node: exp.Expr, database: Database) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.removeprefix(CALL).lower() not in _NUMERIC_CALLS
    if not isinstance(node, exp.Column):
        return not isinstance(node, _NUMBERS)
    types = [column.type for table in database.tables for column in table.columns if column.name == node.name]
    return not types or any(_TEXT.search(kind) for kind in types)


def _is_order_of_groups(root: exp.Expr, dialect: DialectName) -> bool:
    """Return True if ORDER BY has every key of a simple GROUP BY, or every column of SELECT DISTINCT: no two rows are equal in it.

    False if a name may be an alias in one clause and a column in the other, or if a group may have several rows.
    """
    if not isinstance(root, exp.Select) or _gives_several_rows(root, dialect):
        return False
    group, distinct = root.args.get("group"), root.args.get("distinct")
    if group is not None:
        if any(value for name, value in group.args.items() if name != "expressions") or not group.expressions:
            return False
        keys = group.expressions
    elif distinct is not None and not distinct.args.get("on"):
        keys = [item.unalias() for item in root.expressions]
    else:
        return False
    ordered = [_resolved_item(item.this, root) for item in root.args["order"].expressions]
    wanted = [_resolved_item(key, root) for key in keys]
    return all(key is not None and any(key == item for item in ordered) for key in wanted)


def _is_order_of_key(root: exp.Expr, database: Database) -> bool:
    """Return True if ORDER BY has the primary key of the only table, for any select list: no two rows are equal in it."""
    table = _only_table(root, database)
    if table is None or not isinstance(root, exp.Select) or _gives_several_rows(root, database.dialect):
        return False
    ordered = {
        fold_column(database.dialect, item.name, quoted=bool(item.this.args.get("quoted")))
        for item in (_resolved_item(one.this, root) for one in root.args["order"].expressions)
        if isinstance(item, exp.Column)
    }
    return bool(table.primary_key) and ordered.issuperset(
        fold_column(database.dialect, name, quoted=True) for name in table.primary_key
    )


def _only_table(root: exp.Expr, database: Database) -> Table | None:
    """Return the base table whose rows correspond to the rows of the result."""
    several = ("joins", "laterals", "group", "distinct", "having")
    if not isinstance(root, exp.Select) or any(root.args.get(name) for name in several):
        return None
    source = root.args["from_"].this if root.args.get("from_") else None
    if not isinstance(source, exp.Table) or source.args.get("joins"):
        return None
    return _table_of(source, database)


def _resolved_item(node: exp.Expr, root: exp.Select) -> exp.Expr | None:
    """Return the expression that is grouped or sorted by: for a position or an alias, the selected expression. None for an ambiguous
    name."""
    node = node.unnest()
    if _is_ordinal(node):
        place = int(node.name) - 1 if node.name.isdigit() else -1
        item = root.expressions[place] if 0 <= place < len(root.expressions) and not _first_star(root) else None
        return None if item is None else item.unalias().unnest()
    if node.find(exp.Star, exp.Query) is not None:
        return None
    named = {item.alias.lower(): item.this for item in root.expressions if isinstance(item, exp.Alias)}
    if isinstance(node, exp.Column) and not node.table and (item := named.get(node.name.lower())) is not None:
        columns = {column.name.lower() for column in item.find_all(exp.Column)}
        return None if node.name.lower() in columns and item != node else item.unnest()
    shadowed = any(not column.table and column.name.lower() in named for column in node.find_all(exp.Column))
    return None if shadowed else node


def _gives_several_rows(root: exp.Select, dialect: DialectName) -> bool:
    calls = (node.name.removeprefix(CALL).lower() for item in root.expressions for node in item.find_all(exp.Anonymous))
    several = any(call in TABLE_FUNCTIONS[dialect] for call in calls)
    return several or any(item.find(exp.Explode, exp.Unnest) is not None for item in root.expressions)


def _first_star(root: exp.Expr) -> int:
    """Return the position of the first `*` among the columns of the result; 0 for none."""
    return next((place for place, item in enumerate(_items(root), 1) if item.is_star), 0)


def _items(root: exp.Expr) -> Sequence[exp.Expr]:
    """Return the select list; for a set operation that of its first query."""
    query = root
    while isinstance(query, (exp.SetOperation, exp.Subquery)):
        query = query.this
    return query.expressions if isinstance(query, exp.Select) else []


def _orders_all(item: exp.Expr) -> bool:
    return isinstance(item.this, (exp.All, exp.Var)) or (
        isinstance(item.this, exp.Column) and item.this.name.upper() == "ALL"
    )


def _is_ordinal(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _key_of(root: exp.Expr, database: Database) -> list[exp.Column]:
    """Return the primary key, if the rows of the result are those of one table and its key is among their columns."""
    if any(isinstance(item.unalias(), exp.Anonymous) for item in root.expressions) or root.find(
        exp.Explode, exp.Unnest
    ):
        return []  # an aggregate, or a function that returns several rows
    table = _only_table(root, database)
    if table is None or not table.primary_key:
        return []
    given = {
        fold_column(database.dialect, item.name, quoted=True): item
        for item in root.expressions
        if isinstance(item, exp.Column)
    }
    found = [given.get(fold_column(database.dialect, name, quoted=True)) for name in table.primary_key]
    return [column.copy() for column in found if column is not None] if None not in found else []


def _table_of(source: exp.Table, database: Database) -> Table | None:
    """Return the base table; the resolver wrote it with its schema and the database's own spelling."""
    if not isinstance(source.this, exp.Identifier) or not source.this.args.get("quoted"):
        return None
    found = [table for table in database.tables if table.name == source.name and table.schema in {"", source.db}]
    return found[0] if len(found) == 1 else None


def _columns(root: exp.Expr) -> Iterator[tuple[int, exp.Expr]]:
    """Return the columns of the result except constants, by position, up to the first with an unknown position."""
    for place, item in enumerate(_items(root), 1):
        if item.is_star:
            return
        bare = item.unalias()
        if not (
            isinstance(bare, (exp.Literal, exp.Null, exp.Boolean))
            or (isinstance(bare, exp.Column) and slot_number(bare) is not None)
        ):
            yield place, item


def _sorts(root: exp.Expr, database: Database, used: Iterable[str]) -> bool:
    """Return True if every value that the statement can produce has an order."""
    if not RECORDS[database.dialect].unsorted_types:
        return True
    touched = set(used)
    types = (
        column.type
        for table in database.tables
        for column in table.columns
        if f"{full_name(table)}.{column.name}" in touched
    )
    return not (
        any(_UNSORTED.search(kind) for kind in types if kind.lower() != "jsonb")
        or any(_UNSORTED_CALL.match(node.name.removeprefix(CALL).lower()) for node in root.find_all(exp.Anonymous))
        or any(_is_unsorted(node) for node in root.find_all(exp.DataType))
        or root.find(exp.JSONObject)
    )


def _is_unsorted(kind: exp.DataType) -> bool:
    named = kind.args.get("kind")
    name = named.name if isinstance(named, exp.Identifier) else getattr(kind.this, "name", "")
    return name.lower() != "jsonb" and _UNSORTED.fullmatch(name) is not None


def _is_plain(item: exp.Expr, database: Database, used: Iterable[str]) -> bool:
    """Return True if a result column is a table's column, of a type with an order in every table that has the name."""
    column = item.unalias()
    if not isinstance(column, exp.Column):
        return False
    types = {
        known.type
        for table in database.tables
        for known in table.columns
        if known.name == column.name and f"{full_name(table)}.{known.name}" in set(used)
    }
    return bool(types) and not any(_UNSORTED.search(kind) for kind in types if kind.lower() != "jsonb")
