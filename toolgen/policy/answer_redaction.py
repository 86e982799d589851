"""Redaction of answers: by path in the data of an executor, in JSON within strings, and by value in every other place that repeats a hidden
value, such as errors and links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from html import escape
from typing import Any, assert_never
from urllib.parse import quote

from msgspec import Struct

from toolgen.core.json_codec import decode_json
from toolgen.model.result import Shape
from toolgen.model.schema import Json
from toolgen.model.tool import Tool
from toolgen.policy.hidden_names import behind_aliases, last_names
from toolgen.policy.redact import DEEPER, Redaction, closed, opened, replace_named, replace_within

__all__ = ["WITHHELD", "AnswerRedactor", "Hidden", "redactor"]

_MIN_LENGTH = 3  # shorter texts, and numbers with fewer than four digits, occur by chance
_MIN_DIGITS = 4
_ANYWHERE = 6  # values of this length or longer are also masked inside words
_MAX_LENGTH = 4096
_MAX_COUNT = 50_000
_GRAM = 3
_FEW = 64


class Hidden:
    """Hidden values, each with its replacement."""

    def __init__(self) -> None:
        self._masks: dict[str, str] = {}
        self._lengths: dict[str, list[int]] = {}
        self._left_alone: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._masks)

    def add(self, value: Json, mask: str) -> None:
        """Add every text and number in a value that was replaced by `mask`."""
        if isinstance(value, str) and value in self._left_alone:
            return
        self._left_alone.add(mask)
        for text in _scalars(value):
            if len(self._masks) < _MAX_COUNT:
                self._masks.setdefault(text, mask)
                if len(text) >= _ANYWHERE:  # the notation in a link or a page
                    for form in (quote(text, safe=""), escape(text)):
                        self._masks.setdefault(form, mask)

    def ready(self) -> None:
        """Prepare the search; called once after all values were added."""
        found: dict[str, set[int]] = {}
        for text in self._masks:
            found.setdefault(text[:_GRAM], set()).add(len(text))
        self._lengths = {begin: sorted(lengths, reverse=True) for begin, lengths in found.items()}

    def masked(self, value: Any) -> Any:
        """Return a value without hidden values, also in strings that were `opened`."""
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
        """Return a text without hidden values. Its time is linear in the length of the text, for any number of values."""
        if text in self._left_alone or len(text) < _MIN_LENGTH:
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
    """Return the texts and numbers in a value, also in JSON within texts, that are long enough to be searched for."""
    todo: list[Json] = [value]
    while todo:
        match item := todo.pop():
            case str():
                if _MIN_LENGTH <= len(item) <= _MAX_LENGTH and not item.isspace():
                    yield item
                if item[:1] in ("{", "["):
                    try:
                        todo.append(decode_json(item.encode()))
                    except ValueError:
                        continue
            case bool() | None:
                continue
            case int() | float():
                if len(str(item).strip("-0.")) >= _MIN_DIGITS:
                    yield str(item)
            case Mapping():
                todo += item.values()
            case list() | tuple():
                todo += item


WITHHELD = "[withheld: the policy redacts fields of this tool's answers, and this answer is not JSON]"
_ABOUT = "[withheld: this error is about a field that the policy redacts]"
_URI = "withheld:"  # in place of the URI of an embedded document: the URI may contain its text
_LIKE_JSON = re.compile(r"\s*(?:\{\s*[\"']|\[\s*[\"'{\[])")
_FILE = frozenset({"base64", "media_type", "filename"})
_DOCUMENT = frozenset({"uri", "media_type", "text"})
_MAX_INDEX = 10_000
_Change = Callable[[Any], Json]


def redactor(redactions: Iterable[Redaction], tool: Tool) -> AnswerRedactor | None:
    """Return the redactor for the answers of a tool, or None if no redaction covers it.

    The tools of a database have no redactor, because their columns are masked before the statement runs.
    """
    mine = [item for item in redactions if item.covers(tool)]
    if not mine or tool.asks_database:
        return None
    return AnswerRedactor([(_places(item.fields, tool), item.replacement) for item in mine])


def _places(fields: tuple[str, ...], tool: Tool) -> tuple[str, ...]:
    """Return the places of the fields in this tool's answers: a stored GraphQL operation may read a field under an alias."""
    if not tool.selects_fields:
        return fields
    from toolgen.connectors.graphql.hidden_fields import aliases_of  # noqa: PLC0415 - where there is GraphQL

    aliases = aliases_of(tool.binding.stored_document)
    return (*fields, *(found for path in fields for found in behind_aliases(path, aliases))) if aliases else fields


