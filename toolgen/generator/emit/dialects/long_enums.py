"""Enums of many values, which are shown in part: their number and the first ones in words, in place of every time zone there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toolgen.model.excerpt import bounded
from toolgen.model.schema import Schema

__all__ = ["MAX_VALUES", "in_part", "values_in_part"]

MAX_VALUES: Final = 40
_SHOWN: Final = 10
_MAX_VALUE_LENGTH: Final = 40
_MAX_DEPTH: Final = 64
_VALUES: Final = frozenset({"default", "examples", "example", "const"})


def values_in_part(values: Sequence[Any]) -> str:
    """A sentence with the number of values and the first of them."""
    first = ", ".join(bounded(str(value), _MAX_VALUE_LENGTH) for value in values[:_SHOWN])
    return f"One of {len(values)} values, such as {first}."


def in_part(schema: Schema) -> Schema:
    """The schema with each long enum of texts in words. It accepts whatever the whole does; the same object where it has none."""
    found: Schema = _in_part(schema, 0)
    return found


def _in_part(node: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return node
    if isinstance(node, (list, tuple)):
        items = [_in_part(one, depth + 1) for one in node]
        return node if all(one is other for one, other in zip(items, node, strict=True)) else items
    if not isinstance(node, Mapping):
        return node
    built = {key: one if key in _VALUES else _in_part(one, depth + 1) for key, one in node.items()}
    values = node.get("enum")
    if isinstance(values, (list, tuple)) and len(values) > MAX_VALUES and all(isinstance(one, str) for one in values):
        del built["enum"]
        words = values_in_part(values)
        said = built.get("description")
        return {
            "type": "string",
            **built,
            "description": f"{said} {words}" if isinstance(said, str) and said else words,
        }
    return node if all(built[key] is one for key, one in node.items()) else built
