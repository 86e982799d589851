"""Types of the result columns of a SQLite query, computed from its tables and its text. They are used if the result has no rows.

https://www.sqlite.org/datatype3.html: values have types, columns have affinities. The types are information only; no decision depends on
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from sqlglot import exp

from toolgen.connectors.sql.guard.grammar import called
from toolgen.model.database import Database

__all__ = ["value_types"]

_Row: TypeAlias = tuple[tuple[str, str], ...]
"""Name and type of each column, "" for an unknown type."""
_Relations: TypeAlias = Mapping[str, _Row]
_AFFINITIES: Final = (
    ("INT", "integer"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("BLOB", "blob"),
    ("REAL", "real"),
    ("FLOA", "real"),
    ("DOUB", "real"),
)
_RESULTS: Final = {
    **dict.fromkeys(
        ("count", "length", "octet_length", "instr", "unicode", "sign", "row_number", "rank", "dense_rank", "ntile", "unixepoch"),
        "integer",
    ),
    **dict.fromkeys(("avg", "total", "julianday", "percent_rank", "cume_dist", "sqrt", "ln", "exp", "round"), "real"),
    **dict.fromkeys(
        ("upper", "lower", "substr", "substring", "trim", "ltrim", "rtrim", "replace", "printf", "format", "char", "hex"), "text"
    ),
    **dict.fromkeys(("group_concat", "string_agg", "strftime", "date", "time", "datetime", "quote", "typeof", "concat"), "text"),
    **dict.fromkeys(("json_object", "json_array", "json_group_array", "json_group_object"), "text"),
}  # fmt: skip
_LIKE_AN_ARGUMENT: Final = {
    **dict.fromkeys(("sum", "min", "max", "abs", "lag", "lead", "first_value", "last_value", "nth_value", "nullif"), 0),
    **dict.fromkeys(("coalesce", "ifnull"), 0),
    "iif": 1,
}
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def value_types(root: exp.Expr, database: Database) -> tuple[str, ...]:
    """Return a type for each column of a resolved query: a storage class, a declared type without one, or ""."""
    named = {node.name.lower() for node in root.find_all(exp.Table)}
    tables = {
        name: tuple((column.name.lower(), declared_type(column.type)) for column in table.columns)
        for table in database.tables
        if (name := table.name.lower()) in named
    }
    return tuple(kind for _, kind in _query(root, {}, tables))


@lru_cache(maxsize=1_000)
def declared_type(declared: str) -> str:
    """Return the storage class that a column of this declared type certainly has (section 3.1), otherwise the declared type."""
    upper = declared.upper()
    return next((kind for word, kind in _AFFINITIES if word in upper), declared.lower())


def _query(node: object, ctes: _Relations, tables: _Relations) -> _Row:
    match node:
        case exp.Select():
            known = _with(node, ctes, tables)
            scope = _sources(node, known, tables)
            items = [_item(item, scope, known, tables) for item in node.expressions]
            return tuple(column for item in items for column in item)
        case exp.SetOperation():
            known = _with(node, ctes, tables)
            left, right = _query(node.this, known, tables), _query(node.expression, known, tables)
            return tuple((name, mine or other) for (name, mine), (_, other) in zip(left, right, strict=False))
        case exp.Subquery():
            return _query(node.this, _with(node, ctes, tables), tables)
        case exp.Values():
            first = node.expressions[0] if node.expressions else None
            values: list[object] = [*first.expressions] if isinstance(first, exp.Tuple) else [first]
            return tuple((f"column{place}", _kind(item, {}, ctes, tables)) for place, item in enumerate(values, 1))
    return ()


def _with(node: exp.Expr, ctes: _Relations, tables: _Relations) -> _Relations:
    clause = node.args.get("with_")
    known = dict(ctes)
    for cte in clause.expressions if clause is not None else ():
        body = cte.this
        if isinstance(body, exp.SetOperation):  # a recursive one: the second branch uses the first
            known[cte.alias.lower()] = _renamed(_query(body.this, known, tables), cte)
        known[cte.alias.lower()] = _renamed(_query(body, known, tables), cte)
    return known


def _renamed(row: _Row, node: exp.Expr) -> _Row:
    names = [name.lower() for name in node.alias_column_names]
    return tuple((names[place] if place < len(names) else name, kind) for place, (name, kind) in enumerate(row))


def _sources(select: exp.Select, ctes: _Relations, tables: _Relations) -> _Relations:
    found: dict[str, _Row] = {}
    clause = select.args.get("from_")
    waiting: list[exp.Expr] = [clause.this] if clause is not None else []
    waiting += [join.this for join in select.args.get("joins") or ()]
    while waiting:
        node = waiting.pop(0)
        waiting[:0] = [join.this for join in node.args.get("joins") or ()]
        match node:
            case exp.Table() if isinstance(node.this, exp.Identifier):
                name = node.name.lower()
                row = tables.get(name, ()) if node.args.get("db") is not None else ctes.get(name, tables.get(name, ()))
                found[node.alias_or_name.lower()] = _renamed(row, node)
            case exp.Subquery() if isinstance(node.this, exp.Table):
                waiting.insert(0, node.this)
            case exp.Subquery() | exp.Values():
                found[node.alias.lower() or f" {len(found)}"] = _renamed(_query(node, ctes, tables), node)
    return found


def _item(node: exp.Expr, scope: _Relations, ctes: _Relations, tables: _Relations) -> _Row:
    """Return the columns of one select item. With NATURAL or USING a `*` has fewer columns, and the result has no types."""
    if isinstance(node, exp.Star):
        return tuple(column for row in scope.values() for column in row)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return scope.get(node.table.lower(), ())
    return ((node.alias_or_name.lower(), _kind(node, scope, ctes, tables)),)


def _kind(node: object, scope: _Relations, ctes: _Relations, tables: _Relations) -> str:
    def of(inner: object) -> str:
        return _kind(inner, scope, ctes, tables)

    match node:
        case exp.Alias() | exp.Paren() | exp.Window() | exp.Filter() | exp.Neg() | exp.Collate():
            return of(node.this)
        case exp.Column():
            return _column(node, scope)
        case exp.Literal():
            return "text" if node.is_string else "integer" if node.this.isdigit() else "real"
        case exp.Boolean() | exp.Predicate() | exp.Connector() | exp.Not():
            return "integer"
        case exp.DPipe():
            return "text"
        case exp.HexString():
            return "blob"
        case exp.Cast():
            return declared_type(node.to.sql("sqlite"))
        case exp.Case():
            branches = [branch.args.get("true") for branch in node.args.get("ifs") or ()]
            return _first(of(branch) for branch in (*branches, node.args.get("default")))
        case exp.Subquery():
            return next((kind for _, kind in _query(node, ctes, tables)), "")
        case exp.Anonymous():
            return _result(called(node), [of(argument) for argument in node.expressions])
        case _ if isinstance(node, _ARITHMETIC):
            kinds = {of(node.this), of(node.expression)}
            return "real" if "real" in kinds else "integer" if kinds == {"integer"} else ""
    return ""


def _column(node: exp.Column, scope: _Relations) -> str:
    rows = [scope.get(node.table.lower(), ())] if node.table else list(scope.values())
    return _first(kind for row in rows for name, kind in row if name == node.name.lower())


def _result(name: str, arguments: list[str]) -> str:
    if name in _RESULTS:
        return _RESULTS[name]
    place = _LIKE_AN_ARGUMENT.get(name)
    return _first(arguments[place:]) if place is not None else ""


def _first(kinds: Iterable[str]) -> str:
    return next((kind for kind in kinds if kind), "")
