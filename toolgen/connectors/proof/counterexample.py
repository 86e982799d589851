"""Counterexamples of two keywords: values that one of two schemas accepts and the other refuses.

Keywords are read in the words of JSON Schema 2020-12 for every version of OpenAPI (2.0, Schema Object; 3.0.4, section 4.7.24; 3.1.1,
section 4.8.24), for the described schema of a proof and for the tool's schema alike. Keywords that hold further schemas stay as written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jsonschema_rs

from toolgen.connectors.openapi.proof.known_differences import carried
from toolgen.connectors.openapi.proof.reader import ABSENT

__all__ = ["LISTS", "MAPS", "ONES", "SCALARS", "Words", "placed", "witness"]

_TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_SLOPPY = {
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "file": "string",
}
_COUNTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
_EXACT = 2**53  # beyond it all doubles are whole
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_EXCLUSIVE = frozenset({"exclusiveMinimum", "exclusiveMaximum"})
_TEXTS = ("format", "contentEncoding", "contentMediaType")
SCALARS = ("type", "enum", "const", "pattern", "uniqueItems", "dependentRequired", *_COUNTS, *_BOUNDS, *_TEXTS)
"""Keywords that hold no schema; equal values mean the same."""
ONES = (
    *("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPS = ("properties", "patternProperties", "dependentSchemas")
_COMPOSED = ("allOf", "anyOf", "oneOf")
_HELD = (*LISTS, *MAPS, "enum", "required")
_NOTHING: Mapping[str, Any] = {}
_NEVER: Mapping[str, Any] = {"not": True}


class Words:
    """Reads schemas of one kind. `old`: in the dialect of Swagger 2.0 and OpenAPI 3.0."""

    def __init__(self, *, old: bool, follow: Callable[[Any], Any] = lambda node: node) -> None:
        """`follow` is told what stands in place of an object or a list, and says what it refers to."""
        self._old = old
        self._follow = follow
        self._read: dict[int, tuple[Any, Mapping[str, Any]]] = {}  # with the schema, which keeps its identity its own

    def of(self, schema: Any) -> Mapping[str, Any]:
        """Keyword -> what it says; a keyword that is missing, malformed or says nothing is left out. `$ref` is not followed."""
        if not isinstance(schema, dict):
            return _NEVER if schema is False else _NOTHING
        known = self._read.get(id(schema))
        if known is None:
            known = self._read[id(schema)] = (schema, self._words(schema))
        return known[1]

    def plain(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A copy of a schema in words of 2020-12 for null, and without words of 3.0 for bounds in what is newer."""
        if self._old and (schema.get("nullable") is True or schema.get("x-nullable") is True):
            return dict(_nullable(schema))
        if self._old:
            return dict(schema)
        return {key: one for key, one in schema.items() if not (key in _EXCLUSIVE and isinstance(one, bool))}

    def _words(self, schema: dict[str, Any]) -> Mapping[str, Any]:
        ref = schema.get("$ref")
        if isinstance(ref, str) and self._old:
            return {"$ref": ref}  # what stands beside it is ignored (3.0.4, section 4.8.23)
        if self._old and (schema.get("nullable") is True or schema.get("x-nullable") is True):
            schema = _nullable(schema)
        said: dict[str, Any] = {"$ref": ref} if isinstance(ref, str) else {}
        if any(isinstance(schema.get(key), dict) and isinstance(schema[key].get("$ref"), str) for key in _HELD):
            schema = {key: self._follow(one) if key in _HELD else one for key, one in schema.items()}
        for key, value in schema.items():
            if (read := _READERS.get(key)) and (word := read(value)) is not None:
                said[key] = word
        if isinstance(items := schema.get("items"), list):
            said["prefixItems"] = items or [True]
        if self._old:
            for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
                if schema.get(exclusive) is True and bound in said:
                    said[exclusive] = said.pop(bound)
        _settle_bounds(said)
        patterns = schema.get("patternProperties")
        if isinstance(patterns, dict) and len(patterns) > len(said.get("patternProperties", ())):
            # Which names are left over cannot be told where a pattern is not understood.
            said.pop("additionalProperties", None)
            said.pop("unevaluatedProperties", None)
        if said.get("not") in (True, {}) and len(said) == 1:
            return _NEVER
        return said


