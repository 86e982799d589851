"""Names and prose of GraphQL descriptions, made fit for tools."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["LONGEST_DESCRIPTION", "is_name", "prose"]

LONGEST_DESCRIPTION = 1024  # what OpenAI accepts for a function; longer texts drown the ones that matter
_NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]*\Z")


def is_name(value: object) -> bool:
    """GraphQL's Name (spec October 2021, section 2.1.9)."""
    return isinstance(value, str) and _NAME.match(value) is not None


def prose(text: str | None, *, limit: int = LONGEST_DESCRIPTION) -> str:
    """A description from a stranger as plain text: no control or bidi characters, at most `limit` characters."""
    if not text:
        return ""
    kept = "".join(
        char for char in text if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co"}
    )
    kept = kept.strip()
    return kept if len(kept) <= limit else kept[: limit - 1].rstrip() + "…"
