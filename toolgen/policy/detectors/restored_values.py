"""Masking of the values that a call received in place of tokens, in everything that its caller sees."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

from toolgen.model.prompt_injection import visible
from toolgen.model.schema import Json, JsonObject
from toolgen.policy.detectors.inspector import DetectorWatch
from toolgen.policy.detectors.reading import reading
from toolgen.policy.detectors.tokens import blanked, mark, mark_spans, unmarked

__all__ = ["CallMasking", "changed_texts"]

_MIN_LENGTH = 3  # shorter values occur in any text by chance
_ANYWHERE = 4  # values of this length or longer are also masked inside words
_PIECE = 6  # shortest piece of a value that is removed from a message
_FEW = 4_096  # maximum characters of values whose pieces are searched for separately
_AHEAD = 16 * 1024  # distance after a cut that is searched for a value across the cut
_TOKEN = re.compile(r"<\\*[a-z][a-z0-9_]{0,31}:[0-9]{1,26}>")  # also signed ones
_HIDING = frozenset({"redact", "tokenise", "block"})


class CallMasking:
    """Masking for one call, of the values in `restored` (as `Call.restored`; `[kind]` replaces a value without a token).

    `arguments` are those of the call, and `bound` the names of those that its caller does not choose. `watches` inspect its answer.
    """

    def __init__(
        self,
        restored: Iterable[tuple[str, str, str]],
        arguments: JsonObject,
        bound: Sequence[str] = (),
        watches: Sequence[DetectorWatch] = (),
    ) -> None:
        self._values = {value: token for _, token, value in restored}
        self._arguments, self._bound, self._watches = arguments, bound, watches
        self._forms: list[tuple[str, str]] = [
            (form, mark(token)) for value, token in self._values.items() for form in _forms(value)
        ]

    def text(self, text: str) -> str:
        """Return the text with a mark in place of each value, in all of its notations."""
        spans = sorted(self._spans(text), key=lambda one: (one[0], -one[1]))
        if not spans:
            return text
        pieces: list[str] = []
        last = 0
        for start, end, token in spans:
            if start >= last:
                pieces += (text[last:start], token)
            last = max(last, end)
        return "".join((*pieces, text[last:]))

    def masked(self, value: Json) -> Json:
        """Mask every text, name and number in a value, as `text` does for one text."""
        together = "\n".join(_texts(value)) if self._forms else ""
        if not any(form in together for form, _ in self._forms):
            return value
        return changed_texts(value, self.text, self._number)

    def present(self, value: Json) -> list[str]:
        """Return the values that a text, a name or a number in `value` contains, in any spelling."""
        together = "\n".join(_texts(value)) if self._values else ""
        return [one for one in self._values if any(form in together for form in _forms(one))]

    def message(self, text: str) -> str:
        """Return a message without the values or pieces of them: a library or a service may have truncated one.

        Pieces that the caller wrote itself stay, so that the masking reveals nothing.
        """
        if not self._forms:
            return text
        text = self.text(text)
        kept: list[str] = []
        last = 0
        for start, end in (*mark_spans(text), (len(text), len(text))):
            kept += (self._without_pieces(text[last:start]), text[start:end])
            last = end
        return unmarked("".join(kept))

    def end(self, text: str, limit: int) -> int:
        """Return the place up to `limit` where a text may be cut, so that no token and no finding of a detector is cut in two."""
        near = text[: limit + _AHEAD]
        spans = [*mark_spans(near), *(one.span() for one in _TOKEN.finditer(near))]
        view = blanked(near)
        try:
            read = reading(view)
            for watch in self._watches:
                if watch.then in _HIDING and watch.reader is None:
                    spans += [(one.start, one.end) for one, _ in watch.found(view, read)]
        except Exception:  # noqa: BLE001 - a detector may be the project's own code; nothing is shown then
            return 0
        for start, end in sorted(spans, reverse=True):
            if start < limit < end:
                limit = start
        return limit

    def _number(self, number: float) -> Json:
        text = str(number)
        if text in self._values:
            return self.text(text)
        if not any(len(form) >= _PIECE and form in text for form, _ in self._forms):
            return number
        return self.text(text)

    def _spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        marks = mark_spans(text)
        for form, token in self._forms:
            at = text.find(form)
            while at >= 0:
                end = at + len(form)
                alone = not text[max(at - 1, 0) : at].isalnum() and not text[end : end + 1].isalnum()
                inside = any(start < end and at < stop for start, stop in marks)
                if not inside and (alone or len(form) >= _ANYWHERE):
                    yield at, end, token
                at = text.find(form, at + 1)

    def _without_pieces(self, text: str) -> str:
        if len(text) < _PIECE:
            return text
        few = sum(len(form) for form, _ in self._forms) <= _FEW
        looked_at: Container[str] = text if few else frozenset(_grams(text))
        found: dict[str, str] = {}
        for form, token in self._forms:
            kind = token[1:].partition(":")[0].rstrip("]")
            found |= {gram: kind for gram in _grams(form) if gram in looked_at}
        if found:
            sent = {name: value for name, value in self._arguments.items() if name not in self._bound}
            for own in _texts(self.masked(sent)):
                for gram in _grams(own):
                    found.pop(gram, None)
        if not found:
            return text
        pieces: list[str] = []
        last, at = 0, 0
        while at <= len(text) - _PIECE:
            kind = found.get(text[at : at + _PIECE], "")
            if not kind:
                at += 1
                continue
            end = at + _PIECE
            while text[end - _PIECE + 1 : end + 1] in found and end < len(text):
                end += 1
            pieces += (text[last:at], f"[{kind}]")
            last = at = end
        return "".join((*pieces, text[last:]))


def changed_texts(value: Json, change: Callable[[str], str], number: Callable[[float], Json] | None = None) -> Json:
    """Return a copy of a value with every text and name changed, and every number if there is a function for it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        made: dict[str, Any] = {}
        for key, item in value.items():
            name = change(key)
            while name in made:
                name += "'"
            made[name] = changed_texts(item, change, number)
        return made
    if isinstance(value, list | tuple):
        return [changed_texts(item, change, number) for item in value]
    if number is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return value


def _forms(value: str) -> list[str]:
    """Return the notations of a value in texts: plain, and as JSON, Python, URLs and HTML quote it."""
    folded = " ".join(value.split())
    found = [
        value,
        folded,
        visible(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        escape(value),
        escape(value, quote=False),
    ]
    with suppress(UnicodeEncodeError):  # half a surrogate pair, which no URL can contain
        found += (quote(value, safe=""), quote(value), quote_plus(value))
    return [form for form in dict.fromkeys(found) if len(form) >= _MIN_LENGTH]


def _grams(text: str) -> Iterator[str]:
    return (text[at : at + _PIECE] for at in range(len(text) - _PIECE + 1))


def _texts(value: Json) -> Iterator[str]:
    todo: list[Json] = [value]
    while todo:
        match todo.pop():
            case str() as text:
                yield text
            case Mapping() as found:
                todo += (*found, *found.values())
            case list() | tuple() as found:
                todo += found
            case int() | float() as found:
                yield str(found)
