"""Shortened descriptions: the first sentence, and the sentences needed for a call (values, defaults, limits, units, conditions)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

__all__ = [
    "MAX_DESCRIPTION_LENGTH",
    "MAX_NESTED_LENGTH",
    "MAX_PARAMETER_LENGTH",
    "SENTENCE_END",
    "cut",
    "described_in_short",
    "shortened",
]

MAX_DESCRIPTION_LENGTH: Final = 800
"""Maximum length for a tool."""
MAX_PARAMETER_LENGTH: Final = 160
"""Maximum length for an argument."""
MAX_NESTED_LENGTH: Final = 100
"""Maximum length for a property inside an argument: a tool may have hundreds, and a model reads each before every call."""
_GROWTH: Final = 2  # factor of the limit for a first sentence
_MOST: Final = 3  # factor of the limit for a text with sentences needed for a call
_LONGEST_LIST: Final = 1_000  # characters of a sentence with a list of values that is nowhere else

# Chinese and Japanese write no space after a sentence, nor between words.
SENTENCE_END: Final = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)[.!?…।؟۔][\"”')\]]{0,2}(?=\s|\Z)|[。！？｡]+[」』”）】]*"
)
_VALUES = re.compile(
    r"\b(?:one of|either|(?:can|may|must|should)(?: also| only)? be|(?:values?|options|permissions?|types?|formats?)(?: \w+)? (?:are|is)"
    r"|following|possible|valid|allowed|supported|accepted|permitted|available)\b|\bvalues?:|\boptions:",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(r"\A[^\s:]{1,30}(?: \([^()]*\))?(?:::?| -| –| —| means| indicates| will) ")
_ENTRY = re.compile(r"(?:\A|; )[^\s:;]{1,30}::? \S")  # entry of a list such as `in: title, likes; status: open, closed`
_ENTRIES: Final = 3
_DEFAULT = re.compile(r"\bdefaults?\b|\bif (?:omitted|absent|not (?:set|given|provided|specified))\b", re.IGNORECASE)
_CONDITION = re.compile(
    r"\b(?:required|must|cannot|can't|can not|mutually exclusive|but not both|not allowed|only one|together with|in combination with"
    r"|instead|only (?:valid|used|applies|applicable|available|if|when|for)|ignored|not supported|should not|do not)\b",
    re.IGNORECASE,
)
_MEASURE = re.compile(
    r"\b(?:max(?:imum)?|min(?:imum)?|at (?:most|least)|up to|between|no more than|less than|greater than|limited to|range)\b.*\d"
    r"|\b(?:in|as|of) (?:whole )?(?:(?:milli|micro|nano)?seconds?|minutes|hours|days|bytes|[kmg]i?b|kilobytes|megabytes|cents|pixels"
    r"|percent|meters|metres|degrees|points)\b|\b(?:smallest currency unit|unix|epoch|ISO[ -]?\d+|RFC ?\d+|UTC|BCP ?\d+|E\.164|format"
    r"|base64|timestamps?|comma[- ]separated|regular expression|case[- ]sensitive|for example|e\.g)\b|%",
    re.IGNORECASE,
)
_KEPT_WHOLE = re.compile(r"[,;]|\bor\b")


def cut(text: str, limit: int) -> str:
    """Return the text up to a limit, cut after a sentence if one ends in its second half, else after a word and with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[:limit]
    ends = [match.end() for match in SENTENCE_END.finditer(head)]
    if ends and ends[-1] >= limit // 2:
        return head[: ends[-1]]
    return _whole(head[: limit - 1], text[limit - 1]).rstrip(" ,;:、，；：") + "…"


def _whole(head: str, following: str) -> str:
    """Return a cut text back to its last word; if no word ends near, to its last character with all its marks."""
    if following.isspace():
        return head
    words = head.rpartition(" ")[0]
    if len(words) * 2 >= len(head):
        return words
    while head and unicodedata.category(following).startswith("M"):
        head, following = head[:-1], head[-1]
    return head


@lru_cache(maxsize=16_384)
def shortened(text: str, limit: int, *, values: bool = True, default: bool = True) -> str:
    """Return a flattened description within about `limit` characters, which sentences needed for a call may exceed.

    The first sentence stays, and the following ones up to the limit. Of the rest, sentences stay that list values (unless the schema does:
    `values` is False), state a default (unless the schema does: `default`), a condition, a limit or a unit.
    """
    if len(text) <= limit:
        return text
    first, *others = _sentences(text)
    kept = [cut(first, limit * _GROWTH)]
    length, most, plain = len(kept[0]), limit * _MOST, True
    for one in others:
        lists = values and (
            (_VALUES.search(one) is not None and _KEPT_WHOLE.search(one) is not None)
            or len(_ENTRY.findall(one)) >= _ENTRIES
        )
        decides = (
            lists
            or (values and _EXPLAINED.match(one) is not None)
            or (default and _DEFAULT.search(one) is not None)
            or (_CONDITION.search(one) or _MEASURE.search(one)) is not None
        )
        plain = plain and length + len(one) < limit
        room = max(most - length, _LONGEST_LIST - length if lists else 0)
        if plain or (decides and len(one) < room):
            kept.append(one)
            length += len(one) + 1
        elif lists and length < _LONGEST_LIST:
            kept.append(cut(one, max(room, limit)))
            length += len(kept[-1]) + 1
    return " ".join(kept)


def _sentences(text: str) -> list[str]:
    found: list[str] = []
    start = 0
    for match in SENTENCE_END.finditer(text):
        found.append(text[start : match.end()].strip())
        start = match.end()
    if rest := text[start:].strip():
        found.append(rest)
    return found


def described_in_short(schema: Mapping[str, Any], limit: int) -> Mapping[str, Any]:
    """Return a schema with a shortened description; the same object if the description is short."""
    text = schema.get("description")
    if not isinstance(text, str) or len(text) <= limit:
        return schema
    items = schema.get("items")
    listed = not schema.keys().isdisjoint({"enum", "const"}) or (isinstance(items, Mapping) and "enum" in items)
    short = shortened(text, limit, values=not listed, default="default" not in schema)
    return schema if short == text else {**schema, "description": short}
