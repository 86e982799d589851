"""Output schemas of operations and subscriptions, for the `data` of a GraphQL answer."""

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

from toolgen.connectors.graphql.default_selection import Fragment, Selected, Selection
from toolgen.connectors.graphql.scalars import output_scalar
from toolgen.model.schema import Schema

__all__ = ["events_of", "output_schema"]

_TEXT: Schema = {"type": "string"}


def output_schema(field: str, definition: GraphQLField, below: Iterable[Selection], *, open_: bool) -> Schema:
    """Return the schema of `{"field": …}`. A nullable field may be null and is never missing (spec, section 7.1.1).

    With `open_`, other fields may be selected; the fields of this schema have these types if they are present.
    """
    inner = _type(definition.type, tuple(below), open_)
    return {"type": "object", "properties": {field: inner}, "required": [field]}


def _object(below: Iterable[Selection], open_: bool) -> Schema:
    properties: dict[str, Schema] = {}
    required: list[str] = []
    loose: dict[str, Schema] = {}
    for one in below:
        match one:
            case Selected():
                properties[one.key] = _of(one, open_)
                required.append(one.key)
            case Fragment():
                for inner in one.below:
                    properties[inner.key] = _of(inner, open_)
                    if inner.alias and open_:
                        loose[inner.name] = {}  # selected separately, it has another type than its neighbour's
    return {"type": "object", "properties": properties | loose, **({} if open_ else {"required": required})}


def _of(one: Selected, open_: bool) -> Schema:
    return _TEXT if one.type is None else _type(one.type, one.below, open_)


def _type(type_: GraphQLOutputType, below: tuple[Selection, ...], open_: bool) -> Schema:
    if isinstance(type_, GraphQLNonNull):
        return _present(type_.of_type, below, open_)
    schema: dict[str, Any] = dict(_present(type_, below, open_))
    if "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return schema


def _present(type_: GraphQLOutputType, below: tuple[Selection, ...], open_: bool) -> Schema:
    match type_:
        case GraphQLList():
            return {"type": "array", "items": _type(type_.of_type, below, open_)}
        case GraphQLEnumType():
            return _TEXT  # a value added later must not invalidate an answer
        case GraphQLScalarType():
            return output_scalar(type_.name)
        case _:
            return _object(below, open_)


def events_of(answer: Schema) -> Schema:
    """Return the schema of the result of a subscription's tool: the `data` of each event, and the reason for the end."""
    ended = {"enum": ["complete", "events", "seconds", "bytes"]}
    properties = {"events": {"type": "array", "items": answer}, "ended": ended}
    return {"type": "object", "properties": properties, "required": ["events", "ended"]}
