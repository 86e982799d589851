"""Index of a schema: its types without descriptions, small enough to be stored with the tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
    value_from_ast_untyped,
)
from graphql.utilities.get_default_value_ast import get_default_value_ast

from toolgen.connectors.graphql.paging import is_size
from toolgen.model.graphql_schema import Graph, GraphArgument, GraphField, GraphType, named
from toolgen.model.schema import Schema

__all__ = ["graph_of"]


def graph_of(schema: GraphQLSchema, scalars: Mapping[str, Schema]) -> Graph:
    """Return the index of a schema. It does not contain introspection types, so documents that use them are not valid.

    `scalars` are the JSON Schemas of scalars in toolgen.yaml.
    """
    secret = frozenset(name for name, one in scalars.items() if _is_secret(one))
    roots = [
        "" if root is None else root.name
        for root in (schema.query_type, schema.mutation_type, schema.subscription_type)
    ]
    types = {
        name: made
        for name, type_ in sorted(schema.type_map.items())
        if not name.startswith("__") and (made := _type(type_)) is not None
    }
    return Graph(
        types=types,
        query=roots[0],
        mutation=roots[1],
        subscription=roots[2],
        secrets=tuple(sorted(_named(types, secret))) if secret else (),
    )


def _is_secret(schema: object) -> bool:
    """Return True if a schema marks its value, or a part of it, as secret."""
    if isinstance(schema, Mapping):
        return (
            schema.get("format") == "password"
            or schema.get("writeOnly") is True
            or any(_is_secret(one) for one in schema.values())
        )
    return isinstance(schema, list) and any(_is_secret(one) for one in schema)


def _named(types: Mapping[str, GraphType], secret: frozenset[str]) -> set[str]:
    """Return the names of arguments and input fields whose type is one of these scalars."""
    members = [
        members
        for one in types.values()
        for members in (one.inputs, *(field.arguments for field in one.fields.values()))
    ]
    return {name for one in members for name, argument in one.items() if named(argument.type) in secret}


def _type(type_: GraphQLNamedType) -> GraphType | None:
    match type_:
        case GraphQLObjectType() | GraphQLInterfaceType():
            kind = "object" if isinstance(type_, GraphQLObjectType) else "interface"
            fields = {
                name: GraphField(type=str(field.type), arguments=_arguments(field.args))
                for name, field in type_.fields.items()
            }
            return GraphType(kind=kind, fields=fields, members=_names(type_.interfaces))
        case GraphQLUnionType():
            return GraphType(kind="union", members=_names(type_.types))
        case GraphQLEnumType():
            return GraphType(kind="enum", members=tuple(type_.values))
        case GraphQLScalarType():
            return GraphType(kind="scalar")
        case GraphQLInputObjectType():
            return GraphType(kind="input", inputs=_arguments(type_.fields), one_of=bool(type_.is_one_of))
        case _:
            return None


def _names(types: Iterable[GraphQLNamedType]) -> tuple[str, ...]:
    return tuple(type_.name for type_ in types)


def _arguments(members: Mapping[str, GraphQLArgument] | Mapping[str, GraphQLInputField]) -> dict[str, GraphArgument]:
    return {
        name: GraphArgument(
            type=str(member.type),
            has_default=get_default_value_ast(member) is not None,
            default=_size_default(name, member),
        )
        for name, member in members.items()
    }


def _size_default(name: str, member: GraphQLArgument | GraphQLInputField) -> Any:
    """Return the default of a page size or of an input object; None for others."""
    literal = get_default_value_ast(member)
    inner = get_named_type(member.type)
    if literal is None or not (is_size(name, member) or isinstance(inner, GraphQLInputObjectType)):
        return None
    return value_from_ast_untyped(literal)
