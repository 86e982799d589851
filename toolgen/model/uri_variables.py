"""Values of URI variables as arguments of a tool: a URI contains texts, and a schema may require numbers and booleans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolgen.model.schema import Json, Schema

__all__ = ["allowed_texts", "typed_value"]

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})\Z")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?\Z")
_PREFIX = "#/$defs/"
_MAX_DEPTH = 8


def typed_value(value: Json, schema: Schema, name: str) -> Json:
    """Return the value of a variable in the type of the property `name` of a schema; the text itself if it does not have that type."""
    if not isinstance(value, str):
        return value
    alternatives = [*_alternatives(_property(schema, name), schema, 0)]
    kinds = {kind for one in alternatives for kind in _types(one)}
    if not kinds or "string" in kinds:
        return value
    if "integer" in kinds and _INTEGER.match(value):
        return int(value)
    if "number" in kinds and _NUMBER.match(value):
        return float(value) if "." in value else int(value)
    if "boolean" in kinds and value in {"true", "false"}:
        return value == "true"
    return value


def allowed_texts(schema: Schema, name: str) -> tuple[str, ...]:
    """Return the texts that a variable may have in a URI, if the property `name` of a schema lists its values; () otherwise."""
    found: dict[str, None] = {}
    for one in _alternatives(_property(schema, name), schema, 0):
        values = one.get("enum", [one["const"]] if "const" in one else None)
        if not isinstance(values, list | tuple):
            if one.get("type") == "null":
                continue
            return ()
        found |= dict.fromkeys(text for value in values if (text := _text(value)))
    return tuple(found)


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            return ""


def _property(schema: Schema, name: str) -> Mapping[str, Any]:
    found = schema.get("properties", {}).get(name)
    return found if isinstance(found, Mapping) else {}


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    kind = schema.get("type")
    if kind is None:
        kinds = {type(one) for one in schema.get("enum", ())}
        return frozenset({"integer"}) if kinds == {int} else frozenset()
    return frozenset({kind} if isinstance(kind, str) else kind)


def _alternatives(schema: Mapping[str, Any], root: Schema, depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield the alternative schemas of a value, without references."""
    if depth > _MAX_DEPTH:
        yield {}
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_PREFIX):
        target = root.get("$defs", {}).get(reference.removeprefix(_PREFIX))
        yield from _alternatives(target if isinstance(target, Mapping) else {}, root, depth + 1)
        return
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list | tuple):
            for one in schema[key]:
                yield from _alternatives(one if isinstance(one, Mapping) else {}, root, depth + 1)
            return
    yield schema
