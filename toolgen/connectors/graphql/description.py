"""Reader of a published GraphQL description (SDL, introspection, a live endpoint) that returns a schema and a list of its faults."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from graphql import (
    GraphQLError,
    GraphQLSchema,
    build_ast_schema,
    build_client_schema,
    parse,
)
from msgspec import Struct

from toolgen.connectors.graphql.introspection import introspect
from toolgen.connectors.graphql.introspection_result import parse_introspection
from toolgen.connectors.graphql.prose import prose
from toolgen.connectors.graphql.repair import DescriptionFault, DroppedField, repair
from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file

__all__ = ["MAX_SIZE", "SchemaDescription", "is_url", "load_description"]

MAX_SIZE = 64 * 1024 * 1024
_TOKENS = 4_000_000  # GitHub's schema has about 300,000
_MAX_REASON_LENGTH = 300


class SchemaDescription(Struct, frozen=True, kw_only=True):
    """Schema that tools can be generated from. `dropped` are fields with undefined types."""

    schema: GraphQLSchema
    digest: str  # digest of the bytes as read
    faults: tuple[DescriptionFault, ...] = ()
    dropped: tuple[DroppedField, ...] = ()


def is_url(location: str) -> bool:
    """Return True if a location is a URL rather than a file."""
    return urlsplit(location).scheme in {"http", "https"}


def load_description(location: str) -> SchemaDescription:
    """Read SDL, an introspection result (bare or below `data`) or, from a URL, the introspection of a live endpoint.

    Raises `DescriptionError` when no schema can be built from it.
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
    """Return True for JSON: the first token after `{` is a string or `}`. An SDL file may start with `{` too (a query by mistake)."""
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
            "has no `__schema`, so it is not an introspection result", where=where, suggestion=suggestion
        )
    try:
        parsed, faults = parse_introspection(document["__schema"])
        schema = build_client_schema({"__schema": parsed}, assume_valid=True)
        _touch(schema)
    except msgspec.ValidationError as error:
        raise DescriptionError(
            f"is not an introspection result: {_reason(error)}", where=where, suggestion=suggestion
        ) from error
    except (GraphQLError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise DescriptionError(
            f"no schema can be built from it: {_reason(error)}", where=where, suggestion=suggestion
        ) from error
    return SchemaDescription(schema=schema, digest=_sha256(raw), faults=faults)


def _touch(schema: GraphQLSchema) -> None:
    """Build the members of all types, which graphql-core builds lazily, so that their faults are reported here."""
    for member in schema.type_map.values():
        for members in ("fields", "types", "interfaces"):
            getattr(member, members, None)


def _reason(error: Exception) -> str:
    return prose(error.message if isinstance(error, GraphQLError) else str(error), limit=_MAX_REASON_LENGTH)


def _sha256(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()
