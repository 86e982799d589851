"""Arguments as JSON Schema 2020-12: nullable differs from optional, recursive types are in `$defs`, `@oneOf` is exactly one property."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLEnumValue,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLScalarType,
    ListValueNode,
    NullValueNode,
    ObjectValueNode,
    ValueNode,
    get_named_type,
    get_nullable_type,
    is_specified_scalar_type,
    value_from_ast_untyped,
)
from graphql.utilities.get_default_value_ast import get_default_value_ast
from msgspec import Struct

from toolgen.connectors.graphql.inlined_definitions import inlined
from toolgen.connectors.graphql.prose import gist, prose
from toolgen.connectors.graphql.scalars import input_scalar
from toolgen.model.schema import Json, Schema
from toolgen.model.shown_schema import is_large

__all__ = ["InputTooLargeError", "Inputs", "Wording", "is_required"]


_MAX_INLINE = 16  # values of an inline enum; a longer enum becomes a shared definition
_MAX_SIZE = 2**53 - 1


_MAX_DEFINITIONS = 10_000  # types used by the arguments of one operation; a database of 1,000 tables has 8,000
_MAX_VALUES_LENGTH = 4096  # characters of the descriptions of all values of an enum
_MAX_NOTE_LENGTH = 300  # characters of the description of one enum value or scalar
_MAX_GIST_LENGTH = 56
_RELAY_ID = "clientMutationId"  # standard argument (GraphQL Input Object Mutations Specification)
_Definable: TypeAlias = GraphQLEnumType | GraphQLInputObjectType


class Wording(Struct, frozen=True, kw_only=True):
    """Style of argument schemas: `scalars` are the JSON Schemas of scalars in toolgen.yaml.

    A `brief` schema accepts exactly the same values. It contains the first sentence of each description, and inlines definitions that are
    used once.
    """

    scalars: Mapping[str, Schema] = {}
    brief: bool = False


class _FoundInput(Struct):
    """Types that one schema refers to, collected during conversion."""

    wording: Wording
    types: dict[str, _Definable] = {}


class InputTooLargeError(Exception):
    """Raised if the arguments of one operation need more types than a tool can carry."""


class _NoJsonError(Exception):
    """Default value without a JSON form."""


class Inputs:
    """Schemas of the input types of one GraphQL schema, each made once and shared between tools."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._definitions: dict[str, Schema] = {}
        self._references: dict[str, dict[str, _Definable]] = {}

    def arguments(self, members: Mapping[str, GraphQLArgument]) -> Schema:
        """Return the input schema of a tool with these arguments. Raises `InputTooLargeError`."""
        found = _FoundInput(self._wording)
        schema: Schema = _object(members, found)
        definitions = self._closure(found.types)
        whole = {**schema, "$defs": definitions} if definitions else schema
        if definitions and self._wording.brief:
            schema, definitions = inlined(schema, definitions)
            shorter = {**schema, "$defs": definitions} if definitions else schema
            return whole if is_large(shorter) else shorter  # a schema that is too long is shown in parts, by type names
        return whole

    def _closure(self, found: dict[str, _Definable]) -> dict[str, Schema]:
        """Return the found definitions and all that they refer to; with a loop, because inputs may be nested to any depth."""
        reached: set[str] = set()
        waiting = list(found.values())
        while waiting:
            type_ = waiting.pop()
            if type_.name not in reached:
                if len(reached) >= _MAX_DEFINITIONS:
                    raise InputTooLargeError
                reached.add(type_.name)
                self._define(type_)
                waiting.extend(self._references[type_.name].values())
        return {name: self._definitions[name] for name in sorted(reached)}

    def _define(self, type_: _Definable) -> None:
        if type_.name not in self._definitions:
            found = _FoundInput(self._wording)
            match type_:
                case GraphQLEnumType():
                    self._definitions[type_.name] = _enum(type_, self._wording)
                case GraphQLInputObjectType():
                    self._definitions[type_.name] = _input_object(type_, found)
            self._references[type_.name] = found.types


def is_required(member: GraphQLArgument | GraphQLInputField) -> bool:
    """Return True for a non-null member without a default (spec, sections 3.6.1 and 3.10)."""
    return isinstance(member.type, GraphQLNonNull) and get_default_value_ast(member) is None


def _object(
    members: Mapping[str, GraphQLArgument] | Mapping[str, GraphQLInputField], found: _FoundInput
) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _member(name, member, member.type, found) for name, member in members.items()},
    }
    if required := [name for name, member in members.items() if is_required(member)]:
        schema["required"] = required
    # A service refuses unknown members (spec, section 5.6.2), so they are refused here already.
    schema["additionalProperties"] = False
    return schema


def _input_object(type_: GraphQLInputObjectType, found: _FoundInput) -> Schema:
    schema = _object(type_.fields, found)
    if type_.is_one_of:
        # Exactly one member, and not null (GraphQL September 2025, section 3.10.1).
        schema["properties"] = {
            name: _member(name, member, GraphQLNonNull(get_nullable_type(member.type)), found)
            for name, member in type_.fields.items()
        }
        schema |= {"minProperties": 1, "maxProperties": 1}
    if (about := prose(type_.description)) and not found.wording.brief:
        schema["description"] = about
    return schema


