"""Sizes of the parameters of a call, as the cost of a statement counts them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["FREE_DIGITS", "ORDINARY", "Measure", "measures"]

_PARAMETER: Final = 256  # bytes of one that is small
FREE_DIGITS: Final = re.compile(r"[eE]\+?[0-9]{4}")
"""A text that is a number of thousands of digits when it is converted."""


class Measure(NamedTuple):
    """What counts of a parameter that is not small: its bytes, how deep a document it may be, whether it is a number of many digits."""

    size: int
    depth: int
    number: bool


ORDINARY: Final = Measure(_PARAMETER, 64, False)
_FEW_BRACKETS: Final = 64
_ELEMENT: Final = 8  # bytes of an element of a list besides its text


def measures(parameters: Sequence[object]) -> tuple[Measure, ...]:
    """The measure of each parameter, rounded up so that few differ; () where all are small."""
    if all(_is_small(value) for value in parameters):
        return ()
    return tuple(ORDINARY if _is_small(value) else _measure(value) for value in parameters)


def _is_small(value: object) -> bool:
    if isinstance(value, str):
        few = len(value) <= _PARAMETER // 4 or (
            len(value) <= _PARAMETER and value.isascii() and value.count("[") + value.count("{") <= _FEW_BRACKETS
        )
        return few and not FREE_DIGITS.search(value)
    return (
        not isinstance(value, list)
        or sum(len(item) + _ELEMENT if isinstance(item, str) else _ELEMENT for item in value) <= 64
    )


def _measure(value: object) -> Measure:
    texts = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
    size = sum(len(text.encode(errors="replace")) for text in texts) + (
        _ELEMENT * len(value) if isinstance(value, list) else 0
    )
    depth = sum(text.count("[") + text.count("{") for text in texts)
    return Measure(_rounded(size), _rounded(depth), any(FREE_DIGITS.search(text) for text in texts))


def _rounded(number: int) -> int:
    return max(64, 1 << (number - 1).bit_length()) if number > 1 else 64
