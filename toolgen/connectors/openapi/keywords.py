"""Schema keywords without nested schemas: copied if they are well-formed and have a meaning in JSON Schema 2020-12."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolgen.core.canonical import schema_digest
from toolgen.core.errors import CanonicalError
from toolgen.core.json_codec import encode_json

__all__ = ["Note", "keyword", "malformed", "modernise"]

Note = Callable[[str, str], None]
"""Callback with a code and a message."""

_COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
)
_MAX_VALUE_DEPTH = 20
_MAX_EXAMPLES = 3
_MAX_EXAMPLE_LENGTH = 200


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _count(value: Any) -> bool:
    return _number(value) and 0 <= value < 2**53 and value == int(value)


def _carried(value: Any) -> bool:
    """Return True if a manifest can contain a value. The manifest has a digest, so integers and nesting must not be absurdly large."""
    if isinstance(value, (str, bool)) or value is None:
        return True
    try:
        schema_digest(value)
    except CanonicalError:
        return False
    return _depth(value) <= _MAX_VALUE_DEPTH


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _true(value: Any) -> bool:
    return value is True


def _text(value: Any) -> bool:
    return isinstance(value, str)


# Keywords that are copied unchanged, with the check of their value that keeps the result a valid 2020-12 schema.
_WELL_FORMED: Mapping[str, Callable[[Any], bool]] = {
    "enum": lambda value: isinstance(value, list) and bool(value) and _carried(value),
    "const": _carried,
    "default": _carried,
    "deprecated": _true,
    "uniqueItems": _true,
    "writeOnly": _true,
    "multipleOf": lambda value: _number(value) and value > 0,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_names, value.values())),
    "format": _text,
    "contentEncoding": _text,
    "contentMediaType": _text,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(_COUNTS, _count),
}


# Number that turns an integer bound of this keyword into the equal bound of the other keyword (`_OTHER`).
_BOUNDS = {"minimum": -1, "maximum": 1, "exclusiveMinimum": 1, "exclusiveMaximum": -1}
_OTHER = {
    "minimum": "exclusiveMinimum",
    "maximum": "exclusiveMaximum",
    "exclusiveMinimum": "minimum",
    "exclusiveMaximum": "maximum",
}
# Keywords that do not restrict the accepted values.
_NO_CONSTRAINTS = frozenset({"default", "deprecated", "writeOnly"})


def keyword(built: dict[str, Any], key: str, value: Any, note: Note) -> None:
    """Add one keyword to `built` if it is valid there. `note` receives a constraint that cannot be kept."""
    if key == "example":
        _examples(built, [value])
    elif key == "examples":
        _examples(built, value if isinstance(value, list) else [])
    elif key == "required":
        _required(built, value, note)
    elif (fits := _WELL_FORMED.get(key)) and fits(value):
        if key in _BOUNDS:
            _bound(built, key, value)
        else:
            built[key] = int(value) if key in _COUNTS else _bounded(value) if key == "multipleOf" else value
    elif fits and key not in _NO_CONSTRAINTS and not (key == "uniqueItems" and value is False):
        malformed(key, value, note)


def malformed(key: str, value: Any, note: Note) -> None:
    """Report a keyword that was left out, so that the tool accepts more than the author intended."""
    shown = "{…}" if isinstance(value, dict) else "[…]" if isinstance(value, list) else repr(value)
    note("bad_keyword", f"`{key}: {shown[:60]}` is not a valid value of the keyword, and was left out")


def _required(built: dict[str, Any], value: Any, note: Note) -> None:
    if isinstance(value, list):
        built["required"] = list(dict.fromkeys(name for name in value if isinstance(name, str)))
        if not all(isinstance(name, str) for name in value):
            malformed("required", value, note)
    else:
        malformed("required", value, note)


def _bound(built: dict[str, Any], key: str, value: float) -> None:
    """Add a bound. A bound beyond 2**53 becomes a double if that is exact, because most programs, and RFC 8785, know only doubles.

    `maximum: 2**63 - 1` becomes `exclusiveMaximum: 2**63`, which is the same for JSON values, as all doubles beyond 2**53 are whole. If
    neither number is a double, the integer stays.
    """
    step = _BOUNDS[key]
    if isinstance(value, int) and int(float(value)) != value and int(float(value + step)) == value + step:
        key, value = _OTHER[key], value + step
    value = _bounded(value)
    if key in built:  # The other keyword may have a bound too: the narrower bound wins.
        value = min(value, built[key]) if key.endswith("aximum") else max(value, built[key])
    built[key] = value


def _bounded(value: Any) -> Any:
    """Return a number beyond 2**53 as a double if that is the same number."""
    large = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53
    return float(value) if large and int(float(value)) == value else value


def modernise(built: dict[str, Any], raw: dict[str, Any]) -> None:
    """Convert keywords of OpenAPI 3.0 and 2.0 to JSON Schema: `nullable`, and `exclusiveMinimum: true`."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if raw.get(exclusive) is True and (bound in built or exclusive in built):
            del built[bound if bound in built else exclusive]
            _bound(built, exclusive, raw[bound])
    if raw.get("nullable") is not True and raw.get("x-nullable") is not True:
        return
    if "enum" in built and None not in built["enum"]:
        built["enum"] = [*built["enum"], None]
    kind = built.get("type")
    if isinstance(kind, str):
        built["type"] = [kind, "null"]
    elif kind is None and any(key in built for key in ("allOf", "anyOf", "oneOf")):
        content = {key: built.pop(key) for key in list(built) if key not in {"description", "default", "deprecated"}}
        built["anyOf"] = [content, {"type": "null"}]


def _examples(built: dict[str, Any], values: list[Any]) -> None:
    kept = [value for value in values if _small(value)][:_MAX_EXAMPLES]
    if kept and "examples" not in built:
        built["examples"] = kept


def _small(value: Any) -> bool:
    return _carried(value) and len(encode_json(value)) <= _MAX_EXAMPLE_LENGTH
