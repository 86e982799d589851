"""Conversion of bounds and values beyond 2**53 to integers for validators: a manifest has bounds as doubles if these are exact (RFC 8785).

jsonschema-rs compares integers with integers exactly, and those beyond 2**63 with doubles approximately.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["EXACT", "with_exact_bounds", "with_exact_values"]

EXACT = 2**53
"""Limit beyond which a double is an integer, and represents several integers."""
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_VALUES = frozenset({"const", "enum"})


def with_exact_bounds(schema: Any) -> Any:
    """Return the schema with integers in place of doubles beyond 2**53 in bounds, constants and enums."""
    if isinstance(schema, Mapping):
        return {
            key: with_exact_values(value)
            if key in _VALUES or (key in _BOUNDS and type(value) is float)
            else with_exact_bounds(value)
            for key, value in schema.items()
        }
    return [with_exact_bounds(one) for one in schema] if isinstance(schema, (list, tuple)) else schema


def with_exact_values(value: Any) -> Any:
    """Return the value with integers in place of doubles beyond 2**53, because jsonschema-rs reads a double as its decimal text."""
    if type(value) is float:
        return int(value) if abs(value) >= EXACT and math.isfinite(value) else value
    if isinstance(value, Mapping):
        return {key: with_exact_values(one) for key, one in value.items()}
    return [with_exact_values(one) for one in value] if isinstance(value, (list, tuple)) else value
