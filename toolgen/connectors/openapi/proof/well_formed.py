"""Schema as written, reduced to the keywords that a validator can use: a keyword with an invalid value is left out, as in the tool's
schema.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["type_of", "well_formed"]

_TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_SLOPPY_TYPES: Mapping[str, str] = {
    "int": "integer", "long": "integer", "float": "number", "double": "number", "bool": "boolean", "file": "string"
}  # fmt: skip


def well_formed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without unusable keywords, because openapi-core raises an exception or refuses every value for some of them.

    A pattern is an ECMA regular expression, which Python's `re` may not compile; openapi-core does not check such patterns.
    """
    kept = {key: value for key, value in schema.items() if key not in _FORMS or _FORMS[key](value)}
    if isinstance(schema.get("required"), list):
        kept["required"] = [name for name in schema["required"] if isinstance(name, str)]
    if "type" in kept and (said := type_of(kept.pop("type"))):
        kept["type"] = said
    patterns = kept.get("patternProperties")
    if isinstance(patterns, dict) and not all(map(_compiles, patterns)):
        kept["patternProperties"] = {key: one for key, one in patterns.items() if _compiles(key)}
        kept.pop("additionalProperties", None)
        kept.pop("unevaluatedProperties", None)
    return kept


def type_of(written: Any) -> Any:
    """Return a `type` in the names of JSON Schema, or [] if it has none."""
    if isinstance(written, list):
        known = [one for one in map(type_of, written) if isinstance(one, str)]
        return known if len(known) == len(written) else []
    word = _SLOPPY_TYPES.get(written, written) if isinstance(written, str) else None
    return word if word in _TYPES else []


def _compiles(pattern: Any) -> bool:
    if not isinstance(pattern, str):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python warns of a character class that has another meaning in ECMA
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning):
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _are_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


_FORMS: Mapping[str, Callable[[Any], bool]] = {
    "enum": lambda value: isinstance(value, list) and bool(value),
    "pattern": _compiles,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "required": lambda value: isinstance(value, list),
    "items": lambda value: _is_schema(value) or isinstance(value, list),
    "dependentRequired": lambda value: isinstance(value, dict) and all(isinstance(one, list) for one in value.values()),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), lambda value: isinstance(value, (int, float))),
    **dict.fromkeys(
        (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ),
        _is_count,
    ),
    **dict.fromkeys(("format", "contentEncoding", "contentMediaType"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("uniqueItems", "nullable", "readOnly", "writeOnly"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _are_schemas),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), lambda value: isinstance(value, dict)),
    **dict.fromkeys(("additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"), _is_schema),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), _is_schema),
}