class _Changes(Struct, frozen=True, kw_only=True):
    """Functions that change an answer, the data sent beside it, and the plain texts around both."""

    answer: _Change
    beside: _Change
    around: _Change


class AnswerRedactor:
    """Removes fields from answers; each path has its replacement.

    Text that is not JSON is withheld, and so is binary data, because its content is unknown. Text beside an answer has no paths, so a name
    at the end of a path is hidden everywhere in it; for other paths the whole text is hidden.
    """

    def __init__(self, rules: Iterable[tuple[tuple[str, ...], str]]) -> None:
        self._rules = tuple(rules)
        self._rooted = tuple((tuple(filter(_is_rooted, paths)), mask) for paths, mask in self._rules)
        self._named: dict[str, str] = {}
        self._nameless = False
        for paths, mask in self._rules:
            for names in map(last_names, paths):
                self._nameless |= names is None
                self._named |= dict.fromkeys(names or (), mask)

    def __call__(self, data: Json, shape: Shape = Shape.WHOLE) -> Json:
        """Return the data without hidden fields; the original is not changed."""
        if data is None:
            return None
        from toolgen.core.json_path import JsonPathError  # noqa: PLC0415 - takes long to import, and is by now: the paths are compiled

        hidden = Hidden()
        mask = partial(_masked, hidden)
        changes = _Changes(answer=partial(self._answer, hidden), beside=partial(self._beside, hidden), around=_same)
        try:
            shown = _parts(self._framed(hidden, data, shape), shape, changes)
            if hidden:
                hidden.ready()
                shown = _parts(shown, shape, _Changes(answer=mask, beside=mask, around=mask))
        except (JsonPathError, RecursionError):
            return _content(DEEPER) if shape is Shape.CONTENT else DEEPER
        return shown

    def _framed(self, hidden: Hidden, data: Json, shape: Shape) -> Json:
        """Redact by paths from the root, which may match the frame of an answer too: the tool's output schema describes it."""
        if shape in {Shape.WHOLE, Shape.FAULT}:
            return data
        inside: Any = opened(data, str)
        for paths, mask in self._rooted:
            inside = replace_within(inside, paths, partial(_taken, hidden, mask))
        return closed(inside)

    def _answer(self, hidden: Hidden, value: Json) -> Json:
        inside: Any = opened(value, self._unread)
        if _is_file(inside) or (isinstance(value, str) and isinstance(inside, str) and not _is_json(value)):
            return WITHHELD
        for paths, mask in self._rules:
            inside = replace_within(inside, paths, partial(_taken, hidden, mask))
        return closed(inside)

    def _beside(self, hidden: Hidden, value: Json) -> Json:
        if value is None:
            return None
        if self._nameless:
            return WITHHELD
        inside: Any = opened(value, self._unread)
        if isinstance(inside, list):
            inside[:] = [self._error(item) for item in inside]
        replace_named(inside, {name: partial(_taken, hidden, mask) for name, mask in self._named.items()})
        return self._answer(hidden, closed(inside))

    def _error(self, error: Json) -> Json:
        """Return a GraphQL error without its message if it is about a hidden field (spec October 2021, section 7.1.2)."""
        path = error.get("path") if isinstance(error, Mapping) else None
        if not isinstance(path, list) or not path or not self._hides(path):
            return error
        return {"message": _ABOUT, "path": path}

    def _hides(self, path: list[Json]) -> bool:
        """Return True if the value at a path is hidden, or a value above or below it."""
        if any(str(step) in self._named for step in path):
            return True
        mark = "hidden"
        at: Any = 0
        for step in reversed(path):
            at = [*[None] * step, at] if isinstance(step, int) and 0 <= step <= _MAX_INDEX else {str(step): at}
        for paths, _ in self._rules:
            at = replace_within(at, paths, lambda _: mark)
        todo = [at]
        while todo:
            item = todo.pop()
            todo += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
            if item == mark:
                return True
        return False

    def _unread(self, text: str) -> Json:
        """Return a text that is not valid JSON; withhold it if it looks like JSON or contains the name of a hidden field."""
        suspect = self._nameless or _LIKE_JSON.match(text) or any(name in text for name in self._named)
        return WITHHELD if suspect else text


