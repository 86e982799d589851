"""A schema without its prose, small enough to be kept with the tools and read when a gateway starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
)
from graphql.utilities.get_default_value_ast import get_default_value_ast

from toolgen.model.graph import Graph, GraphArgument, GraphField, GraphType

__all__ = ["graph_of"]


def graph_of(schema: GraphQLSchema) -> Graph:
    """The index of a schema. Introspection's own types are not in it, and so nothing that asks for them is valid."""
    roots = [
        "" if root is None else root.name
        for root in (schema.query_type, schema.mutation_type, schema.subscription_type)
    ]
    types = {
        name: made
        for name, type_ in sorted(schema.type_map.items())
        if not name.startswith("__") and (made := _type(type_)) is not None
    }
    return Graph(types=types, query=roots[0], mutation=roots[1], subscription=roots[2])


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
        name: GraphArgument(type=str(member.type), has_default=get_default_value_ast(member) is not None)
        for name, member in members.items()
    }
