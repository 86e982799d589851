"""Conversions between values and texts, the types that a schema permits, and integral numbers as integers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from toolgen.core.json_codec import MAX_DEPTH, deeper_than, file_json, with_integers
from toolgen.model.schema import Json, Schema, json_type

__all__ = ["ALL", "SCALARS", "distinct", "kinds", "number_of", "parsed", "text_of"]

ALL = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
SCALARS = frozenset({"string", "integer", "number", "boolean"})
_EXACT = 2**53  # beyond it a float stands for several integers
_MAX_NUMBER_LENGTH = 310
_MAX_JSON_LENGTH = 65_536  # maximum characters of a text that is read as JSON
_REFERENCES = 16


def kinds(schema: object, root: Schema, depth: int = 0) -> frozenset[str]:
    """Return the JSON types that a schema's values may have, as far as it states them; `number` includes integers."""
    if schema is False:
        return frozenset()
    if not isinstance(schema, Mapping) or depth > _REFERENCES:
        return ALL
    found = ALL
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found &= kinds(referred(reference, root), root, depth + 1)
    declared = schema.get("type")
    if declared is not None:
        found &= _declared([declared] if isinstance(declared, str) else declared)
    if "const" in schema:
        found &= _declared({json_type(schema["const"])})
    if isinstance(schema.get("enum"), Sequence):
        found &= _declared({json_type(item) for item in schema["enum"]})
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), Sequence):
            found &= frozenset().union(*(kinds(item, root, depth + 1) for item in schema[keyword]))
    for item in schema.get("allOf", ()):
        found &= kinds(item, root, depth + 1)
    return found


def referred(reference: str, root: Schema) -> object:
    """Return the target of a local reference; True, the schema without constraints, for any other reference."""
    found: Any = root
    if not reference.startswith("#/"):
        return root if reference == "#" else True
    for step in reference[2:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return True
        found = found[key]
    return found


def _declared(types: Iterable[str]) -> frozenset[str]:
    named = frozenset(types)
    return named | {"integer"} if "number" in named else named


def text_of(value: Json) -> str:
    """Return the text of a value in parts of a request that are only text: a text unchanged, `true` or `false` for booleans, and JSON for
    all other values."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int():
            return str(value)
        case _:
            try:
                return file_json(value, _plain).decode()
            except (TypeError, ValueError, RecursionError):  # half a surrogate pair, for example
                return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else str(value)


def number_of(text: str) -> int | float | None:
    """Return the number that a lenient service may read from a text (`7`, ` 7`, `+7`, `07`, `7.0`, `70e-1`); None if there is none."""
    begins = text.strip()[:1]
    if len(text) > _MAX_NUMBER_LENGTH or not (begins.isdigit() or begins in {"+", "-", "."}):
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) <= _EXACT else value


def parsed(text: str, allowed: frozenset[str]) -> Json:
    """Parse a text as one of these types other than text: a number, a boolean, `null`, JSON. Returns the text if it is none of them."""
    number = number_of(text)
    if number is not None:
        return number if json_type(number) in allowed else text
    match text.strip().casefold():
        case "true" | "false" as word if "boolean" in allowed:
            return word == "true"
        case "null" if "null" in allowed:
            return None
        case _ if text[:1] in {"[", "{"} and len(text) <= _MAX_JSON_LENGTH and allowed & {"array", "object"}:
            return _json(text, allowed)
        case _:
            return text


def _json(text: str, allowed: frozenset[str]) -> Json:
    if deeper_than(text.encode("utf-8", "surrogatepass"), MAX_DEPTH):
        return text
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text
    return with_integers(value) if json_type(value) in allowed else text


def distinct(values: Iterable[Json]) -> list[Json]:
    """Return the values without duplicates as JSON (`1` and `true` are equal in Python, but not in JSON)."""
    found: dict[tuple[str, str], Json] = {}
    for value in values:
        found.setdefault((json_type(value), text_of(value)), value)
    return [*found.values()]
