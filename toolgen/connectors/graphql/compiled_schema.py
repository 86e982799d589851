"""Compilation of a schema's index for validation by graphql-core, once when a gateway starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from graphql import (
    GraphQLArgument,
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLField,
    GraphQLFloat,
    GraphQLID,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInt,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLString,
    GraphQLUnionType,
)

from toolgen.model.graphql_schema import Graph, GraphArgument, GraphType

__all__ = ["DEFAULT", "compile_schema"]

DEFAULT: Final = "default"
"""Extension of an argument or member with its default. Values are not coerced with it, because the defaults of a schema may be circular."""

_BUILT_IN: Mapping[str, GraphQLNamedType] = {
    type_.name: type_ for type_ in (GraphQLInt, GraphQLFloat, GraphQLString, GraphQLBoolean, GraphQLID)
}


def compile_schema(graph: Graph) -> GraphQLSchema:
    """Return a schema for validation, not for execution. Types with a default become nullable, which is the only effect of the default."""
    types: dict[str, GraphQLNamedType] = dict(_BUILT_IN)
    for name, one in graph.types.items():
        if name not in types:
            types[name] = _type(name, one, types)
    roots = {kind: types.get(getattr(graph, kind)) for kind in ("query", "mutation", "subscription")}
    return GraphQLSchema(**cast("dict[str, Any]", roots), types=list(types.values()), assume_valid=True)


def _type(name: str, one: GraphType, types: Mapping[str, GraphQLNamedType]) -> GraphQLNamedType:
    def members() -> Any:
        return [types[member] for member in one.members if member in types]

    match one.kind:
        case "enum":
            return GraphQLEnumType(name, dict.fromkeys(one.members))
        case "scalar":
            return GraphQLScalarType(name)
        case "union":
            return GraphQLUnionType(name, members)
        case "input":
            inputs = cast("Callable[[], Any]", partial(_inputs, one.inputs, types))
            return GraphQLInputObjectType(name, inputs, is_one_of=one.one_of)
        case kind:
            made = GraphQLObjectType if kind == "object" else GraphQLInterfaceType
            return made(name, partial(_fields, one, types), interfaces=members)


def _fields(one: GraphType, types: Mapping[str, GraphQLNamedType]) -> dict[str, GraphQLField]:
    return {
        name: GraphQLField(
            _reference(field.type, types),
            {
                key: GraphQLArgument(_optional(argument, types), extensions=_extensions(argument))
                for key, argument in field.arguments.items()
            },
        )
        for name, field in one.fields.items()
    }


def _inputs(
    members: Mapping[str, GraphArgument], types: Mapping[str, GraphQLNamedType]
) -> dict[str, GraphQLInputField]:
    return {
        name: GraphQLInputField(_optional(one, types), extensions=_extensions(one)) for name, one in members.items()
    }


def _extensions(one: GraphArgument) -> dict[str, Any] | None:
    return None if one.default is None else {DEFAULT: one.default}


def _optional(one: GraphArgument, types: Mapping[str, GraphQLNamedType]) -> Any:
    return _reference(one.type.removesuffix("!") if one.has_default else one.type, types)


def _reference(text: str, types: Mapping[str, GraphQLNamedType]) -> Any:
    if text.endswith("!"):
        return GraphQLNonNull(_reference(text[:-1], types))
    if text.startswith("["):
        return GraphQLList(_reference(text[1:-1], types))
    return types[text]
