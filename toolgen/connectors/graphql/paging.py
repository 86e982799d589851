"""Pagination of GraphQL: the arguments that set the page size, and the path of the next cursor in an answer."""

from __future__ import annotations

from collections.abc import Iterable

from graphql import (
    GraphQLArgument,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    get_named_type,
    get_nullable_type,
    is_list_type,
)
from graphql.utilities.get_default_value_ast import get_default_value_ast

from toolgen.connectors.graphql.default_selection import Selected, Selection, is_connection
from toolgen.connectors.graphql.options import DEFAULT_MAX_PAGE
from toolgen.model.graphql_schema import MAX_INT, PAGE_SIZES
from toolgen.model.schema import Schema

__all__ = ["cursor_of", "default_page", "is_size", "largest_page", "page_arguments", "sizing_inputs", "with_maximum"]

_DEFAULT_PAGE = 20
_AFTER, _PAGE_INFO_FIELDS = "after", "pageInfo"
_NO_NUMBERS = frozenset({"String", "ID", "Boolean"})
_NEEDED = frozenset({"hasNextPage", "endCursor"})


def page_arguments(field: GraphQLField, kind: str, sizing: frozenset[str]) -> tuple[str, ...]:
    """Return the arguments of a root field that set the number of items, directly or inside an input object.

    `sizing` are the schema's `sizing_inputs`. An argument of a mutation may be called `limit` with another meaning, so it counts only if
    the mutation answers with a list.
    """
    named = get_named_type(field.type)
    many = is_list_type(get_nullable_type(field.type)) or is_connection(named)
    if kind == "mutation":
        return tuple(name for name, one in field.args.items() if many and is_size(name, one))
    holds = isinstance(named, GraphQLObjectType) and any(
        is_list_type(get_nullable_type(one.type)) for one in named.fields.values()
    )
    if not many and not holds:
        return ()
    return tuple(
        name for name, one in field.args.items() if is_size(name, one) or get_named_type(one.type).name in sizing
    )


def is_size(name: str, argument: GraphQLArgument | GraphQLInputField) -> bool:
    """Return True if an argument, or a member of an input object, is a page size."""
    type_ = get_nullable_type(argument.type)
    return name in PAGE_SIZES and isinstance(type_, GraphQLScalarType) and type_.name not in _NO_NUMBERS


def sizing_inputs(schema: GraphQLSchema) -> frozenset[str]:
    """Return the input objects that contain the size of a page at any depth."""
    inputs = [one for one in schema.type_map.values() if isinstance(one, GraphQLInputObjectType)]
    above: dict[str, set[str]] = {}
    for one in inputs:
        for member in one.fields.values():
            above.setdefault(get_named_type(member.type).name, set()).add(one.name)
    found = {one.name for one in inputs if any(is_size(name, member) for name, member in one.fields.items())}
    new = set(found)
    while new:
        new = {upper for name in new for upper in above.get(name, ())} - found
        found |= new
    return frozenset(found)


def cursor_of(name: str, field: GraphQLField, below: Iterable[Selection]) -> tuple[str, ...]:
    """Return `("after", name)` for a connection whose next page can be requested (GraphQL Cursor Connections Specification), else ()."""
    if _AFTER not in field.args:
        return ()
    for one in below:
        if isinstance(one, Selected) and one.key == _PAGE_INFO_FIELDS:
            inside = {inner.key for inner in one.below if isinstance(inner, Selected)}
            return (_AFTER, name) if inside >= _NEEDED else ()
    return ()


def with_maximum(schema: Schema, max_page: int | None) -> Schema:
    """Return the schema of a page size with its maximum, if toolgen.yaml sets one.

    The gateway's own limit is not part of the service's schema, so a tool used without the gateway does not have it.
    """
    return schema if max_page is None else {**schema, "maximum": max_page}


def largest_page(max_page: int | None) -> int:
    """Return the largest page: toolgen.yaml's, else the gateway's own; 0 for no limit."""
    return 0 if max_page == MAX_INT else max_page or DEFAULT_MAX_PAGE


def default_page(field: GraphQLField, max_page: int | None) -> int:
    """Return the default number of items of a connection; 0 if it takes no size or the service has its own default."""
    first = field.args.get("first")
    if first is None or not is_connection(get_named_type(field.type)) or get_default_value_ast(first) is not None:
        return 0
    return min(_DEFAULT_PAGE, largest_page(max_page) or _DEFAULT_PAGE) if is_size("first", first) else 0
