"""Pagination of GraphQL: the arguments that set the page size, and the place of the next cursor in an answer."""

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

__all__ = ["capped", "cursor_of", "default_page", "is_size", "largest_page", "page_arguments", "sizing_inputs"]

_DEFAULT_PAGE = 20
_AFTER, _PAGE_INFO_FIELDS = "after", "pageInfo"
_NO_NUMBERS = frozenset({"String", "ID", "Boolean"})
_NEEDED = frozenset({"hasNextPage", "endCursor"})


def page_arguments(field: GraphQLField, kind: str, sizing: frozenset[str]) -> tuple[str, ...]:
    """The arguments of a root field that say how many items it answers with, themselves or inside an input object.

    `sizing` are the schema's `sizing_inputs`. What a mutation is told may be called `limit` and be anything, so it is one only where the
    mutation answers with a list.
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
    """The input objects in which, however deep, the size of a page can stand."""
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
    """`("after", name)` for a connection whose next page can be asked for (GraphQL Cursor Connections Specification), or nothing."""
    if _AFTER not in field.args:
        return ()
    for one in below:
        if isinstance(one, Selected) and one.key == _PAGE_INFO_FIELDS:
            inside = {inner.key for inner in one.below if isinstance(inner, Selected)}
            return (_AFTER, name) if inside >= _NEEDED else ()
    return ()


def capped(schema: Schema, max_page: int | None) -> Schema:
    """The size of a page with its largest value where toolgen.yaml sets one.

    The gateway's own is no part of what the service takes, so a tool that is used without the gateway's settings does not have it.
    """
    return schema if max_page is None else {**schema, "maximum": max_page}


def largest_page(max_page: int | None) -> int:
    """The most that may be asked for, toolgen.yaml's or the gateway's own; 0 for any number."""
    return 0 if max_page == MAX_INT else max_page or DEFAULT_MAX_PAGE


def default_page(field: GraphQLField, max_page: int | None) -> int:
    """Number of items that a connection is asked for by default; 0 where it cannot be asked, or the service has a default of its own."""
    first = field.args.get("first")
    if first is None or not is_connection(get_named_type(field.type)) or get_default_value_ast(first) is not None:
        return 0
    return min(_DEFAULT_PAGE, largest_page(max_page) or _DEFAULT_PAGE) if is_size("first", first) else 0
