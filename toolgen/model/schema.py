"""Types of JSON and JSON Schema. A schema is shared between tools, so it must not be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["Json", "JsonObject", "Schema", "json_type"]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]
Schema: TypeAlias = Mapping[str, Any]
"""JSON Schema 2020-12 object: read-only by type, and shared between tools, so treat it as frozen."""


def json_type(value: object) -> str:
    """Return the JSON type of a value; an integral number is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"
