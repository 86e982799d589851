"""A schema without references and combinations: one of the alternatives it leaves, chosen, with everything that must hold merged."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

__all__ = ["StuckError", "flatten"]

_MOST_PARTS = 200
_HIGHER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_LOWER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})


class StuckError(Exception):
    """No value could be thought of for a schema."""


def flatten(schema: Any, definitions: Mapping[str, Any], choose: random.Random, *, deep: bool) -> dict[str, Any]:
    """One branch of each `anyOf` and `oneOf`, all of each `allOf`; `deep` prefers branches that end soon. Raises `StuckError`."""
    merged: dict[str, Any] = {}
    todo = [schema]
    for _ in range(_MOST_PARTS):
        if not todo:
            return merged
        part = todo.pop()
        if part is True:
            continue
        if not isinstance(part, dict):
            raise StuckError
        if isinstance(ref := part.get("$ref"), str):
            todo.append(definitions.get(ref.rpartition("/")[2], {}))
        todo.extend(part.get("allOf") or ())
        todo.extend(_branch(part[key], choose, deep) for key in ("anyOf", "oneOf") if part.get(key))
        for key, value in part.items():
            if key not in {"$ref", "allOf", "anyOf", "oneOf", "$defs"}:
                merged[key] = _both(key, merged[key], value) if key in merged else value
    raise StuckError


def _branch(branches: list[Any], choose: random.Random, deep: bool) -> Any:
    if deep:
        ends = [one for one in branches if isinstance(one, dict) and not one.keys() & {"$ref", "properties", "items"}]
        return choose.choice(ends or branches)
    return choose.choice(branches)


def _both(key: str, one: Any, other: Any) -> Any:
    """What holds when two schemas must."""
    if one == other:
        return one
    if key == "properties":
        return {**one, **{name: {"allOf": [one[name], new]} if name in one else new for name, new in other.items()}}
    if key == "required":
        return [*one, *(name for name in other if name not in one)]
    if key == "type":
        kinds, others = ([kinds] if isinstance(kinds, str) else kinds for kinds in (one, other))
        shared = [kind for kind in kinds if kind in others]
        if "integer" in [*kinds, *others] and "number" in [*kinds, *others] and "integer" not in shared:
            shared.append("integer")
        if not shared:
            raise StuckError
        return shared[0] if len(shared) == 1 else shared
    if key == "enum":
        return [value for value in one if value in other]
    if key in {"items", "additionalProperties"}:
        return {"allOf": [one, other]}
    if key in _HIGHER:
        return max(one, other)
    if key in _LOWER:
        return min(one, other)
    return other
