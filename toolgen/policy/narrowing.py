"""The JSON Schema of a rule's `arguments:`: strict, because a misspelt keyword would narrow nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolgen.model.names import nearest
from toolgen.policy.arguments import check_schema

__all__ = ["arguments_of", "fault_of"]

_MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLES = (
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_PLAIN = (
    "$ref",
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    "title",
    "description",
    "$comment",
)
_KEYWORDS = frozenset({*_MAPS, *_LISTS, *_SINGLES, *_PLAIN})
_BY_NAME = frozenset(
    {
        "properties", "required", "dependentRequired", "dependentSchemas", "type", "title", "description", "$comment", "$defs",
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
    }
)  # fmt: skip
_SAME_INSTANCE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")


def fault_of(schema: Mapping[str, Any], known: Iterable[str]) -> str | None:
    """Why a schema cannot narrow arguments of these names, or None when it can.

    Keywords are those of JSON Schema 2020-12 that can refuse something; `format` is not among them, because it refuses nothing.
    """
    if not schema:
        return "it is empty and narrows nothing"
    names = set(known)
    for part in _parts(schema):
        for keyword in part:
            if keyword not in _KEYWORDS:
                return f"unknown JSON Schema keyword '{keyword}'{nearest(keyword, _KEYWORDS)}"
    if fault := check_schema(schema):
        return fault
    for name in _names(schema):
        if name not in names:
            return f"no tool of it has an argument '{name}'{nearest(name, names)}"
    return None


def arguments_of(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """The arguments that decide whether a schema accepts a call; None where it may be any of them."""
    for part in _same(schema):
        if not _BY_NAME.issuperset(part):
            return None
    return frozenset(_names(schema))


def _same(schema: object) -> Iterator[Mapping[str, Any]]:
    """A schema and those it applies to the same instance."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for keyword in _SAME_INSTANCE:
        below = schema.get(keyword)
        for item in below if isinstance(below, list) else (below,):
            yield from _same(item)
    for dependent in schema.get("dependentSchemas", {}).values():
        yield from _same(dependent)


def _parts(schema: object) -> Iterator[Mapping[str, Any]]:
    """A schema and all schemas in it."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for keyword in _MAPS:
        below = schema.get(keyword)
        for item in below.values() if isinstance(below, Mapping) else ():
            yield from _parts(item)
    for keyword in _LISTS:
        below = schema.get(keyword)
        for item in below if isinstance(below, list) else ():
            yield from _parts(item)
    for keyword in _SINGLES:
        yield from _parts(schema.get(keyword))


def _names(schema: object) -> Iterator[str]:
    """The arguments a schema speaks about, through whatever combines schemas for the same instance."""
    if not isinstance(schema, Mapping):
        return
    for keyword in ("properties", "dependentRequired", "dependentSchemas"):
        yield from schema.get(keyword, ())
    yield from schema.get("required", ())
    for required in schema.get("dependentRequired", {}).values():
        yield from required
    for dependent in schema.get("dependentSchemas", {}).values():
        yield from _names(dependent)
    for keyword in _SAME_INSTANCE:
        below = schema.get(keyword)
        for item in below if isinstance(below, list) else (below,):
            yield from _names(item)
