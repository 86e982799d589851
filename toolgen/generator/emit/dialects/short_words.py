"""Shortening of the descriptions of a complete schema, for formats made of the exact schema, and for describe_tool with little room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from toolgen.model.schema import Schema
from toolgen.model.shared_definitions import Closure
from toolgen.model.short_text import MAX_NESTED_LENGTH, MAX_PARAMETER_LENGTH, described_in_short

__all__ = ["with_short_descriptions"]

_MAX_DEPTH: Final = 64
_VALUES: Final = frozenset({"default", "examples", "example", "const", "enum", "required"})


def with_short_descriptions(schema: Schema) -> Schema:
    """Return the schema of a tool's arguments with each long description shortened; unchanged if none is long."""
    if isinstance(schema.get("$defs"), Closure):
        return schema
    found: Schema = _shortened(schema, 0)
    return found


def _shortened(node: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return node
    if isinstance(node, (list, tuple)):
        items = [_shortened(one, depth + 1) for one in node]
        return node if all(one is other for one, other in zip(items, node, strict=True)) else items
    if not isinstance(node, Mapping):
        return node
    # An argument is two levels below the root: its schema is a member of `properties`.
    node = described_in_short(node, MAX_PARAMETER_LENGTH if depth <= 2 else MAX_NESTED_LENGTH)
    built = {key: one if key in _VALUES else _shortened(one, depth + 1) for key, one in node.items()}
    return node if all(built[key] is one for key, one in node.items()) else built
