"""Messages for people: their values are checked, and their wording may change."""

from __future__ import annotations

import re


def line_names(text: str, *values: str) -> bool:
    """Return True if one line of a text contains all values."""
    return any(all(value in line for value in values) for line in text.splitlines())


def numbers(text: str) -> list[int]:
    """Return the whole numbers of a text, in order."""
    return [int(found) for found in re.findall(r"\b\d+\b", text)]
