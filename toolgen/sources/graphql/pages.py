"""Pages: which arguments size them, and where in an answer the next one begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graphql import GraphQLArgument, GraphQLField, GraphQLInt, get_named_type, get_nullable_type, is_list_type

from toolgen.model.graph import PAGE_SIZES
from toolgen.model.schema import Schema
from toolgen.sources.graph_options import DEFAULT_MAX_PAGE
from toolgen.sources.graphql.selection import Selected, Selection, is_connection

__all__ = ["capped", "cursor_of", "holds_file", "is_size", "page_arguments"]

_AFTER, _PAGE_INFO = "after", "pageInfo"
_NEEDED = frozenset({"hasNextPage", "endCursor"})


def page_arguments(field: GraphQLField) -> tuple[str, ...]:
    """The arguments of a field that say how many items it answers with."""
    many = is_list_type(get_nullable_type(field.type)) or is_connection(get_named_type(field.type))
    return tuple(name for name, one in field.args.items() if many and is_size(name, one))


def is_size(name: str, argument: GraphQLArgument) -> bool:
    """Whether an argument is a number of items."""
    return name in PAGE_SIZES and get_nullable_type(argument.type) is GraphQLInt


def cursor_of(name: str, field: GraphQLField, below: Iterable[Selection]) -> tuple[str, ...]:
    """`("after", name)` for a connection whose next page can be asked for (GraphQL Cursor Connections Specification), or nothing."""
    if _AFTER not in field.args:
        return ()
    for one in below:
        if isinstance(one, Selected) and one.key == _PAGE_INFO:
            inside = {inner.key for inner in one.below if isinstance(inner, Selected)}
            return (_AFTER, name) if inside >= _NEEDED else ()
    return ()


def capped(schema: Schema, max_page: int | None) -> Schema:
    """The size of a page with its largest value: as a rule where toolgen.yaml sets one, as a word where the gateway's own holds.

    The gateway's own is no part of what the service takes, so a tool that is used without the gateway's settings does not have it.
    """
    if max_page is not None:
        return {**schema, "maximum": max_page}
    about = schema.get("description", "")
    return {**schema, "description": f"{about}{' ' if about else ''}At most {DEFAULT_MAX_PAGE}."}


def holds_file(schema: Any) -> bool:
    """Whether some argument below a schema is a file."""
    if isinstance(schema, Mapping):
        return schema.get("contentEncoding") == "base64" or any(map(holds_file, schema.values()))
    return isinstance(schema, list) and any(map(holds_file, schema))
