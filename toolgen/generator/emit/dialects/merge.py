"""Merging of `allOf`: several schemas that must all hold become one schema without `allOf`, if possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolgen.model.schema import json_type

__all__ = ["ANNOTATIONS", "accepts_null", "kinds", "merged", "target", "unwrapped"]

ANNOTATIONS = frozenset(
    {"description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly", "$schema", "$id", "$comment", "$defs"}
)  # fmt: skip
_LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"})
_MAX_DEPTH = 40


def target(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the name and the target of a `$ref`; None if there is no reference into the schema."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
        return None
    name = reference.removeprefix("#/$defs/")
    return (name, definitions[name]) if name in definitions else None


def unwrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the only member of an `allOf` beside descriptions: 3.0's way to add a description to a `$ref`."""
    members = schema.get("allOf")
    if not isinstance(members, list) or len(members) != 1 or schema.keys() - ANNOTATIONS - {"allOf"}:
        return schema
    if not isinstance(members[0], dict):
        return schema
    return unwrapped({**members[0], **{key: value for key, value in schema.items() if key != "allOf"}})


def kinds(schema: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the JSON types of a schema, of its enumerated values, or `object` if it lists properties; None for any type."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return (declared,)
    if isinstance(declared, list):
        return tuple(declared)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        return tuple(dict.fromkeys(_kind(value) for value in values))
    return ("object",) if "properties" in schema else None


def _kind(value: Any) -> str:
    """Return the JSON type of a value; an integer is a number."""
    kind = json_type(value)
    return "number" if kind == "integer" else kind


def merged(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema for exactly the same values, without `allOf` and without keywords beside a `$ref`; None if there is none.

    Nested schemas are not merged: a property that two parts describe becomes an `allOf` of its own.
    """
    return _Merging(definitions).schema(schema, 0)


class _Merging:
    """Merge of one schema. Each definition is merged once, because repeated references would double the work each time."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._known: dict[str, dict[str, Any] | None] = {}

    def schema(self, schema: Any, depth: int) -> dict[str, Any] | None:
        if schema is True:
            return {}
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return None
        parts: list[dict[str, Any] | None] = [
            {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}
        ]
        if "$ref" in schema:
            parts.append(self._referred(schema, depth))
        parts += [self.schema(member, depth + 1) for member in schema.get("allOf", ())]
        built: dict[str, Any] = {}
        for part in parts:
            if part is None or not _joined(built, part):
                return None
        return built

    def _referred(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any] | None:
        found = target(schema, self._definitions)
        if found is None:
            return None
        name, resolved = found
        if name not in self._known:
            self._known[name] = None  # a recursive schema has no merged form
            self._known[name] = self.schema(resolved, depth + 1)
        return self._known[name]


def _joined(built: dict[str, Any], part: Mapping[str, Any]) -> bool:
    """Add one part to another in place; return False when no single schema can express both."""
    closed = built.get("additionalProperties", True) is not True or part.get("additionalProperties", True) is not True
    patterned = "patternProperties" in built or "patternProperties" in part
    if (closed or patterned) and not _same_properties(built, part):
        return False  # a closed part would be opened by the other's properties
    for key, value in part.items():
        if key not in built:
            built[key] = value
        elif built[key] != value and key not in ANNOTATIONS:
            joined = _JOINERS[key](built[key], value) if key in _JOINERS else None
            if joined is None:
                return False
            built[key] = joined
    return True


def _same_properties(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if not one or not ({"properties", "additionalProperties", "patternProperties"} & other.keys()):
        return True
    if not ({"properties", "additionalProperties", "patternProperties"} & one.keys()):
        return True
    return one.get("properties", {}).keys() == other.get("properties", {}).keys() and one.get(
        "additionalProperties"
    ) == other.get("additionalProperties")


def _types(one: Any, other: Any) -> Any:
    first = [one] if isinstance(one, str) else list(one)
    second = [other] if isinstance(other, str) else list(other)
    both = [kind for kind in first if kind in second or (kind == "integer" and "number" in second)]
    both += [kind for kind in second if kind == "integer" and "number" in first and kind not in both]
    if not both:
        return None
    return both[0] if len(both) == 1 else both


def _properties(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    built = dict(one)
    for name, schema in other.items():
        built[name] = schema if built.get(name, schema) == schema else {"allOf": [built[name], schema]}
    return built


def _enums(one: list[Any], other: list[Any]) -> list[Any] | None:
    return [value for value in one if value in other] or None


_JOINERS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "properties": _properties,
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "enum": _enums,
    "uniqueItems": lambda one, other: one or other,
    **dict.fromkeys(_LOWER, max),
    **dict.fromkeys(_UPPER, min),
}


def accepts_null(schema: Any, definitions: Mapping[str, Any]) -> bool:
    """Return True if null may conform to the schema, or if that cannot be decided by inspection."""
    return _accepts_null(schema, definitions, {}, 0)


def _accepts_null(schema: Any, definitions: Mapping[str, Any], known: dict[str, bool], depth: int) -> bool:
    if not isinstance(schema, Mapping):
        return schema is not False
    if depth > _MAX_DEPTH:
        return True
    if (found := target(schema, definitions)) is not None:
        name, resolved = found
        if name not in known:
            known[name] = True  # during its check: a recursive schema is undecided
            known[name] = _accepts_null(resolved, definitions, known, depth + 1)
        if not known[name]:
            return False
    elif "$ref" in schema:
        return True
    named = kinds(schema) if {"type", "enum", "const"} & schema.keys() else None
    if named is not None and "null" not in named:
        return False
    if None not in schema.get("enum", (None,)) or schema.get("const") is not None:
        return False
    if not all(_accepts_null(member, definitions, known, depth + 1) for member in schema.get("allOf", ())):
        return False
    return all(
        any(_accepts_null(branch, definitions, known, depth + 1) for branch in schema[union])
        for union in ("anyOf", "oneOf")
        if schema.get(union)
    )
