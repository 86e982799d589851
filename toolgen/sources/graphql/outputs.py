"""What a selection returns, as JSON Schema: the `data` of a GraphQL answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLList,
    GraphQLNonNull,
    GraphQLOutputType,
    GraphQLScalarType,
)

from toolgen.model.schema import Schema
from toolgen.sources.graphql.scalars import output_scalar
from toolgen.sources.graphql.selection import Fragment, Selected, Selection

__all__ = ["output_schema"]

_TEXT: Schema = {"type": "string"}


def output_schema(field: str, definition: GraphQLField, below: Iterable[Selection]) -> Schema:
    """The schema of `{"field": …}`. A nullable field may be null in it and is never missing (spec, section 7.1.1)."""
    return _object([Selected(name=field, type=definition.type, below=tuple(below))])


def _object(below: Iterable[Selection]) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for one in below:
        match one:
            case Selected():
                properties[one.key] = _of(one)
                required.append(one.key)
            case Fragment():
                properties |= {inner.key: _of(inner) for inner in one.below}
    return {"type": "object", "properties": properties, "required": required}


def _of(one: Selected) -> Schema:
    return _TEXT if one.type is None else _type(one.type, one.below)


def _type(type_: GraphQLOutputType, below: tuple[Selection, ...]) -> Schema:
    if isinstance(type_, GraphQLNonNull):
        return _present(type_.of_type, below)
    schema: dict[str, Any] = dict(_present(type_, below))
    if "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return schema


def _present(type_: GraphQLOutputType, below: tuple[Selection, ...]) -> Schema:
    match type_:
        case GraphQLList():
            return {"type": "array", "items": _type(type_.of_type, below)}
        case GraphQLEnumType():
            return _TEXT  # a value added tomorrow is no reason to refuse an answer
        case GraphQLScalarType():
            return output_scalar(type_.name)
        case _:
            return _object(below)
