"""How much work a function may be given that its server does not interrupt: what is searched for is short, and was not put together.

Such a function takes as long as the text it looks in times the text it looks for. SQLite and DuckDB run in processes that are ended at
their deadline; a server is not ours to end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from toolgen.policy.sql.functions import GROWING
from toolgen.policy.sql.placeholders import CALL, slot_number
from toolgen.policy.sql.plan import MAX_NEEDLE_LENGTH
from toolgen.policy.sql.refusal import refuse, shown

__all__ = ["check_searches"]

_MAX_LIST_LENGTH: Final = 100  # of elements looked up in an array that was put together
_MAX_WIDTH: Final = 1_000

# Which argument is looked for in another one.
_NEEDLES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "postgres": {"strpos": 1, "replace": 1, "split_part": 1, "string_to_array": 1, "string_to_table": 1},
        "mysql": {
            "locate": 0, "instr": 1, "replace": 1, "substring_index": 1, "find_in_set": 0, "json_search": 2, "json_contains": 1,
            "json_overlaps": 1,
        },
    }
)  # fmt: skip
_PATTERNS: Final = (exp.Like, exp.ILike, exp.SimilarTo)
_SETS: Final = (
    *(exp.ArrayContainsAll, exp.ArrayContainedBy, exp.ArrayOverlaps, exp.JSONBContains),
    *(exp.JSONBContainsAnyTopKeys, exp.JSONBContainsAllTopKeys),
)
# Texts and lists of any size out of small ones.
_BUILDERS: Final = GROWING | frozenset(
    {
        "array_agg", "array_cat", "array_to_string", "group_concat", "json_agg", "json_arrayagg", "json_object_agg", "json_objectagg",
        "jsonb_agg", "jsonb_agg_strict", "jsonb_object_agg", "jsonb_object_agg_strict", "range_agg", "string_agg", "string_to_array",
    }
)  # fmt: skip
_JOINERS: Final = frozenset({"concat", "concat_ws", "format", "replace", "overlay", "insert"})
_POSITIONAL_WIDTH: Final = re.compile(r"%[0-9]+\$-?(\*|[0-9]*)")


def check_searches(root: exp.Expr, dialect: str) -> frozenset[int]:
    """Which parameters are looked for and may have no more than MAX_NEEDLE_LENGTH characters. Raises `Refusal`, rule `size`."""
    if dialect not in _NEEDLES:
        return frozenset()
    if dialect == "postgres":
        _check_templates(root)
    slots: set[int] = set()
    built: bool | None = None
    for wrapped, name in _needles(root, dialect):
        needle = _bare(wrapped)
        if isinstance(needle, exp.Literal):
            if len(needle.name) > MAX_NEEDLE_LENGTH:
                refuse(
                    "size",
                    f"what {shown(name)} looks for is longer than {MAX_NEEDLE_LENGTH} characters",
                    "look for less of it",
                )
            continue
        columns = list(needle.find_all(exp.Column))
        slots.update(number for column in columns if (number := slot_number(column)) is not None)
        if any(map(_builds, needle.walk())):
            _refuse_built(name)
        if any(slot_number(column) is None for column in columns) or needle.find(exp.Query):
            built = _puts_together(root) if built is None else built
            if built:
                _refuse_built(name)
    _check_sets(root)
    return frozenset(slots)


def _needles(root: exp.Expr, dialect: str) -> Iterator[tuple[exp.Expr, str]]:
    """Every expression that is looked for, and what looks for it."""
    names = _NEEDLES[dialect]
    for node in root.find_all(exp.Anonymous, exp.StrPosition, *_PATTERNS):
        if isinstance(node, exp.StrPosition):
            yield node.args["substr"], "position"
        elif isinstance(node, _PATTERNS):
            yield node.expression, "LIKE"
        elif (name := _called(node)) in names and len(node.expressions) > names[name]:
            yield node.expressions[names[name]], name


def _check_sets(root: exp.Expr) -> None:
    """Each element of one array is compared with each of the other: where one was put together, the other is written out."""
    lists: frozenset[str] | None = None
    for node in root.find_all(*_SETS, exp.Sub):
        if isinstance(node, exp.Sub):  # `jsonb - text[]` among all that subtracts
            lists = _list_names(root) if lists is None else lists
            if not _is_list(node.expression, lists):
                continue
        sides = (node.this, node.expression)
        if any(_is_short(_bare(side)) for side in sides):
            continue
        if _puts_together(root):
            refuse(
                "size",
                "two arrays are compared, and the statement puts one together",
                f"write one of them out, with at most {_MAX_LIST_LENGTH} elements",
            )


def _list_names(root: exp.Expr) -> frozenset[str]:
    """What the columns of inner queries are called that hold a list."""
    names: frozenset[str] = frozenset()
    items = [item for select in root.find_all(exp.Select) if select.parent is not None for item in select.expressions]
    while more := {item.alias_or_name.lower() for item in items if _is_list(item.unalias(), names)} - names:
        names |= more
    renamed = (name.lower() for node in root.find_all(exp.CTE, exp.Subquery) for name in node.alias_column_names)
    return names | frozenset(renamed) if names else names


def _is_list(node: exp.Expr, names: frozenset[str]) -> bool:
    match node:
        case exp.Paren() | exp.Filter() | exp.Subquery():
            return _is_list(node.this, names)
        case exp.Select():
            return any(_is_list(item.unalias(), names) for item in node.expressions)
        case exp.Cast():
            return node.to.this is exp.DataType.Type.ARRAY
        case exp.Column():
            return node.name.lower() in names
        case exp.Anonymous():
            return _called(node).startswith(
                ("array_", "string_to_array", "regexp_split_to_array", "regexp_match", "coalesce")
            )
    return isinstance(node, exp.Array)


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    return node


def _is_short(side: exp.Expr) -> bool:
    if isinstance(side, exp.Array):
        return len(side.expressions) <= _MAX_LIST_LENGTH and not side.find(exp.Query)
    return isinstance(side, exp.Literal) or (isinstance(side, exp.Column) and slot_number(side) is not None)


def _puts_together(root: exp.Expr) -> bool:
    """Whether a column of the statement may be a text or list that no table has."""
    return any(_builds(node) or (_joins(node) and _is_inner(node)) for node in root.walk()) or any(
        node.args.get("recursive") for node in root.find_all(exp.With)
    )


def _builds(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.GroupConcat)
        or (isinstance(node, exp.Anonymous) and _called(node) in _BUILDERS)
        or (isinstance(node, exp.Array) and node.find(exp.Query) is not None)
    )


def _joins(node: exp.Expr) -> bool:
    return isinstance(node, exp.DPipe) or (isinstance(node, exp.Anonymous) and _called(node) in _JOINERS)


def _is_inner(node: exp.Expr) -> bool:
    """Whether what is made here may be a column of another query. Doubled a few times, a short text is a long one."""
    query = node.find_ancestor(exp.Query)
    return query is not None and query.parent is not None


def _refuse_built(name: str) -> None:
    refuse("size", f"what {shown(name)} looks for is put together by the statement", "write out what to look for")


def _called(node: exp.Expr) -> str:
    name = node.this
    return name[len(CALL) :].lower() if isinstance(name, str) and name.startswith(CALL) else ""


def _check_templates(root: exp.Expr) -> None:
    """https://www.postgresql.org/docs/current/functions-string.html#FUNCTIONS-STRING-FORMAT: `%1$900000s`, a width behind a position."""
    for node in root.find_all(exp.Anonymous):
        if _called(node) == "format" and node.expressions:
            for width in _POSITIONAL_WIDTH.findall(node.expressions[0].name):
                if width == "*" or int(width[:9] or 0) > _MAX_WIDTH:
                    refuse(
                        "size",
                        f"a width in the template of format is not a number up to {_MAX_WIDTH}",
                        "write a smaller width",
                    )
