"""The grammar of public names: sources, tools, and `source__tool`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = ["MAX_NAME_LENGTH", "SOURCE_NAME", "TOOL_NAME", "join", "nearest"]

SOURCE_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}\Z")
TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,47}\Z")
MAX_NAME_LENGTH = 48
_SEPARATOR = "__"


def join(source: str, local: str) -> str:
    """`petstore` and `get_pet` make `petstore__get_pet`."""
    return f"{source}{_SEPARATOR}{local}"


def nearest(word: str, words: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for a misspelt word, or nothing when no known word is close."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""
