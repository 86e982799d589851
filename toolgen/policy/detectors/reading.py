r"""Normalized text as displayed to its reader, with the position of each character in the original text.

Zero-width spaces in an address, full-width or mathematical letters, digits of another script, an accent on a digit, and `%40`, `&#64;` or
`\u0040` in place of `@` still look like the value to a reader. Detectors check both texts, so that findings are only added.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from toolgen.model.detection import Finding
from toolgen.model.prompt_injection import ANY_INVISIBLE, holds_invisible

__all__ = ["NormalizedText", "OverloadError", "reading"]

_MAX_CHANGES = 1_000_000
_HIGH, _LOW = r"\\+u[dD][89abAB][0-9a-fA-F]{2}", r"\\+u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPED = rf"{_HIGH}{_LOW}|\\+u[0-9a-fA-F]{{4}}|&#[0-9]{{1,7}};|&#[xX][0-9a-fA-F]{{1,6}};|%[2-7][0-9a-fA-F]"
# Look-alike letters, and all characters that are not letters: digits, marks, spaces, dashes, invisible ones.
_LIKE_OTHERS = (
    "\u02b0-\u02b8\u115f\u1160\u1d2c-\u1d6a\u2071\u207f\u2090-\u209c\u2100-\u214f\u24b6-\u24e9\u3164\uff21-\uff3a\uff41-\uff5a\uffa0"
    "\U0001d400-\U0001d7ff"
)
_ODD = re.compile(
    rf"{_ESCAPED}|[{_LIKE_OTHERS}]|(?!\w)[^\x00-\x7f]|(?=\d)[^\x00-\x7f]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
_PERCENT = re.compile("%[2-7][0-9a-fA-F]")
_PLAIN = frozenset(map(chr, (*range(0x20, 0x7F), 9, 10, 13)))
_DASHES = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d")
_LINE_ENDS = frozenset("\x85\u2028\u2029")
_OF_VALUES = frozenset("@.+-_/:= ")


class OverloadError(Exception):
    """Answer that is larger than the limit of inspection, so its content is unknown."""


class NormalizedText:
    """Text as displayed (`text`). Each change has its position, whether a character replaces it, and its span in the original text."""

    __slots__ = ("_at", "_begin", "_end", "_kept", "text")

    def __init__(self, text: str, at: array[int], kept: bytearray, begin: array[int], end: array[int]) -> None:
        self.text, self._at, self._kept, self._begin, self._end = text, at, kept, begin, end

    def span(self, place: int) -> tuple[int, int]:
        """Return the span of a character in the original text."""
        last = bisect_right(self._at, place) - 1
        if last < 0:
            return place, place + 1
        at, kept = self._at[last], self._kept[last]
        if kept and at == place:
            return self._begin[last], self._end[last]
        begin = self._end[last] + place - at - kept
        return begin, begin + 1

    def found_by(self, find: Callable[[str], Iterable[Finding]]) -> Iterator[tuple[Finding, str]]:
        """Yield a detector's findings in the normalized text: positions in the original text, and the normalized value."""
        for one in find(self.text):
            if 0 <= one.start < one.end <= len(self.text):
                value = self.text[one.start : one.end]
                yield Finding(self.span(one.start)[0], self.span(one.end - 1)[1], one.kind), value


def reading(text: str) -> NormalizedText | None:
    """Return the displayed text; None if it equals the original, as most do. Raises `OverloadError`."""
    if not _is_escaped(text):
        if text.isascii() and not holds_invisible(text):
            return None
        if all(_read(one) == one for one in set(text) - _PLAIN):
            return None
    pieces: list[str] = []
    at, begin, end, kept = array("q"), array("q"), array("q"), bytearray()
    last = length = 0
    for found in _ODD.finditer(text):
        read = _read(found[0])
        if read == found[0]:
            continue
        start = found.start()
        length += start - last
        at.append(length)
        begin.append(start)
        kept.append(len(read))
        pieces += (text[last:start], read)
        length += len(read)
        last = found.end()
        end.append(last)
        if len(at) > _MAX_CHANGES:
            raise OverloadError
    return NormalizedText("".join((*pieces, text[last:])), at, kept, begin, end) if at else None


def _is_escaped(text: str) -> bool:
    return ("%" in text and _PERCENT.search(text) is not None) or "&#" in text or "\\u" in text


@lru_cache(4096)
def _read(written: str) -> str:
    """Normalize a character or an escape sequence. The result has at most one character, unless it is left unchanged."""
    if len(written) > 1:
        number = int(written[1:], 16) if written[0] == "%" else _number(written)
        if number in {9, 10, 13} or number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            return written
        written = chr(number)
    if written in _LINE_ENDS:
        return "\n"
    if ANY_INVISIBLE.match(written) or unicodedata.combining(written):
        return ""
    if written in _DASHES:
        return "-"
    plain = unicodedata.normalize("NFKC", written)
    if len(plain) == 1 and plain.isdecimal():
        return str(unicodedata.decimal(plain))
    return plain if len(plain) == 1 and plain.isascii() and (plain.isalnum() or plain in _OF_VALUES) else written


def _number(written: str) -> int:
    if written[0] == "&":
        digits = written[2:-1]
        return int(digits[1:], 16) if digits[0] in "xX" else int(digits)
    units = [int(one[:4], 16) for one in written.split("u")[1:]]
    return units[0] if len(units) == 1 else 0x10000 + ((units[0] & 0x3FF) << 10) + (units[1] & 0x3FF)
