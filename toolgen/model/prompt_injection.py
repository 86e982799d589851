"""Definition of characters that are invisible to readers but not to models: for lint, pins, answers and pages.

They are Unicode's Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties), controls except tab, line feed and carriage return, the
separators U+2028 and U+2029, the blank U+2800, format characters of hieroglyphs and annotations, and lone surrogates. Some of them are
ordinary writing in certain places: a joiner between the letters of joining scripts, or between emoji; a variation selector after the one
character that it varies. Those stay, one at a time; a run of them is hidden content.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ANY_INVISIBLE", "INVISIBLE", "SPELLED", "holds_invisible", "spelled", "visible"]

_ALL: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Scripts whose letters change their form with their neighbours: Arabic, Syriac, N'Ko, those of India and South-East Asia, Mongolian.
_MONGOLIAN: Final = "\u1820-\u18aa"
_JOINING: Final = (
    "\u0600-\u061b\u061d-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\u1a20-\u1aaf\u1b00-\u1cff\ua800-\uabff\ufb50-\ufdff"
    "\ufe70-\ufefc\U00010a00-\U00010aff\U00010d00-\U00010eff\U00010f00-\U00011fff\U0001e900-\U0001e95f"
)
_EMOJI: Final = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001faff"
)
ANY_INVISIBLE: Final = re.compile(f"[{_ALL}]")
"""Invisible characters in any place, for texts shown to a person who must agree."""
INVISIBLE: Final = re.compile(
    f"[{_ALL}]"
    f"(?<![{_JOINING}][\u200c\u200d](?![{_ALL}]))"
    f"(?<![0-9A-Za-z]\u200c(?=[{_JOINING}]))"
    f"(?<![{_EMOJI}]\u200d(?=[{_EMOJI}]))"
    f"(?<![{_EMOJI}]\ufe0f\u200d(?=[{_EMOJI}]))"
    f"(?<![{_EMOJI}][\ufe0e\ufe0f])"
    "(?<![0-9#*]\ufe0f(?=\u20e3))"
    f"(?<![{_MONGOLIAN}][\u180b-\u180d\u180f])"
)
"""Invisible characters that are not ordinary writing in their place. A text without them contains none."""
SPELLED: Final = re.compile(r"\\u\{[0-9a-f]{1,6}\}")
"""Invisible character in the notation of `spelled`."""
_LINE_ENDS: Final = frozenset("\x85\u2028\u2029")
_ASCII_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # all ASCII characters among them


def holds_invisible(text: str) -> bool:
    """Return True if `INVISIBLE` matches in a text. Plain ASCII, the usual case, is checked much faster."""
    if text.isascii():
        return not text.replace("\n", "").isprintable() and _ASCII_CONTROL.search(text) is not None
    return INVISIBLE.search(text) is not None


def visible(text: str) -> str:
    """Return the text without them; a separator of lines becomes a line end."""
    return INVISIBLE.sub(_seen, text) if holds_invisible(text) else text


def _seen(found: re.Match[str]) -> str:
    return "\n" if found[0] in _LINE_ENDS else ""


def spelled(text: str, pattern: re.Pattern[str] = INVISIBLE) -> str:
    r"""Return the text with each of them in an escape notation, `\u{200b}`."""
    return pattern.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)
