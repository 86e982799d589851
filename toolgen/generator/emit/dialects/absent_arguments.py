"""Removal of nulls that mean an omitted argument of a strict schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from toolgen.generator.emit.dialects.merge import accepts_null, target
from toolgen.model.schema import JsonObject, Schema

__all__ = ["without_absent"]

_MAX_ABSENT_DEPTH = 64


_MAX_STEPS, _VALIDATION = (
    20_000,
    100,
)  # limit for one call; only a schema built to be expensive exceeds it, and the rest is then left unchanged


def without_absent(schema: Schema, arguments: JsonObject) -> JsonObject:
    """Return the arguments without nulls that can only mean "not given".

    Strict mode makes a model fill in every property, so it sends null for an omitted one. A null is removed if the canonical `schema`
    neither requires the property nor accepts null for it; every other null is a value and stays. In a union the first branch that accepts
    the rest decides, without nulls for members that only other branches have. `schema` is the tool's own input schema, never the lowered
    one. The given values are not changed; arguments without such a null are returned unchanged, so this may precede every validation, for
    any provider.
    """
    if not _holds_null(arguments, 0):
        return arguments
    restored: JsonObject = _Restoring(schema.get("$defs", {})).value(schema, arguments, 0)
    return restored


class _Restoring:
    """Removal of nulls from arguments, with the definitions that the schema refers to."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._left = _MAX_STEPS

    def value(self, schema: Any, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_ABSENT_DEPTH or not isinstance(schema, Mapping) or not _holds_null(value, 0):
            return value
        if (found := target(schema, self._definitions)) is not None:
            value = self.value(found[1], value, depth + 1)
        for member in schema.get("allOf", ()):
            value = self.value(member, value, depth + 1)
        value = self._own(schema, value, depth)
        for union in ("anyOf", "oneOf"):
            if branches := schema.get(union):
                value = self._chosen(branches, value, depth)
        return value

    def _own(self, schema: Mapping[str, Any], value: Any, depth: int) -> Any:
        if isinstance(value, Mapping) and (properties := schema.get("properties")):
            required = schema.get("required", ())
            return {
                name: self.value(properties.get(name), item, depth + 1)
                for name, item in value.items()
                if not (item is None and name in properties and name not in required)
                or accepts_null(properties[name], self._definitions)
            }
        if isinstance(value, list) and "items" in schema:
            return [self.value(schema["items"], item, depth + 1) for item in value]
        return value

    def _chosen(self, branches: list[Any], value: Any, depth: int) -> Any:
        named = [self._names(branch, depth) for branch in branches]
        every = frozenset[str]().union(*named)
        for branch, own in zip(branches, named, strict=True):
            restored = self.value(branch, _without_null(value, every - own), depth + 1)
            if self._accepts(branch, restored):
                return restored
        return value

    def _names(self, branch: Any, depth: int) -> frozenset[str]:
        """Return the members of a branch: if branches are listed as one object, a client sends null for those of the others."""
        self._left -= 1
        if self._left < 0 or depth > _MAX_ABSENT_DEPTH or not isinstance(branch, Mapping):
            return frozenset()
        names = frozenset(branch.get("properties", ()))
        if (found := target(branch, self._definitions)) is not None:
            names |= self._names(found[1], depth + 1)
        return names.union(*(self._names(member, depth + 1) for member in branch.get("allOf", ())))

    def _accepts(self, branch: Any, value: Any) -> bool:
        if not isinstance(branch, Mapping):
            return branch is not False
        self._left -= _VALIDATION
        try:
            validator = jsonschema_rs.Draft202012Validator({**branch, "$defs": dict(self._definitions)}, offline=True)
        except (ValueError, jsonschema_rs.ReferencingError):
            return False
        return validator.is_valid(value)


def _without_null(value: Any, names: frozenset[str]) -> Any:
    """Return an object without null for members of these names; other values unchanged."""
    if not isinstance(value, Mapping) or not any(item is None and name in names for name, item in value.items()):
        return value
    return {name: item for name, item in value.items() if item is not None or name not in names}


def _holds_null(value: Any, depth: int) -> bool:
    if value is None or depth > _MAX_ABSENT_DEPTH:
        return True
    if isinstance(value, Mapping):
        return any(_holds_null(item, depth + 1) for item in value.values())
    return isinstance(value, list) and any(_holds_null(item, depth + 1) for item in value)
