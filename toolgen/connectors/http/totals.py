"""Headers with the size of a list of which an answer is a part: `X-Total-Count: 260`, `Content-Range: items 0-29/260`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["TOTALS", "total_in"]

TOTALS: Final = frozenset(
    {
        "x-total-count",
        "x-total",
        "total-count",
        "x-totalcount",
        "x-pagination-total-count",
        "x-pagination-total",
        "content-range",
    }
)
"""Names of these headers. Other headers are not read."""
_MAX_DIGITS: Final = 15


def total_in(headers: Mapping[str, str]) -> int | None:
    """Return the total in one of the headers; None if none has a number. A range of bytes is not a list (RFC 9110, section 14.4)."""
    for name in TOTALS:
        text = headers.get(name, "").strip()
        if name == "content-range":
            unit, _, text = text.partition(" ")
            text = "" if unit == "bytes" else text.rpartition("/")[2]
        if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS:
            return int(text)
    return None
