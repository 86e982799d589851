"""Reasons and notes that people write: a text counts if it contains a visible character."""

from __future__ import annotations

import unicodedata
from typing import Final

from toolgen.model.prompt_injection import ANY_INVISIBLE

__all__ = ["reason_in"]

_BLANK: Final = frozenset(
    "\u2800\U00013441\U00013442\U00016fe4"
)  # blanks of Braille, hieroglyphs and Khitan, which are not spaces
_SEEN: Final = frozenset("LNPS")  # letters, numbers, punctuation, symbols (Unicode, General_Category)


def reason_in(text: str) -> str:
    """Return the text without surrounding space; "" without a visible character."""
    return text.strip() if any(map(_is_visible, text)) else ""


def _is_visible(character: str) -> bool:
    return (
        unicodedata.category(character)[0] in _SEEN and not ANY_INVISIBLE.match(character) and character not in _BLANK
    )
