"""JSON with comments and trailing commas: parsed, and edited as text, so that everything else stays as it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["loads", "put", "removed"]

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENTS = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_BLANK = re.compile(r"\s*")
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*[^\r\n]*?\*/[ \t]*)*(?://[^\r\n]*)?")
_LINE_END = re.compile(r"[ \t]*\r?\n")
_DECODER = json.JSONDecoder()


class _Member(NamedTuple):
    """Member of an object, or item of an array by its index: the start of the member and of its value, and its end."""

    key: str | int
    start: int
    value: int
    end: int


def loads(text: str) -> Any:
    """Parse JSON with comments and trailing commas. Raises `ValueError` or `RecursionError`."""
    return json.loads(_strict(_plain(text)))


def put(text: str, path: Sequence[str | int], value: object) -> str:
    """Return the text with this value at a path, in place of the former value or after the last entry. The parents exist."""
    plain = _plain(text)
    parent, entries = _entries(_strict(plain), path[:-1])
    unit, line = _unit(text), "\r\n" if "\r\n" in text else "\n"
    name = f"{json.dumps(path[-1], ensure_ascii=False)}: " if isinstance(path[-1], str) else ""
    there = _named(entries, path[-1])
    if there is not None:
        margin = _margin(text, there.start)
        return text[: there.value] + _dumped(value, margin, unit, line) + text[there.end :]
    if not entries:
        outer = re.match(r"[ \t]*", text[text.rfind("\n", 0, parent) + 1 :])
        around = line + (outer[0] if outer else "")
        has_lines = "\n" in text[parent + 1 : _past_blank(plain, parent + 1)]
        made = f"{around}{unit}{name}{_dumped(value, around[len(line) :] + unit, unit, line)}"
        return text[: parent + 1] + made + ("" if has_lines else around) + text[parent + 1 :]
    last = entries[-1]
    margin, comma = _margin(text, last.start), _past_blank(plain, last.end)
    has_comma = plain[comma] == ","
    at = comma + 1 if has_comma else last.end
    if margin is not None and (rest := _REST_OF_LINE.match(text, at)):  # a comment on the last entry stays beside it
        at = rest.end()
    made = (" " if margin is None else line + margin) + name + _dumped(value, margin, unit, line)
    return (
        f"{text[: last.end]}{'' if has_comma else ','}{text[last.end : at]}{made}{',' if has_comma else ''}{text[at:]}"
    )


def removed(text: str, path: Sequence[str | int]) -> str:
    """Return the text without the entry at a path, and without its comma."""
    plain = _plain(text)
    parent, entries = _entries(_strict(plain), path[:-1])
    gone = _named(entries, path[-1])
    if gone is None:
        return text
    end, lead = gone.end, text[: gone.start]
    if plain[comma := _past_blank(plain, end)] == ",":
        end = comma + 1
    elif index := entries.index(gone):
        comma = _past_blank(plain, entries[index - 1].end)
        lead = text[:comma] + text[comma + 1 : gone.start]
    if len(entries) == 1 and not (text[parent + 1 : gone.start] + text[end : _past_blank(plain, end)]).strip():
        return text[: parent + 1] + text[_past_blank(plain, end) :]
    line_end = _LINE_END.match(text, end)
    if line_end and _margin(text, gone.start) is not None:
        end = line_end.end()
    return lead.rstrip(" \t") + text[end:]


def _plain(text: str) -> str:
    """Return the text with each comment replaced by blanks."""
    return _COMMENTS.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\r\n]", " ", found[0]), text)


def _strict(plain: str) -> str:
    """Return the text with each comma before a closing bracket replaced by a blank."""
    return _TRAILING_COMMAS.sub(lambda found: " " if found[0] == "," else found[0], plain)


def _entries(strict: str, path: Sequence[str | int]) -> tuple[int, list[_Member]]:
    """Position of the object or array at a path, and its entries."""
    at = _past_blank(strict, 0)
    for step in path:
        found = _named(_children(strict, at), step)
        if found is None:
            raise KeyError(step)
        at = found.value
    return at, _children(strict, at)


def _children(strict: str, at: int) -> list[_Member]:
    is_object, found = strict[at] == "{", list[_Member]()
    at = _past_blank(strict, at + 1)
    while strict[at] not in "}]":
        start, key = at, len(found)
        if is_object:
            key, at = _DECODER.raw_decode(strict, at)
            at = _past_blank(strict, _past_blank(strict, at) + 1)
        _, end = _DECODER.raw_decode(strict, at)
        found.append(_Member(key, start, at, end))
        at = _past_blank(strict, end)
        if strict[at] == ",":
            at = _past_blank(strict, at + 1)
    return found


def _named(entries: Sequence[_Member], key: str | int) -> _Member | None:
    """Return the last entry of this name, which is the one that readers use."""
    return next((one for one in reversed(entries) if one.key == key), None)


def _past_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _margin(text: str, at: int) -> str | None:
    """Return the blanks before something that begins its line; None for other places."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return None if before.strip(" \t") or "\n" not in text[:at] else before


def _unit(text: str) -> str:
    """Return the indentation unit, taken from the first indented line."""
    found = re.search(r"^[ \t]+(?=\")", text, re.MULTILINE)
    return found[0] if found else "  "


def _dumped(value: object, margin: str | None, unit: str, line: str) -> str:
    if margin is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", line + margin)
