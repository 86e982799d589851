"""Values that were hidden in one place of an answer, masked wherever else in it they stand: in an error that quotes them, in a link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from toolgen.json_codec import decode_json
from toolgen.model.schema import Json

__all__ = ["Hidden"]

_SHORTEST = 3  # shorter ones, and numbers of fewer digits than four, stand in any text by chance
_FEWEST_DIGITS = 4
_ANYWHERE = 6  # from this length on they are masked inside of words too
_LONGEST = 4096
_MOST = 50_000
_GRAM = 3
_FEW = 64


class Hidden:
    """The values that were hidden, each with what stands in its place."""

    def __init__(self) -> None:
        self._masks: dict[str, str] = {}
        self._lengths: dict[str, list[int]] = {}
        self._left_alone: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._masks)

    def add(self, value: Json, mask: str) -> None:
        """Every text and number in a value that was replaced by `mask`."""
        if isinstance(value, str) and value in self._left_alone:
            return
        self._left_alone.add(mask)
        for text in _scalars(value):
            if len(self._masks) < _MOST:
                self._masks.setdefault(text, mask)
                if len(text) >= _ANYWHERE:  # as it stands in a link or a page
                    for form in (quote(text, safe=""), escape(text)):
                        self._masks.setdefault(form, mask)

    def ready(self) -> None:
        """To be called once all are known."""
        found: dict[str, set[int]] = {}
        for text in self._masks:
            found.setdefault(text[:_GRAM], set()).add(len(text))
        self._lengths = {begin: sorted(lengths, reverse=True) for begin, lengths in found.items()}

    def masked(self, value: Any) -> Any:
        """A value without them; what `embedded_json.opened` made of strings is changed where it is."""
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case int() | float():
                return self._masks.get(str(value), value)
            case dict():
                items = [(self.text(name), self.masked(item)) for name, item in value.items()]
                value.clear()
                value.update(items)
            case list():
                value[:] = [self.masked(item) for item in value]
        return value

    def text(self, text: str) -> str:
        """A text without them. Takes time in its length, however many there are."""
        if text in self._left_alone or len(text) < _SHORTEST:
            return text
        if len(self._masks) <= _FEW and not any(one in text for one in self._masks):
            return text
        pieces: list[str] = []
        begin = at = 0
        last = len(text) - _GRAM
        while at <= last:
            lengths = self._lengths.get(text[at : at + _GRAM])
            found = next((text[at : at + one] for one in lengths if self._stands(text, at, one)), "") if lengths else ""
            if found:
                pieces += (text[begin:at], self._masks[found])
                begin = at = at + len(found)
            else:
                at += 1
        return "".join((*pieces, text[begin:])) if pieces else text

    def _stands(self, text: str, at: int, length: int) -> bool:
        end = at + length
        if text[at:end] not in self._masks:
            return False
        alone = not text[at - 1 : at].isalnum() and not text[end : end + 1].isalnum()
        return length >= _ANYWHERE or alone


def _scalars(value: Json) -> Iterator[str]:
    """The texts and numbers in a value, also in JSON that stands in a text, that say enough to be looked for."""
    todo: list[Json] = [value]
    while todo:
        match item := todo.pop():
            case str():
                if _SHORTEST <= len(item) <= _LONGEST and not item.isspace():
                    yield item
                if item[:1] in ("{", "["):
                    try:
                        todo.append(decode_json(item.encode()))
                    except ValueError:
                        continue
            case bool() | None:
                continue
            case int() | float():
                if len(str(item).strip("-0.")) >= _FEWEST_DIGITS:
                    yield str(item)
            case Mapping():
                todo += item.values()
            case list() | tuple():
                todo += item
