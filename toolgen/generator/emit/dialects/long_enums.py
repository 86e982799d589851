"""Enums of many values, shown in part: their number and the first values in words, for example for time zones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from toolgen.model.excerpt import bounded
from toolgen.model.schema import Schema

__all__ = ["MAX_VALUES", "in_part", "is_long", "values_in_part", "with_part_of_values", "with_values_once"]

MAX_VALUES: Final = 40
_SHOWN: Final = 10
_MAX_VALUE_LENGTH: Final = 40
_ENDS: Final = (*".!?…:",)
_MAX_DEPTH: Final = 64
_BETWEEN: Final = 8  # characters between two values of a list: quotes, a comma, "or"
_VALUES: Final = frozenset({"default", "examples", "example", "const"})


def values_in_part(values: Sequence[Any]) -> str:
    """Return a sentence with the number of values and the first of them."""
    first = ", ".join(bounded(str(value), _MAX_VALUE_LENGTH) for value in values[:_SHOWN])
    return f"One of {len(values)} values, such as {first}."


def with_part_of_values(said: str, values: Sequence[str]) -> str:
    """Return a description with a part of the values. If it lists all of them itself, its list is replaced."""
    words = values_in_part(values)
    first = words.removeprefix("One of ").removesuffix(".")
    if first in said:
        return said
    places = [match.span() for value in values if (match := re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", said))]
    if len(places) == len(values):
        start, end = min(place[0] for place in places), max(place[1] for place in places)
        if end - start <= sum(map(len, values)) + _BETWEEN * len(values):
            return f"{said[:start]}{first}{said[end:]}"
    return f"{said}{'' if said.endswith(_ENDS) else '.'} {words}"


def with_values_once(schema: Schema) -> Schema:
    """Return a schema with a long enum without the list of its values in the description; any other schema unchanged."""
    values, said = schema.get("enum"), schema.get("description")
    if not isinstance(said, str) or not said or not is_long(values):
        return schema
    short = with_part_of_values(said, values)
    return {**schema, "description": short} if len(short) < len(said) else schema


def is_long(values: Any) -> TypeGuard[Sequence[str]]:
    """Return True for an enum of texts that is shown in part."""
    return (
        isinstance(values, (list, tuple)) and len(values) > MAX_VALUES and all(isinstance(one, str) for one in values)
    )


def in_part(schema: Schema) -> Schema:
    """Return the schema with each long enum of texts in words. It accepts all values of the complete schema; unchanged if it has no long
    enum.
    """
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
    if is_long(values):
        del built["enum"]
        said = built.get("description")
        words = with_part_of_values(said, values) if isinstance(said, str) and said else values_in_part(values)
        return {"type": "string", **built, "description": words}
    return node if all(built[key] is one for key, one in node.items()) else built
