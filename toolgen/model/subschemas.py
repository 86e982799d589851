"""Places of a JSON Schema that contain other schemas, and the references in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from toolgen.model.schema import Schema

__all__ = ["LISTS", "MAPS", "SCHEMAS", "Steps", "references", "subschemas"]

_PREFIX = "#/$defs/"
Steps: TypeAlias = tuple[str] | tuple[str, str | int]
SCHEMAS = (
    "items",
    "additionalProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
)
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPS = ("properties", "patternProperties", "dependentSchemas")
_HOLDERS = frozenset({*SCHEMAS, *LISTS, *MAPS})


def subschemas(schema: Schema) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """Yield the schemas directly inside a schema, with the one or two steps that lead to each; boolean ones are left out."""
    for key in SCHEMAS:
        if isinstance(part := schema.get(key), dict):
            yield (key,), part
    for key in LISTS:
        for index, part in enumerate(schema.get(key, ())):
            if isinstance(part, dict):
                yield (key, index), part
    for key in MAPS:
        for name, part in schema.get(key, {}).items():
            if isinstance(part, dict):
                yield (key, name), part


def references(schema: Schema) -> set[str]:
    """Return the names in `$defs` that a schema refers to directly."""
    found: set[str] = set()
    todo: list[Any] = [schema]
    while todo:
        node = todo.pop()
        for key, value in node.items() if isinstance(node, dict) else ():
            if key in _HOLDERS:
                todo.extend(value.values() if key in MAPS else value if key in LISTS else (value,))
            elif key == "$ref" and isinstance(value, str) and value.startswith(_PREFIX):
                found.add(value[len(_PREFIX) :])
    return found
