"""A value that tells two keywords apart: one of the two schemas accepts it, and the other does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolgen.verify.reader import ABSENT

__all__ = ["placed", "witness"]

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
_LONGEST = 1_000


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
        if size > _LONGEST:
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
