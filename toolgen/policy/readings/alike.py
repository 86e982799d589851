"""Schemas of a rule that treat a number and its text as equal: a schema that lists `"7"` also accepts 7, and vice versa."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.model.schema import Json, Schema
from toolgen.policy.readings.values import distinct, number_of, text_of

__all__ = ["alike"]

_SCHEMAS = frozenset(
    {
        "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
        "unevaluatedProperties", "allOf", "anyOf", "oneOf", "prefixItems",
    }
)  # fmt: skip
_MAPS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})


def alike(schema: Schema) -> dict[str, Any]:
    """Return the schema with both notations of every value in `const` and `enum`, and with numbers wherever any text is valid.

    Bounds of numbers and patterns of texts stay: each notation is checked against its own.
    """
    made = {keyword: _below(keyword, value) for keyword, value in schema.items()}
    if "const" in made:
        named = _both(made.pop("const"))
        made["enum"] = [value for value in named if value in made["enum"]] if "enum" in made else named
    elif isinstance(made.get("enum"), list):
        made["enum"] = distinct(spelled for value in made["enum"] for spelled in _both(value))
    declared = made.get("type")
    types = [declared] if isinstance(declared, str) else [*(declared or ())]
    if "string" in types and "number" not in types:
        made["type"] = [*(one for one in types if one != "integer"), "number"]
    return made


def _below(keyword: str, value: Any) -> Any:
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: _schema(one) for name, one in value.items()}
    if keyword in _SCHEMAS:
        return [_schema(one) for one in value] if isinstance(value, list) else _schema(value)
    return value


def _schema(value: Any) -> Any:
    return alike(value) if isinstance(value, Mapping) else value


def _both(value: Json) -> list[Json]:
    """Return a value, the same value with text for every number, and the same value with numbers for every numeric text."""
    return distinct([value, _texts(value), _numbers(value)])


def _texts(value: Json) -> Json:
    match value:
        case bool() | None | str():
            return value
        case int() | float():
            return text_of(value)
        case Mapping():
            return {name: _texts(item) for name, item in value.items()}
        case _:
            return [_texts(item) for item in value]


def _numbers(value: Json) -> Json:
    match value:
        case str():
            number = number_of(value)
            return value if number is None else number
        case Mapping():
            return {name: _numbers(item) for name, item in value.items()}
        case list() | tuple():
            return [_numbers(item) for item in value]
        case _:
            return value
