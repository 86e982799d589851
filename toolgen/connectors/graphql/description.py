"""A GraphQL description as people publish it (SDL, introspection, a live endpoint), read into a schema with its faults listed.

A schema without its prose, small enough to be kept with the tools and read when a gateway starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLError,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLUnionType,
    build_ast_schema,
    build_client_schema,
    parse,
)
from graphql.utilities.get_default_value_ast import get_default_value_ast
from msgspec import Struct

from toolgen.connectors.graphql.introspection import introspect, parse_introspection
from toolgen.connectors.graphql.prose import prose
from toolgen.connectors.graphql.repair import DescriptionFault, DroppedField, repair
from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file
from toolgen.model.graphql_schema import Graph, GraphArgument, GraphField, GraphType, named
from toolgen.model.schema import Schema

__all__ = ["MAX_SIZE", "SchemaDescription", "graph_of", "is_url", "load_description"]

MAX_SIZE = 64 * 1024 * 1024
_TOKENS = 4_000_000  # GitHub's schema has about 300,000
_MAX_REASON_LENGTH = 300


class SchemaDescription(Struct, frozen=True, kw_only=True):
    """A schema that can be generated from. `dropped` are fields whose types the description never defines."""

    schema: GraphQLSchema
    digest: str  # of the bytes as read
    faults: tuple[DescriptionFault, ...] = ()
    dropped: tuple[DroppedField, ...] = ()


def is_url(location: str) -> bool:
    """Return True if a location is a URL rather than a file."""
    return urlsplit(location).scheme in {"http", "https"}


def load_description(location: str) -> SchemaDescription:
    """Reads SDL, an introspection result (bare or below `data`) or, from a URL, a live endpoint's introspection.

    Raises `DescriptionError` when there is nothing in it a schema could be built from.
    """
    if is_url(location):
        raw = msgspec.json.encode(introspect(location, largest=MAX_SIZE))
        return _from_introspection(raw, location)
    raw = _read(location)
    if raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and _is_json(raw):
        return _from_introspection(raw, location)
    return _from_sdl(raw, location)


def _read(location: str) -> bytes:
    try:
        raw = read_file(location, MAX_SIZE)
    except OSError as error:
        raise DescriptionError(f"cannot be read: {error.strerror}", where=location) from error
    if len(raw) > MAX_SIZE:
        raise DescriptionError(f"is larger than {MAX_SIZE // 2**20} MiB", where=location)
    return raw


def _is_json(raw: bytes) -> bool:
    """An SDL file may start with `{` too (a query put there by mistake); JSON's first token after it is a string or `}`."""
    return raw.lstrip(b"\xef\xbb\xbf \t\r\n")[1:].lstrip()[:1] in {b'"', b"}"}


def _from_sdl(raw: bytes, where: str) -> SchemaDescription:
    try:
        text = raw.decode("utf-8-sig")
        document = parse(text, max_lexical_tokens=_TOKENS)
    except UnicodeDecodeError as error:
        raise DescriptionError("is not UTF-8 text", where=where) from error
    except GraphQLError as error:
        line = f":{error.locations[0].line}" if error.locations else ""
        raise DescriptionError(f"is not GraphQL: {_reason(error)}", where=f"{where}{line}") from error
    repaired = repair(document)
    try:
        schema = build_ast_schema(repaired.document, assume_valid=True, assume_valid_sdl=True)
    except (GraphQLError, TypeError, ValueError, RecursionError) as error:
        raise DescriptionError(f"no schema can be built from it: {_reason(error)}", where=where) from error
    return SchemaDescription(schema=schema, digest=_sha256(raw), faults=repaired.faults, dropped=repaired.dropped)


def _from_introspection(raw: bytes, where: str) -> SchemaDescription:
    suggestion = "save the whole answer to the introspection query, or write the schema as SDL"
    try:
        document: Any = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise DescriptionError(f"is not JSON: {error}", where=where) from error
    if isinstance(document, Mapping) and isinstance(document.get("data"), Mapping):
        document = document["data"]
    if not isinstance(document, Mapping) or not isinstance(document.get("__schema"), Mapping):
        raise DescriptionError(
            "holds no `__schema`, so it is no introspection result", where=where, suggestion=suggestion
        )
    try:
        parsed, faults = parse_introspection(document["__schema"])
        schema = build_client_schema({"__schema": parsed}, assume_valid=True)
        _touch(schema)
    except msgspec.ValidationError as error:
        raise DescriptionError(
            f"is no introspection result: {_reason(error)}", where=where, suggestion=suggestion
        ) from error
    except (GraphQLError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise DescriptionError(
            f"no schema can be built from it: {_reason(error)}", where=where, suggestion=suggestion
        ) from error
    return SchemaDescription(schema=schema, digest=_sha256(raw), faults=faults)


def _touch(schema: GraphQLSchema) -> None:
    """Members are built when first asked for; they are asked for here, where a fault in them can be reported."""
    for member in schema.type_map.values():
        for members in ("fields", "types", "interfaces"):
            getattr(member, members, None)


def _reason(error: Exception) -> str:
    return prose(error.message if isinstance(error, GraphQLError) else str(error), limit=_MAX_REASON_LENGTH)


def _sha256(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def graph_of(schema: GraphQLSchema, scalars: Mapping[str, Schema]) -> Graph:
    """The index of a schema. Introspection's own types are not in it, and so nothing that asks for them is valid.

    `scalars` are the JSON Schemas that toolgen.yaml has for some.
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
        name: GraphArgument(type=str(member.type), has_default=get_default_value_ast(member) is not None)
        for name, member in members.items()
    }
