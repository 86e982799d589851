"""Reasons and notes that people write: a text counts if it holds a character that a reader can see."""

from __future__ import annotations

import unicodedata
from typing import Final

from toolgen.model.prompt_injection import ANY_INVISIBLE

__all__ = ["reason_in"]

_BLANK: Final = frozenset(
    "\u2800\U00013441\U00013442\U00016fe4"
)  # blanks of Braille, hieroglyphs and Khitan, which are no spaces
_SEEN: Final = frozenset("LNPS")  # letters, numbers, punctuation, symbols (Unicode, General_Category)


def reason_in(text: str) -> str:
    """The text without space around it; "" if it holds nothing that a reader can see."""
    return text.strip() if any(map(_seen, text)) else ""


def _seen(character: str) -> bool:
    return (
        unicodedata.category(character)[0] in _SEEN and not ANY_INVISIBLE.match(character) and character not in _BLANK
    )
