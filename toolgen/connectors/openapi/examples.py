"""Conversion of examples to JSON values of the type of their schema: authors often write them as text or as in a URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from toolgen.model.schema import json_type

__all__ = ["with_fitting_examples"]

_PAIR = re.compile(r"\A[\w.-]{1,80}(?:\[\])?=")
_MAX_DEPTH: Final = 20
_NOTHING: Final = object()


def with_fitting_examples(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with each example as a value that it accepts by type and enum, and without examples that cannot be converted."""
    examples = schema.get("examples")
    if not isinstance(examples, list):
        return schema
    fitting = [one for one in (_fitted(example, schema, 0) for example in examples) if one is not _NOTHING]
    if fitting == examples and all(one is other for one, other in zip(fitting, examples, strict=True)):
        return schema
    rest = {key: value for key, value in schema.items() if key != "examples"}
    return {**rest, "examples": fitting} if fitting else rest


def _fitted(value: Any, schema: Any, depth: int) -> Any:
    """Return the value converted to the type of the schema; `_NOTHING` if no conversion fits."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return value
    if _fits(value, schema):
        return value
    kinds = _kinds(schema)
    readings: list[Any] = []
    if isinstance(value, str):
        readings += [_json(value), *([value.strip("\"'")] if "string" in kinds else [])]
    if "array" in kinds and not isinstance(value, list):
        items = schema.get("items")
        parts = [_PAIR.sub("", part.strip()) for part in value.split(",")] if isinstance(value, str) else [value]
        listed = [_fitted(part, items, depth + 1) for part in parts]
        readings.append(_NOTHING if any(one is _NOTHING for one in listed) else listed)
    if "string" in kinds and isinstance(value, (int, float)) and not isinstance(value, bool):
        readings.append(msgspec.json.encode(value).decode())
    if isinstance(value, list) and value and "array" not in kinds:
        readings.append(value[0])
    return next((one for one in readings if one is not _NOTHING and _fits(one, schema)), _NOTHING)


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    kinds = _kinds(schema)
    found = json_type(value)
    if kinds and found not in kinds and not (found == "integer" and "number" in kinds):
        return False
    if isinstance(values := schema.get("enum"), list) and value not in values:
        return False
    items = schema.get("items")
    return not isinstance(value, list) or not isinstance(items, Mapping) or all(_fits(one, items) for one in value)


def _kinds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kind = schema.get("type")
    return (kind,) if isinstance(kind, str) else tuple(kind) if isinstance(kind, (list, tuple)) else ()
