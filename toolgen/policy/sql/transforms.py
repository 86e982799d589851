"""How often a text may be worked through that only the server's own bounds keep small: 1 GB in PostgreSQL, seconds for each function.

Nothing looks at the clock between the functions of one row, so a chain of them would go on for as long as it is, whoever cancels it.
MySQL gathers 1 MB unless its operator says otherwise, and the processes of SQLite and DuckDB are ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from toolgen.policy.sql.marks import CALL, slot_number
from toolgen.policy.sql.refusal import refuse
from toolgen.policy.sql.titles import computed_title

__all__ = ["check_transforms"]

_MOST: Final = 4
_MOST_DOUBLINGS: Final = 8  # each at least doubles what columns hold
_GATHERING: Final = frozenset(
    {
        "array_agg", "array_to_string", "json_agg", "json_arrayagg", "json_object_agg", "json_objectagg", "jsonb_agg", "jsonb_agg_strict",
        "jsonb_object_agg", "jsonb_object_agg_strict", "string_agg",
    }
)  # fmt: skip
_JOINING: Final = frozenset({"concat", "concat_ws", "format", "overlay", "replace"})
_TRANSFORMS: Final = frozenset(
    {
        "array_to_tsvector", "btrim", "casefold", "convert_from", "convert_to", "decode", "encode", "format", "initcap", "left", "lower",
        "lpad", "ltrim", "md5", "normalize", "overlay", "parse_ident", "quote_ident", "quote_literal", "quote_nullable", "regexp_count",
        "regexp_instr", "regexp_like", "regexp_match", "regexp_replace", "regexp_split_to_array", "regexp_substr", "replace", "reverse",
        "right", "rpad", "rtrim", "sha224", "sha256", "sha384", "sha512", "split_part", "string_to_array", "strpos", "substr",
        "substring", "to_ascii", "to_tsvector", "translate", "trim", "ts_headline", "unistr", "upper",
    }
)  # fmt: skip


def check_transforms(root: exp.Expr, dialect: str) -> None:
    """Raises `Refusal`, rule `size`."""
    if dialect != "postgres":
        return
    found = [*root.find_all(exp.With, exp.DPipe, exp.Anonymous, exp.GroupConcat, exp.Array)]
    doubled = sum(_joins(node) and _is_inner(node) for node in found) >= _MOST_DOUBLINGS
    doubled = doubled or any(node.args.get("recursive") for node in found)
    if not doubled and not any(map(_gathers, found)):
        return
    names = None if doubled else _large_names(root)
    if sum(_is_transform(node) and _is_large(node, names) for node in root.walk()) > _MOST:
        refuse(
            "size",
            f"more than {_MOST} functions work through texts that the statement puts together",
            "change the values before they are put together, or fewer times after it",
        )


def _large_names(root: exp.Expr) -> frozenset[str]:
    """What the columns of inner queries are called that hold something gathered, however often they were handed on."""
    items = list(_items(root))
    names: frozenset[str] = frozenset()
    while more := {name for name, item in items if name not in names and _is_large(item, names)}:
        names |= more
    return names


def _items(root: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The columns that queries give to others. One that is renamed as a whole has all of its names for each."""
    for select in root.find_all(exp.Select):
        if select.parent is None:
            continue
        around = select.find_ancestor(exp.CTE, exp.Subquery)
        renamed = [name.lower() for name in around.alias_column_names] if around is not None else []
        owner = [around.alias.lower()] if around is not None else []  # `t` alone is a whole row
        for item in select.expressions:
            for name in (computed_title(item).lower(), *renamed, *owner):
                yield name, item


def _is_large(node: exp.Expr, names: frozenset[str] | None) -> bool:
    """Whether something gathered stands in it, or a column that holds such; `None`: any column may."""
    for part in node.walk():
        if _gathers(part):
            return True
        if isinstance(part, exp.Column) and slot_number(part) is None and (names is None or part.name.lower() in names):
            return True
    return False


def _is_transform(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return not node.is_type("text", "varchar")
    return isinstance(node, (exp.Trim, exp.Substring, exp.Overlay, exp.StrPosition)) or _called(node) in _TRANSFORMS


def _gathers(node: exp.Expr) -> bool:
    gathered = isinstance(node, exp.GroupConcat) or _called(node) in _GATHERING
    return gathered or (isinstance(node, exp.Array) and node.find(exp.Query) is not None)


def _joins(node: exp.Expr) -> bool:
    return isinstance(node, exp.DPipe) or _called(node) in _JOINING


def _is_inner(node: exp.Expr) -> bool:
    query = node.find_ancestor(exp.Query)
    return query is not None and query.parent is not None


def _called(node: exp.Expr) -> str:
    name = node.this if isinstance(node, exp.Anonymous) else None
    return name[len(CALL) :].lower() if isinstance(name, str) and name.startswith(CALL) else ""
