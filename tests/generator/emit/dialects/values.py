"""Values that conform to a schema, and the two translations that the dialects' tests hold against each other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import jsonschema_rs

from toolgen.generator.emit.dialects.merge import target
from toolgen.generator.samples.json_schema import NoSampleError, samples


def some(schema: Mapping[str, Any], count: int = 8) -> list[Any]:
    """Up to `count` values that conform; none where the generator finds none."""
    found: list[Any] = []
    try:
        found.extend(islice(samples(schema), count))
    except NoSampleError:
        return found
    return found


def accepts(schema: Mapping[str, Any], value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(dict(schema), offline=True).is_valid(value)


def filled_in(schema: Any, value: Any, definitions: Mapping[str, Any]) -> Any:
    """A value as a strict model writes it: with null for every listed property that is absent."""
    if not isinstance(schema, Mapping):
        return value
    if (found := target(schema, definitions)) is not None:
        value = filled_in(found[1], value, definitions)
    for member in schema.get("allOf", ()):
        value = filled_in(member, value, definitions)
    if isinstance(value, dict) and "properties" in schema:
        inner = {name: filled_in(schema["properties"].get(name), item, definitions) for name, item in value.items()}
        value = {**inner, **{name: None for name in schema["properties"] if name not in value}}
    if isinstance(value, list) and "items" in schema:
        value = [filled_in(schema["items"], item, definitions) for item in value]
    for union in ("anyOf", "oneOf"):
        for branch in schema.get(union, ()):
            if accepts({**branch, "$defs": definitions}, value):
                value = filled_in(branch, value, definitions)
                break
    return value


def as_json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A Gemini Schema in the words of JSON Schema, so that values can be held against it."""
    built: dict[str, Any] = {key: value for key, value in schema.items() if key not in {"type", "nullable", "format"}}
    if "type" in schema:
        built["type"] = schema["type"].lower()
    if "properties" in schema:
        built["properties"] = {name: as_json_schema(item) for name, item in schema["properties"].items()}
    if "items" in schema:
        built["items"] = as_json_schema(schema["items"])
    if "anyOf" in schema:
        built["anyOf"] = [as_json_schema(item) for item in schema["anyOf"]]
    return {"anyOf": [built, {"type": "null"}]} if schema.get("nullable") else built
