"""Keywords of one JSON Schema that together exclude every value, and those that refuse values of the enum beside them."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from re import _parser as regex_parser  # type: ignore[attr-defined]
from typing import Any, TypeGuard

import jsonschema_rs

__all__ = ["contradictions", "excluding", "plain_pattern"]

_COUNTS = (
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
)
_LOW, _HIGH = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_OF_VALUES = ("pattern", "minLength", "maxLength", *_LOW, *_HIGH, "multipleOf", "format")
_FORMATS = frozenset({"date", "date-time", "email", "uuid", "uri", "hostname", "ipv4", "ipv6"})
_MAX_PATTERN = 500
_JAVASCRIPT = re.compile(r"/(\^.*|.*(?<!\\)\$)/([dgimsuvy]*)")
_ENDLESS = 10_000


def contradictions(schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield keywords that together accept no value, each once."""
    for low, high in _COUNTS:
        if _finite(schema.get(low)) and _finite(schema.get(high)) and schema[low] > schema[high]:
            yield (low, high)
    yield from _numbers(schema)
    yield from _items(schema)
    yield from _lengths(schema)


def _numbers(schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    bounds = tuple(key for key in (*_LOW, *_HIGH) if key in schema)
    # OpenAPI 3.0 has `exclusiveMinimum: true` with the bound.
    lows = [
        (_decimal(schema[key]), key == _LOW[1] or schema.get(_LOW[1]) is True)
        for key in _LOW
        if _finite(schema.get(key))
    ]
    highs = [
        (_decimal(schema[key]), key == _HIGH[1] or schema.get(_HIGH[1]) is True)
        for key in _HIGH
        if _finite(schema.get(key))
    ]
    if not lows or not highs:
        return
    (low, above), (high, below) = max(lows), min(highs, key=lambda one: (one[0], not one[1]))
    if low > high or (low == high and (above or below)):
        yield bounds
        return
    whole = schema.get("type") == "integer"
    step = schema.get("multipleOf", 1 if whole else None)
    if not _finite(step) or step <= 0:
        return
    unit = _decimal(step)
    least = math.floor(low / unit) + 1 if above else math.ceil(low / unit)
    most = math.ceil(high / unit) - 1 if below else math.floor(high / unit)
    if least > most:
        yield (*bounds, *(("multipleOf",) if "multipleOf" in schema else ()))


def _decimal(value: int | float) -> Fraction:
    """Return a number in its decimal form: 0.3 is a multiple of 0.1."""
    return Fraction(str(value)) if isinstance(value, float) else Fraction(value)


def _finite(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _items(schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Find a minimum of different items above the number of possible values."""
    items, least = schema.get("items"), schema.get("minItems")
    if not _finite(least):
        return
    if schema.get("uniqueItems") is True and isinstance(items, Mapping) and "$ref" not in items:
        several = 2 if items.get("type") == "boolean" else None
        if isinstance(values := items.get("enum"), Sequence):
            several = len(values)
        if several is not None and least > several:
            yield ("minItems", "uniqueItems")


def _lengths(schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Find a pattern whose texts are all longer or shorter than the length limits."""
    pattern = schema.get("pattern")
    said = [key for key in ("minLength", "maxLength") if _finite(schema.get(key))]
    if not isinstance(pattern, str) or not said or len(pattern) > _MAX_PATTERN:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            least, most = regex_parser.parse(pattern).getwidth()
    except (re.error, RecursionError, OverflowError, ValueError):
        return
    whole = re.fullmatch(r"\^[^|]*(?<!\\)\$", pattern) is not None
    yield from ((key,) for key in said if (key == "maxLength" and least > schema[key]))
    yield from ((key,) for key in said if key == "minLength" and whole and most < min(schema[key], _ENDLESS))


def excluding(schema: Mapping[str, Any], values: Sequence[Any]) -> tuple[str, ...]:
    """Return the keywords that refuse a value of the enum beside them."""
    said = {
        key: schema[key] for key in _OF_VALUES if key in schema and (key != "format" or str(schema[key]) in _FORMATS)
    }
    return tuple(key for key, value in said.items() if not _all_fit({key: value}, values))


def _all_fit(schema: Mapping[str, Any], values: Sequence[Any]) -> bool:
    try:
        judge = jsonschema_rs.Draft202012Validator(dict(schema), validate_formats=True, offline=True)
    except ValueError:
        return True
    return all(judge.is_valid(one) for one in values)


def plain_pattern(pattern: str) -> str | None:
    """Return the expression in a literal of JavaScript (`/^a+$/`), which matches no text as it is written; "" if its flags cannot be
    expressed in a pattern. None for any other pattern.
    """
    found = _JAVASCRIPT.fullmatch(pattern)
    if found is None:
        return None
    return "" if set(found[2]) - set("dguvy") else found[1]