def _member(
    name: str, member: GraphQLArgument | GraphQLInputField, type_: GraphQLInputType, found: _FoundInput
) -> Schema:
    schema = dict(_type(type_, found))
    about = [prose(member.description), schema.pop("description", "")]
    if member.deprecation_reason is not None:
        schema["deprecated"] = True
        about.append(f"Deprecated: {prose(member.deprecation_reason)}")
    text = "\n".join(line for line in about if line)
    if found.wording.brief:
        text = "" if name == _RELAY_ID else gist(text, f"{name} {get_named_type(type_).name}", limit=_MAX_GIST_LENGTH)
    if text:
        schema["description"] = text
    node = get_default_value_ast(member)
    if node is not None:
        with suppress(_NoJsonError):
            schema["default"] = _literal(node, member.type)
    return schema


def _type(type_: GraphQLInputType, found: _FoundInput) -> Schema:
    if isinstance(type_, GraphQLNonNull):
        return _present(type_.of_type, found)
    return _nullable(_present(type_, found))


def _present(type_: GraphQLInputType, found: _FoundInput) -> Schema:
    """Return the schema of a type without null among its values."""
    match type_:
        case GraphQLList():
            return {"type": "array", "items": _type(type_.of_type, found)}
        case GraphQLEnumType() if len(type_.values) <= _MAX_INLINE:
            return _enum(type_, found.wording)
        case GraphQLEnumType() | GraphQLInputObjectType():
            found.types[type_.name] = type_
            return {"$ref": f"#/$defs/{type_.name}"}
        case GraphQLScalarType():
            return _scalar(type_, found.wording)
        case _:
            raise TypeError(f"{type_} is not an input type")


def _nullable(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    widened = {**schema, "type": [*types, "null"]}
    if "enum" in schema:
        widened["enum"] = [*schema["enum"], None]
    return widened


def _scalar(type_: GraphQLScalarType, wording: Wording) -> Schema:
    schema = input_scalar(type_.name, wording.scalars)
    if is_specified_scalar_type(type_):
        return schema
    if wording.brief:
        return schema if "format" in schema else {**schema, "description": type_.name}
    about = [
        f"{type_.name}: {prose(type_.description, limit=_MAX_NOTE_LENGTH)}".rstrip(": "),
        type_.specified_by_url or "",
    ]
    return {**schema, "description": " ".join(part for part in about if part)}


def _enum(type_: GraphQLEnumType, wording: Wording) -> Schema:
    if wording.brief:
        return {"type": "string", "enum": list(type_.values)}
    lines = [prose(type_.description)]
    lines += [f"{name}: {about}" for name, value in type_.values.items() if (about := _about_value(value))]
    schema: dict[str, Any] = {"type": "string", "enum": list(type_.values)}
    if text := prose("\n".join(line for line in lines if line), limit=_MAX_VALUES_LENGTH):
        schema["description"] = text
    return schema


def _about_value(value: GraphQLEnumValue) -> str:
    about = prose(value.description, limit=_MAX_NOTE_LENGTH)
    if value.deprecation_reason is None:
        return about
    return f"{about} (deprecated: {prose(value.deprecation_reason, limit=_MAX_NOTE_LENGTH)})".strip()


def _literal(node: ValueNode, type_: GraphQLInputType) -> Json:
    """Return a default as JSON. Raises `_NoJsonError` if it has no JSON form."""
    inner = type_.of_type if isinstance(type_, GraphQLNonNull) else type_
    match node, inner:
        case NullValueNode(), _:
            return None
        case ListValueNode(values=items), GraphQLList():
            return [_literal(item, inner.of_type) for item in items]
        case _, GraphQLList():
            return [_literal(node, inner.of_type)]  # input coercion of a single value (spec, section 3.11)
        case ObjectValueNode(fields=members), GraphQLInputObjectType():
            known = [member for member in members if member.name.value in inner.fields]
            return {one.name.value: _literal(one.value, inner.fields[one.name.value].type) for one in known}
        case _:
            return _exact(value_from_ast_untyped(node))


def _exact(value: Any) -> Json:
    """Return a value in JSON that every reader reads alike: an integer beyond 2**53 becomes text (RFC 8259, section 6).

    Raises `_NoJsonError` for NaN, infinity, and values without a JSON form.
    """
    match value:
        case bool() | str() | None:
            return value
        case int() if not -_MAX_SIZE <= value <= _MAX_SIZE:
            return str(value)
        case float() if not math.isfinite(value):
            raise _NoJsonError
        case int() | float():
            return value
        case list():
            return [_exact(item) for item in value]
        case dict():
            return {key: _exact(item) for key, item in value.items()}
        case _:
            raise _NoJsonError
