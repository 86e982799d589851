"""Prose of GraphQL descriptions, made fit for tools."""

from __future__ import annotations

import unicodedata

__all__ = ["LONGEST_DESCRIPTION", "prose"]

LONGEST_DESCRIPTION = 1024  # what OpenAI accepts for a function; longer texts drown the ones that matter


def prose(text: str | None, *, limit: int = LONGEST_DESCRIPTION) -> str:
    """A description from a stranger as plain text: no control or bidi characters, at most `limit` characters."""
    if not text:
        return ""
    kept = "".join(
        char for char in text if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co"}
    )
    kept = kept.strip()
    return kept if len(kept) <= limit else kept[: limit - 1].rstrip() + "…"