def _parts(data: Json, shape: Shape, changes: _Changes) -> Json:
    """Return the data with each of its parts redacted by its kind."""
    match shape:
        case Shape.WHOLE:
            return changes.answer(data)
        case Shape.STORED:
            return WITHHELD
        case Shape.FAULT:
            return changes.beside(data)
        case Shape.PARTS:
            return [_part(one, changes) for one in data] if isinstance(data, list | tuple) else _part(data, changes)
        case Shape.GRAPHQL | Shape.EVENTS | Shape.CONTENT:
            if not isinstance(data, Mapping):  # a path of the policy matched all of it
                return _content(str(data)) if shape is Shape.CONTENT else data
            members = {"data": changes.answer, "errors": changes.beside, "structuredContent": changes.answer}
            members["events"] = partial(_each, changes.answer)
            members["content"] = partial(_each, partial(_block, changes=changes))
            members["_meta"] = changes.beside
            return {name: members.get(name, changes.around)(item) for name, item in data.items()}
        case _:
            assert_never(shape)


def _each(change: _Change, items: Json) -> Json:
    return [change(item) for item in items] if isinstance(items, list | tuple) else items


def _part(part: Json, changes: _Changes) -> Json:
    if isinstance(part, Mapping) and part.keys() == _DOCUMENT:
        return {**part, "uri": _URI, "text": changes.answer(part["text"])}
    return changes.answer(part)


def _block(block: Json, changes: _Changes) -> Json:
    """Return an MCP content block. Pictures and links, which no path can match, are withheld, because they may show hidden values."""
    resource = block.get("resource") if isinstance(block, Mapping) else None
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        changed = {**block, "text": changes.answer(block["text"])}
    elif isinstance(block, Mapping) and isinstance(resource, Mapping) and isinstance(resource.get("text"), str):
        inner = {**resource, "uri": _URI, "text": changes.answer(resource["text"])}
        changed = {**block, "resource": _with_meta(inner, changes)}
    else:
        return {"type": "text", "text": WITHHELD}
    return _with_meta(changed, changes)


def _with_meta(block: dict[str, Json], changes: _Changes) -> dict[str, Json]:
    return {**block, "_meta": changes.beside(block["_meta"])} if isinstance(block.get("_meta"), Mapping) else block


def _content(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def _is_rooted(path: str) -> bool:
    return path != "$" and not path.startswith("$..")


def _is_file(value: Json) -> bool:
    return isinstance(value, Mapping) and "base64" in value and value.keys() <= _FILE


def _is_json(text: str) -> bool:
    try:
        decode_json(text.encode())
    except ValueError:
        return False
    return True


def _taken(hidden: Hidden, mask: str, value: Json) -> Json:
    hidden.add(value, mask)
    return mask


def _masked(hidden: Hidden, value: Json) -> Json:
    return closed(hidden.masked(opened(value, str)))


def _same(value: Json) -> Json:
    return value
