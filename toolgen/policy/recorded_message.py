"""Error messages in the audit log: without values of arguments that the log conceals, and without pieces of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolgen.core.json_codec import decode_json
from toolgen.policy.detectors.restored_values import CallMasking

__all__ = ["recorded_message"]

_MASK = "[sensitive]"
_MAX_LENGTH = 50_000  # maximum characters of arguments, if some are concealed; longer calls have no recorded message
_MAX_HIDDEN = 4_000  # maximum characters of the concealed ones
_MAX_COUNT = 100  # maximum values, and words, that are concealed
_SHORT = 3  # shorter values are masked only as separate words
_WORD = re.compile(r"\w+")


def recorded_message(text: str, sent: object, recorded: object) -> str:
    """Return the message without the values that `sent` has and `recorded`, its form in the audit log, has not.

    Values are masked whole, as single words, and in pieces that a library may have cut off. The result is "" if there are too
    many values to search for.
    """
    told = set(_texts(recorded))
    given = set(_texts(sent))
    if given <= told:
        return text
    if sum(map(len, given)) > _MAX_LENGTH:
        return ""
    told |= _words(told)
    hidden = given - told
    words = _words(hidden) - told
    if sum(map(len, hidden)) > _MAX_HIDDEN or max(len(hidden), len(words)) > _MAX_COUNT:
        return ""
    for values in (hidden, words):  # words last, so that no rest of a piece remains
        masking = CallMasking((("", _MASK, value) for value in values), {"": sorted(told)})
        text = masking.message(text)
    short = [re.escape(value) for value in words if len(value) < _SHORT]
    return re.sub(rf"\b(?:{'|'.join(short)})\b", lambda _: _MASK, text) if short else text


def _texts(value: object) -> Iterator[str]:
    """Yield the texts, names and numbers in a value, and in JSON within a text."""
    todo: list[Any] = [value]
    while todo:
        match item := todo.pop():
            case bool() | None:
                pass
            case str() | int() | float():
                text = str(item)
                yield text
                if text[:1] in {"{", "["}:
                    try:
                        todo.append(decode_json(text.encode()))
                    except ValueError:
                        continue
            case Mapping():
                todo += (*item, *item.values())
            case list() | tuple():
                todo += item


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text)}
