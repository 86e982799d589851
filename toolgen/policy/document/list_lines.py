"""Key lists parsed by line: where each entry has a line, an edit has the new lines parsed, and the others taken as they were.

Only the layout of lines is matched. The YAML parser reads each line, and the whole file where a line does not stand for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.errors import PolicyError
from toolgen.yaml_file import Document, parse

__all__ = ["parse_again"]

_SECTIONS = ("keys", "revoked")
_EMPTY = {f"{name}: []": name for name in _SECTIONS}
_HEADS = {f"{name}:": name for name in _SECTIONS}
_ITEM = "  - {"
_MAX_NEW = 1_000


def parse_again(before: bytes, known: Document, content: bytes, where: str) -> Document | None:
    """The document of a list that was edited, as parsing the whole of it would make it; None where that has to be done."""
    items = _items(before, known)
    return None if items is None else _parsed(content, where, items)


def _items(content: bytes, known: Document) -> Mapping[str, Any] | None:
    """What each line of a parsed list says."""
    found: dict[str, Any] = {}
    places = _layout(content)
    if places is None:
        return None
    for name, _, lines in places:
        entries = known.data.get(name)
        if not isinstance(entries, list) or len(entries) != len(lines):
            return None
        found.update(zip((line for _, line in lines), entries, strict=True))
    return found


def _parsed(content: bytes, where: str, items: Mapping[str, Any]) -> Document | None:
    places = _layout(content)
    if places is None or sum(line not in items for _, _, lines in places for _, line in lines) > _MAX_NEW:
        return None
    data: dict[str, Any] = {}
    numbers: dict[tuple[str | int, ...], int] = {(): places[0][1] if places else 1}
    for name, head, lines in places:
        numbers[name,] = head
        entries = data[name] = []
        for index, (number, line) in enumerate(lines):
            entry = items[line] if line in items else _entry(line)
            if entry is None:
                return None
            numbers[name, index] = number
            entries.append(entry)
    return Document(where, data, numbers)


def _entry(line: str) -> Any:
    """The entry on a line; None where it is not one by itself."""
    try:
        found = parse(line, "", PolicyError).data
    except PolicyError:
        return None
    return found[0] if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict) else None


def _layout(content: bytes) -> list[tuple[str, int, list[tuple[int, str]]]] | None:
    """The sections of a list, with the number of their line and the lines of their entries; None for any other layout."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    found: list[tuple[str, int, list[tuple[int, str]]]] = []
    entries: list[tuple[int, str]] | None = None
    over = False
    for number, line in enumerate(text.split("\n"), 1):
        if over and line and not line.startswith("#"):
            return None
        if line.startswith(_ITEM) and line.endswith("}"):
            if entries is None:
                return None
            entries.append((number, line))
        elif line in _HEADS or line in _EMPTY:
            name = _HEADS.get(line) or _EMPTY[line]
            if any(name == known for known, _, _ in found) or (found and entries is not None and not entries):
                return None
            entries = [] if line in _HEADS else None
            found.append((name, number, entries if entries is not None else []))
        elif line == "...":
            over = True
        elif line and not (line.startswith("#") and line.isascii()):
            return None
    return None if entries is not None and not entries else found or None
