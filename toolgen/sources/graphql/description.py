"""A GraphQL description as people publish it (SDL, introspection, a live endpoint), read into a schema with its faults listed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from graphql import GraphQLError, GraphQLSchema, build_ast_schema, build_client_schema, parse, parse_const_value

from toolgen.errors import DescriptionError
from toolgen.sources.graphql.introspect import introspect
from toolgen.sources.graphql.repair import Dropped, Fault, repair
from toolgen.sources.graphql.text import is_name, prose

__all__ = ["LARGEST", "Description", "is_url", "load_description"]

LARGEST = 64 * 1024 * 1024
_TOKENS = 4_000_000  # GitHub's schema has about 300,000
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A schema that can be generated from. `dropped` are fields whose types the description never defines."""

    schema: GraphQLSchema
    digest: str  # of the bytes as read
    faults: tuple[Fault, ...] = ()
    dropped: tuple[Dropped, ...] = ()


def is_url(location: str) -> bool:
    """Whether a location is asked over the network rather than opened."""
    return urlsplit(location).scheme in {"http", "https"}


def load_description(location: str) -> Description:
    """Reads SDL, an introspection result (bare or below `data`) or, from a URL, a live endpoint's introspection.

    Raises `DescriptionError` when there is nothing in it a schema could be built from.
    """
    if is_url(location):
        raw = orjson.dumps(introspect(location, largest=LARGEST))
        return _from_introspection(raw, location)
    raw = _read(location)
    if raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and _is_json(raw):
        return _from_introspection(raw, location)
    return _from_sdl(raw, location)


def _read(location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise DescriptionError(f"cannot be read: {error.strerror}", where=location) from error
    if len(raw) > LARGEST:
        raise DescriptionError(f"is larger than {LARGEST // 2**20} MiB", where=location)
    return raw


def _is_json(raw: bytes) -> bool:
    """An SDL file may start with `{` too (a query put there by mistake); JSON's first token after it is a string or `}`."""
    return raw.lstrip(b"\xef\xbb\xbf \t\r\n")[1:].lstrip()[:1] in {b'"', b"}"}


def _from_sdl(raw: bytes, where: str) -> Description:
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
    return Description(schema=schema, digest=_sha256(raw), faults=repaired.faults, dropped=repaired.dropped)


def _from_introspection(raw: bytes, where: str) -> Description:
    suggestion = "save the whole answer to the introspection query, or write the schema as SDL"
    try:
        document: Any = orjson.loads(raw.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise DescriptionError(f"is not JSON: {error}", where=where) from error
    if isinstance(document, Mapping) and isinstance(document.get("data"), Mapping):
        document = document["data"]
    if not isinstance(document, Mapping) or not isinstance(document.get("__schema"), Mapping):
        raise DescriptionError(
            "holds no `__schema`, so it is no introspection result", where=where, suggestion=suggestion
        )
    # SDL's grammar guarantees its names; JSON guarantees nothing, and a name goes into the text of operations.
    for name in _names(document["__schema"]):
        if not is_name(name):
            raise DescriptionError(f"{name!r:.60} is not a GraphQL name", where=where)
    try:
        faults = tuple(_drop_defaults(document["__schema"]))
        schema = build_client_schema({"__schema": document["__schema"]}, assume_valid=True)
        _touch(schema)
    except (GraphQLError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise DescriptionError(
            f"no schema can be built from it: {_reason(error)}", where=where, suggestion=suggestion
        ) from error
    return Description(schema=schema, digest=_sha256(raw), faults=faults)


def _names(schema: object) -> Iterator[object]:
    """Every `name` in an introspection result, but for the null ones of wrapping types."""
    return (item["name"] for item in _objects(schema) if item.get("name") is not None)


def _drop_defaults(schema: object) -> Iterator[Fault]:
    """Takes out default values that are no GraphQL (some services print those of their own language)."""
    for item in _objects(schema):
        default = item.get("defaultValue")
        if default is None:
            continue
        try:
            parse_const_value(default, no_location=True)
        except (GraphQLError, TypeError):
            item["defaultValue"] = None
            message = f"the default value of an input named {item.get('name')} is no GraphQL and was left out"
            yield Fault(code="invalid_default", origin="schema", message=message)


def _objects(value: object) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value, however deep."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _touch(schema: GraphQLSchema) -> None:
    """Members are built when first asked for; they are asked for here, where a fault in them can be reported."""
    for named in schema.type_map.values():
        for members in ("fields", "types", "interfaces"):
            getattr(named, members, None)


def _reason(error: Exception) -> str:
    return prose(error.message if isinstance(error, GraphQLError) else str(error), limit=_LONGEST_REASON)


def _sha256(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()
