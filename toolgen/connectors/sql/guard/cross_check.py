"""Cross-check of rendered PostgreSQL: libpg_query, the server's own grammar, must find the same tables, functions and names as the guard.

Optional (`toolgen[pglast]`): if pglast is installed, every statement is checked. pglast is GPL-3.0-or-later and not part of toolgen, which
works without it and imports it nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import msgspec

from toolgen.connectors.sql.guard.refusal import refuse

try:
    from pglast.parser import ParseError, parse_sql_json
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

__all__ = ["AVAILABLE", "cross_check"]

# Functions that the grammar makes of syntax: EXTRACT, AT TIME ZONE, LIKE … ESCAPE, SIMILAR TO, TRIM, SUBSTRING, POSITION, OVERLAY,
# OVERLAPS, …
_SYNTAX: Final = frozenset(
    {
        *("btrim", "extract", "is_normalized", "like_escape", "ltrim", "normalize", "overlaps", "overlay"),
        *("pg_collation_for", "position", "rtrim", "similar_to_escape", "substring", "timezone"),
    }
)
# Calls in the guard's view that are none in the grammar, or that it names differently.
_NO_CALLS: Final = frozenset(
    {
        *("coalesce", "extract", "greatest", "grouping", "least", "normalize", "nullif", "overlay", "position", "trim"),
        *("current_time", "current_timestamp", "localtime", "localtimestamp", "row"),
        *("xmlattributes", "xmlconcat", "xmlforest"),
        *("json_array", "json_arrayagg", "json_object", "json_objectagg", "json_scalar", "substring"),
    }
)
# Calls made by rendering: `^`, `|/`, `||/`, UNNEST, TRIM(LEADING FROM …), TRIM(TRAILING FROM …).
_RENDERED: Final = frozenset({"cbrt", "ltrim", "power", "rtrim", "sqrt", "unnest"})
_ROOTS: Final = {"": "SelectStmt", "insert": "InsertStmt", "update": "UpdateStmt", "delete": "DeleteStmt"}
_STATEMENTS: Final = frozenset({"InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "intoClause", "LockingClause"})


def cross_check(
    sql: str, *, tables: Iterable[str], functions: Iterable[str], names: Iterable[str], writes: str = ""
) -> None:
    """Raise `StatementRefusal` if libpg_query parses `sql` differently from the guard; do nothing without pglast.

    `tables`, `functions` and `writes` are as in `Statement`; `names` are those of columns and aliases in the guard's tree, folded. A
    relation without a schema must be a common table expression, because the guard writes every table with its schema.
    """
    if not AVAILABLE:
        return
    try:
        parsed = msgspec.json.decode(parse_sql_json(sql))
    except (ParseError, msgspec.DecodeError, RecursionError, UnicodeError):
        _differ("it is not read as a statement")
    statements = parsed.get("stmts", [])
    root = _ROOTS[writes]
    if len(statements) != 1 or set(statements[0]["stmt"]) != {root}:
        _differ("it is not read as one statement of its kind")
    nodes = [*_nodes(statements[0]["stmt"])]
    if {kind for kind, _ in nodes} & _STATEMENTS - {root}:
        _differ("something in it is read as a statement that writes or locks")
    _compare_tables(nodes, frozenset(tables))
    _compare_functions(nodes, frozenset(functions) - {""})  # `x <> ALL (array)` is a call without a name to the guard
    _compare_names(nodes, frozenset(names))


def _compare_tables(nodes: Iterable[tuple[str, Mapping[str, Any]]], known: frozenset[str]) -> None:
    found: set[str] = set()
    common: set[str] = set()
    bare: set[str] = set()
    for kind, node in nodes:
        if kind == "CommonTableExpr":
            common.add(node["ctename"])
        elif kind in {"RangeVar", "relation"} and "relname" in node:
            schema = node.get("schemaname", "")
            if "catalogname" in node or not schema:
                bare.add(node["relname"])
            else:
                found.add(node["relname"] if schema == "public" else f"{schema}.{node['relname']}")
    if bare - common or found != known:
        _differ("it is read as naming other tables")


def _compare_functions(nodes: Iterable[tuple[str, Mapping[str, Any]]], known: frozenset[str]) -> None:
    found: set[str] = set()
    for kind, node in nodes:
        if kind != "FuncCall":
            continue
        *schema, name = (part["String"]["sval"] for part in node["funcname"])
        if not schema:
            found.add(name)
        elif schema != ["pg_catalog"] or name not in _SYNTAX:
            _differ("it is read as calling a function with a schema")
    if found - known - _RENDERED or known - found - _NO_CALLS:
        _differ("it is read as calling other functions")


def _compare_names(nodes: Iterable[tuple[str, Mapping[str, Any]]], known: frozenset[str]) -> None:
    """Compare names. The grammar has folded and cut every name, and each must be one of the guard's."""
    found: set[str] = set()
    for kind, node in nodes:
        if kind == "ColumnRef":
            found.update(part["String"]["sval"] for part in node["fields"] if "String" in part)
        elif kind in {"Alias", "alias"}:
            found.add(node.get("aliasname", ""))
            found.update(part["String"]["sval"] for part in node.get("colnames", ()))
        elif kind == "ResTarget":
            found.add(node.get("name", ""))
        elif kind == "CommonTableExpr":
            found.add(node["ctename"])
    if found - known - {""}:
        _differ("it is read as giving or using other names")


def _nodes(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every node with its name: its kind, or a field with a fixed kind."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            for kind, inner in item.items():
                if isinstance(inner, dict):
                    yield kind, inner
                if isinstance(inner, dict | list):
                    waiting.append(inner)
        elif isinstance(item, list):
            waiting.extend(item)


def _differ(how: str) -> NoReturn:
    refuse("cross-check", f"PostgreSQL's own grammar parses the statement differently: {how}", "write it more simply")
