"""Where a converted schema holds other schemas: below a keyword that says so, and nowhere else, whatever its properties are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

__all__ = ["LISTS", "MAPS", "SCHEMAS", "Steps", "references", "subschemas"]

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


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """The schemas directly inside a schema, with the one or two steps that lead to each; boolean ones hold nothing and are left out."""
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


def references(schema: dict[str, Any]) -> set[str]:
    """The names in `$defs` that a converted schema refers to itself, not counting what those refer to."""
    found: set[str] = set()
    todo = [schema]
    while todo:
        node = todo.pop()
        ref = node.get("$ref")
        if isinstance(ref, str) and ref.startswith("#/$defs/"):
            found.add(ref[8:])
        todo.extend(part for _, part in subschemas(node))
    return found
