"""Null in the arguments of a rule that allows: JSON Schema ignores null for keywords such as `maximum:` or `pattern:`, so null would be
accepted.

GraphQL services and many APIs treat null like a missing argument. A rule that bounds a required argument means a real value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from toolgen.model.schema import JsonObject, Schema

__all__ = ["refusing_null", "without_null"]

_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLES = ("then", "else", "items", "contains", "unevaluatedItems", "additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "contains", "unevaluatedItems")
_BOUNDS = frozenset(
    {
        "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf", "maxLength", "minLength", "pattern",
        "maxItems", "minItems", "uniqueItems", "items", "prefixItems", "contains", "unevaluatedItems", "maxProperties",
        "minProperties", "properties", "patternProperties", "additionalProperties", "propertyNames", "required",
        "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    }
)  # fmt: skip
"""Keywords that ignore null."""
_DECIDED = frozenset({"type", "enum", "const"})
_DEFINITIONS = "#/$defs/"
_MAX_DEPTH = 64


def refusing_null(schema: Schema, is_required: Callable[[str], bool]) -> Schema:
    """Return a rule's schema of arguments that refuses null for required arguments and members, and for items, if it bounds them by a
    keyword that ignores null.

    `type`, `enum` and `const` decide about null themselves, and so does anything below `not` and `if`. `is_required` returns True if a tool
    of the rule requires an argument.
    """
    return _Refusing(schema, is_required).made()


def without_null(schema: Schema, arguments: JsonObject) -> JsonObject:
    """Return the arguments of one of the gateway's own tools without null for optional arguments: some clients send null for all that they
    omit."""
    required = schema.get("required", ())
    return {name: value for name, value in arguments.items() if value is not None or name in required}


class _Said(IntEnum):
    """Statement of a schema about null: none, none although it bounds other values, or a decision."""

    NOTHING = 0
    BOUNDS = 1
    DECIDED = 2


class _Refusing:
    def __init__(self, root: Schema, is_required: Callable[[str], bool]) -> None:
        self._root = root
        self._is_required = is_required

    def made(self) -> Schema:
        found: Schema = self._schema(self._root, frozenset(), top=True)
        return found

    def _schema(self, schema: Any, required: frozenset[str], *, top: bool = False) -> Any:
        """Process a schema: `required` are members that a schema of the same instance requires; at the `top`, members are arguments."""
        if not isinstance(schema, Mapping):
            return schema
        required |= frozenset(_required(schema, 0))
        made = dict(schema)
        for key, value in schema.items():
            if key in _MAPS and isinstance(value, Mapping):
                same = required if key == "dependentSchemas" else frozenset[str]()
                made[key] = {name: self._schema(one, same) for name, one in value.items()}
            elif key in _LISTS and isinstance(value, list):
                same = frozenset[str]() if key == "prefixItems" else required
                made[key] = [self._schema(one, same, top=top and key != "prefixItems") for one in value]
            elif key in _SINGLES:
                same = required if key in {"then", "else"} else frozenset[str]()
                made[key] = self._schema(value, same, top=top and key in {"then", "else"})
        properties = made.get("properties")
        if isinstance(properties, Mapping):
            made["properties"] = {
                name: self._value(one) if name in required or (top and self._is_required(name)) else one
                for name, one in properties.items()
            }
        for key in _ITEMS:
            if key in made:
                made[key] = self._value(made[key])
        if isinstance(items := made.get("prefixItems"), list):
            made["prefixItems"] = [self._value(one) for one in items]
        return made

    def _value(self, schema: Any) -> Any:
        """Return the schema of a required value."""
        if self._said(schema, 0) is not _Said.BOUNDS:
            return schema
        return {"allOf": [schema, {"not": {"type": "null"}}]}

    def _said(self, schema: Any, depth: int) -> _Said:
        """Return the statement of a schema about null."""
        if not isinstance(schema, Mapping):
            return _Said.NOTHING
        if not _DECIDED.isdisjoint(schema):
            return _Said.DECIDED
        if depth > _MAX_DEPTH:
            return _Said.BOUNDS
        found = [_Said.NOTHING if _BOUNDS.isdisjoint(schema) else _Said.BOUNDS]
        if isinstance(reference := schema.get("$ref"), str):
            target = self._root.get("$defs", {}).get(reference.removeprefix(_DEFINITIONS))
            found.append(_Said.BOUNDS if target is None else self._said(target, depth + 1))
        for key in ("allOf", "anyOf", "oneOf"):
            if isinstance(branches := schema.get(key), list):
                branches_said = [self._said(one, depth + 1) for one in branches]
                found += branches_said if key == "allOf" else [_of_choice(branches, branches_said)]
        found += [_Said.BOUNDS for key in ("then", "else") if self._said(schema.get(key), depth + 1) is _Said.BOUNDS]
        return max(found)


def _of_choice(branches: Sequence[Any], said: Sequence[_Said]) -> _Said:
    """Return the statement of a choice about null: a branch that names null accepts it on purpose, a branch without a statement may
    accept it."""
    if any(map(_names_null, branches)) or all(one is _Said.DECIDED for one in said):
        return _Said.DECIDED
    return _Said.BOUNDS if _Said.BOUNDS in said else _Said.NOTHING


def _required(schema: Mapping[str, Any], depth: int) -> list[str]:
    """Return the members that a schema requires, itself or by `allOf`."""
    found = [name for name in schema.get("required", ()) if isinstance(name, str)]
    branches = schema.get("allOf")
    for one in branches if isinstance(branches, list) and depth < _MAX_DEPTH else ():
        if isinstance(one, Mapping):
            found += _required(one, depth + 1)
    return found


def _names_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    types = schema.get("type")
    return types == "null" or (isinstance(types, list) and "null" in types) or None in (*schema.get("enum", ()),)