def _settle_bounds(said: dict[str, Any]) -> None:
    """Exclusive bounds beyond 2**53 as the others: numbers are whole there, and `maximum: 2**63 - 1` is `exclusiveMaximum: 2**63`."""
    for bound, exclusive, step, narrower in (
        ("minimum", "exclusiveMinimum", 1, max),
        ("maximum", "exclusiveMaximum", -1, min),
    ):
        value = said.get(exclusive)
        if value is not None and abs(value) >= _EXACT and value == int(value):
            del said[exclusive]
            same = int(value) + step
            said[bound] = same if bound not in said else narrower(same, said[bound])


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Add null to the values of a schema, as authors mean it; in 3.0.4 `nullable` has no effect without a `type`, or against an `enum`."""
    built = {key: value for key, value in schema.items() if key not in {"nullable", "x-nullable"}}
    if isinstance(built.get("enum"), list) and built["enum"] and None not in built["enum"]:
        built["enum"] = [*built["enum"], None]
    kind = built.get("type")
    if isinstance(kind, str) and _type(kind):
        return {**built, "type": [kind, "null"]}
    if _type(kind) is None and any(_several(built.get(key)) for key in _COMPOSED):
        return {"anyOf": [built, {"type": "null"}]}
    return built


def _type(value: Any) -> frozenset[str] | None:
    kinds = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    named = {_SLOPPY.get(kind, kind) for kind in kinds if isinstance(kind, str)}
    return frozenset(named & _TYPES) or None


def _values(value: Any) -> frozenset[str] | None:
    """The JSON texts of the values, in no order."""
    return frozenset(map(_text, value)) if isinstance(value, list) and value and carried(value) else None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _const(value: Any) -> str | None:
    return _text(value) if carried(value) else None


def _number(value: Any) -> float | None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    if not fits or not math.isfinite(value):
        return None
    return int(value) if abs(value) >= _EXACT and value == int(value) else float(value)


def _positive(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 2**53 and number == int(number) else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


@cache
def _compiles(pattern: str) -> bool:
    try:
        jsonschema_rs.validator_for({"pattern": pattern})
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


def _pattern(value: Any) -> str | None:
    return value if isinstance(value, str) and _compiles(value) else None


def _names(value: Any) -> frozenset[str] | None:
    return frozenset(one for one in value if isinstance(one, str)) or None if isinstance(value, list) else None


def _dependent(value: Any) -> dict[str, frozenset[str]] | None:
    if not isinstance(value, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in value.values()
    ):
        return None
    return {name: frozenset(names) for name, names in value.items() if names} or None


def _one(value: Any) -> Any:
    return value if isinstance(value, (dict, bool)) else None


def _several(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) and value else None


def _map(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) and value else None


def _by_pattern(value: Any) -> dict[str, Any] | None:
    return {name: one for name, one in value.items() if _compiles(name)} or None if isinstance(value, dict) else None


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "type": _type,
    "enum": _values,
    "const": _const,
    "pattern": _pattern,
    "uniqueItems": lambda value: True if value is True else None,
    "dependentRequired": _dependent,
    "required": _names,
    "multipleOf": _positive,
    "discriminator": _map,
    "patternProperties": _by_pattern,
    **dict.fromkeys(_TEXTS, _word),
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_BOUNDS[:4], _number),
    **dict.fromkeys(ONES, _one),
    **dict.fromkeys(LISTS, _several),
    **dict.fromkeys(("properties", "dependentSchemas"), _map),
}


_OF_TYPE: Mapping[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "object": {},
    "array": [],
}
_LENGTHS = frozenset({"minLength", "maxLength"})
_SIZES = frozenset({"minItems", "maxItems"})
_MAX_LENGTH = 1_000


def witness(word: str, ours: Any, wanted: Any) -> Any:
    """The value, or `ABSENT` where none is easily named. `ours` and `wanted` are as `Words.of` gives them, None for nothing."""
    if word == "type":
        return _of_another_type(ours, wanted)
    if word in {"enum", "const"}:
        return _of_other_values(_listed(ours), _listed(wanted))
    numbers = [one for one in (ours, wanted) if isinstance(one, (int, float))]
    if not numbers:
        return ABSENT
    if word in _LENGTHS or word in _SIZES:
        # Where a lower bound differs the lower of the two tells; where an upper one does, one beyond the lower.
        size = min(numbers) if len(numbers) == 2 else numbers[0]
        size = size + 1 if word.startswith("max") else max(size - (len(numbers) < 2), 0)
        if size > _MAX_LENGTH:
            return ABSENT
        return "a" * int(size) if word in _LENGTHS else [None] * int(size)
    if word == "minimum":
        return min(numbers) if len(numbers) == 2 else numbers[0] - 1
    if word == "maximum":
        return max(numbers) if len(numbers) == 2 else numbers[0] + 1
    return numbers[0] if word.startswith("exclusive") else ABSENT


def _of_another_type(ours: Any, wanted: Any) -> Any:
    one, other = (frozenset(_OF_TYPE) if kinds is None else kinds for kinds in (ours, wanted))
    # A whole number is a number too, so only the fraction tells those two apart.
    different = (one ^ other) - ({"integer"} if "number" in one | other else set())
    return _OF_TYPE[min(different)] if different else ABSENT


def _listed(word: Any) -> frozenset[str] | None:
    return frozenset({word}) if isinstance(word, str) else word


def _of_other_values(ours: frozenset[str] | None, wanted: frozenset[str] | None) -> Any:
    if ours is None or wanted is None:
        return "not one of them"
    return json.loads(min(ours ^ wanted))


def placed(path: tuple[str | int, ...], value: Any) -> Any:
    """The smallest JSON that has a value at a path."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value
