"""Sizes of the parameters of a call, as the cost of a statement counts them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["ORDINARY", "Measure", "measures", "written_digits"]

_PARAMETER: Final = 256  # maximum bytes of a small parameter
_MAX_DIGITS: Final = 131_072  # https://www.postgresql.org/docs/current/datatype-numeric.html#DATATYPE-NUMERIC-TABLE
_EXPONENT: Final = re.compile(r"[0-9]\.?[eE][-+]?([0-9]*)")
_PART: Final = re.compile(r"[0-9]\.?[eE][-+]?[0-9]*\Z|\A[-+.]?[0-9]*[eE][-+]?[0-9]*(?![A-Za-z])")
_DOUBTFUL: Final = re.compile(r"[0-9]\.?[eE]|\A[-+.]?[0-9]*[eE](?![A-Za-z])")


def written_digits(text: str, *, whole: bool = False) -> int:
    """Return the number of digits of the numbers with an exponent in a text, written out.

    A part of such a number at the start or end of a text counts as the longest, unless the text is the `whole` value.
    """
    if not _DOUBTFUL.search(text):
        return 0
    exponents = (min(int(found[1][:9] or 0), _MAX_DIGITS) for found in _EXPONENT.finditer(text))
    return sum(exponents) + (0 if whole or not _PART.search(text) else _MAX_DIGITS)


class Measure(NamedTuple):
    """Size of a parameter that is not small: its bytes, its maximum depth as a document, and the digits of its numbers written out."""

    size: int
    depth: int
    digits: int


ORDINARY: Final = Measure(_PARAMETER, 64, 0)
_FEW_BRACKETS: Final = 64
_ELEMENT: Final = 8  # additional bytes of an element of a list


def measures(parameters: Sequence[object]) -> tuple[Measure, ...]:
    """Return the measure of each parameter, rounded up so that few differ; () if all are small."""
    if all(_is_small(value) for value in parameters):
        return ()
    return tuple(ORDINARY if _is_small(value) else _measure(value) for value in parameters)


def _is_small(value: object) -> bool:
    if isinstance(value, str):
        few = len(value) <= _PARAMETER // 4 or (
            len(value) <= _PARAMETER and value.isascii() and value.count("[") + value.count("{") <= _FEW_BRACKETS
        )
        return few and not _DOUBTFUL.search(value)
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
    digits = sum(map(written_digits, texts))
    return Measure(_rounded(size), _rounded(depth), _rounded(digits) if digits else 0)


def _rounded(number: int) -> int:
    return max(64, 1 << (number - 1).bit_length()) if number > 1 else 64
