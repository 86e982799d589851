"""Incremental parser of policy files: after an edit it parses the changed entries and reuses the others from the last parse.

An entry is an item of a list (`rules:`) or a key of a mapping (`principals:`) at the top level of a file, with the lines that are indented
deeper. It begins where YAML is in block context at the indentation of its section, so its text has the same meaning anywhere in that
section. The lines on which the parser found the entries confirm that they begin there. A file with any other layout is parsed as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from toolgen.core.errors import PolicyError
from toolgen.core.yaml_file import YamlDocument, parse

__all__ = ["Entries", "entries_of", "parse_changes"]

_Path: TypeAlias = tuple[str | int, ...]
_Kind: TypeAlias = Literal["list", "mapping", "value"]
_HEADER = re.compile(r"([a-z_]+):(?: (.*))?\Z")
_OTHER_BREAKS = re.compile("[\r\t\x85\u2028\u2029\ufeff]")  # line breaks in YAML 1.1 besides \n, and tabs


class _EntryText(Struct, frozen=True):
    """Text of an entry, and the line on which it begins."""

    line: int
    text: str


class _Section(Struct):
    """Section of a file by its lines. A section of kind `value` is a single entry together with its header."""

    name: str
    line: int
    kind: _Kind
    indent: int = -1
    texts: list[_EntryText] = []


class _ParsedEntry(Struct, frozen=True):
    """Parsed entry, and its place in the document of that parse."""

    key: str | int
    value: Any
    lines: Mapping[_Path, int]
    path: _Path
    line: int


Entries: TypeAlias = Mapping[tuple[str, _Kind, str], _ParsedEntry]
"""Parsed entries of a file by section, kind of section and text."""


def entries_of(content: bytes, document: YamlDocument) -> Entries:
    """Return the entries of a parsed file; none for any other layout."""
    sections = _sections(content)
    if (
        sections is None
        or not isinstance(document.data, dict)
        or document.data.keys() != {one.name for one in sections}
    ):
        return {}
    found: dict[tuple[str, _Kind, str], _ParsedEntry] = {}
    for section in sections:
        parsed = _parsed(section, document, section.texts)
        if parsed is None:
            return {}
        found.update(parsed)
    return found


def parse_changes(content: bytes, where: str, known: Entries) -> tuple[YamlDocument, Entries] | None:
    """Return the document that a parse of the whole file would give, and its entries; None if the whole file has to be parsed."""
    sections = _sections(content)
    if sections is None:
        return None
    found = dict[tuple[str, _Kind, str], _ParsedEntry]()
    changed: list[_Section] = []
    for section in sections:
        missing = []
        for one in section.texts:
            key = (section.name, section.kind, one.text)
            if (entry := known.get(key)) is None:
                missing.append(one)
            else:
                found[key] = entry
        if missing:
            changed.append(_Section(section.name, section.line, section.kind, section.indent, missing))
    if changed:
        parsed = _parse_together(changed)
        if parsed is None:
            return None
        found.update(parsed)
    return _joined(sections, where, found)


def _parse_together(sections: list[_Section]) -> Entries | None:
    """Parse these entries as a separate file; None if they are no valid entries without the rest."""
    lines: list[str] = []
    placed: list[tuple[_Section, list[_EntryText]]] = []
    for section in sections:
        if section.kind != "value":
            lines.append(f"{section.name}:")
        texts = []
        for one in section.texts:
            texts.append(_EntryText(len(lines) + 1, one.text))
            lines += one.text.split("\n")
        placed.append((section, texts))
    try:
        document = parse("\n".join((*lines, "")), "", PolicyError)
    except PolicyError:
        return None
    if not isinstance(document.data, dict) or document.data.keys() != {one.name for one in sections}:
        return None
    found: dict[tuple[str, _Kind, str], _ParsedEntry] = {}
    for section, texts in placed:
        parsed = _parsed(section, document, texts)
        if parsed is None:
            return None
        found.update(parsed)
    return found


def _parsed(section: _Section, document: YamlDocument, texts: list[_EntryText]) -> Entries | None:
    """Return the entries with these texts that the parser found on the lines on which their texts begin."""
    value, lines = document.data[section.name], document.lines
    if section.kind == "value":
        (one,) = texts
        if lines.get((section.name,), lines[()]) != one.line:
            return None
        return {
            (section.name, section.kind, one.text): _ParsedEntry(section.name, value, lines, (section.name,), one.line)
        }
    if not isinstance(value, list if section.kind == "list" else dict) or len(value) != len(texts):
        return None
    found: dict[tuple[str, _Kind, str], _ParsedEntry] = {}
    items: Iterable[tuple[str | int, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    for (key, item), one in zip(items, texts, strict=True):
        path = (section.name, key)
        if lines.get(path) != one.line:
            return None
        found[section.name, section.kind, one.text] = _ParsedEntry(key, item, lines, path, one.line)
    return found


def _joined(sections: list[_Section], where: str, entries: Entries) -> tuple[YamlDocument, Entries] | None:
    data: dict[str, Any] = {}
    for section in sections:
        own = [entries[section.name, section.kind, one.text] for one in section.texts]
        match section.kind:
            case "list":
                data[section.name] = [entry.value for entry in own]
            case "mapping":
                data[section.name] = {entry.key: entry.value for entry in own}
                if len(data[section.name]) != len(own):
                    return None  # duplicate key
            case "value":
                data[section.name] = own[0].value
    return YamlDocument(where, data, _Lines(sections, entries)), entries


class _Lines(Mapping[_Path, int]):
    """Line numbers of a document that was joined from entries."""

    def __init__(self, sections: list[_Section], entries: Entries) -> None:
        self._sections = {section.name: section for section in sections}
        self._entries = entries
        self._first = sections[0].line
        self._texts: dict[str, dict[str | int, _EntryText]] = {}

    def get(self, path: _Path, default: Any = None) -> Any:
        """Return the line of a path, like `Mapping.get`. Entries of sections, which are looked up most, need no exception for the
        default."""
        if len(path) == 2 and (section := self._sections.get(str(path[0]))) is not None and section.kind != "value":
            one = self._placed(section).get(path[1])
            return default if one is None else one.line
        return super().get(path, default)

    def __getitem__(self, path: _Path) -> int:
        if not path:
            return self._first
        section = self._sections[str(path[0])]
        if len(path) == 1:
            return section.line
        own, inside = (path[:1], path[1:]) if section.kind == "value" else (path[:2], path[2:])
        one = self._placed(section)[own[-1]]
        entry = self._entries[section.name, section.kind, one.text]
        return entry.lines[*entry.path, *inside] - entry.line + one.line if inside else one.line

    def _placed(self, section: _Section) -> dict[str | int, _EntryText]:
        """Return the texts of a section by the last step of their path."""
        found = self._texts.get(section.name)
        if found is None:
            keys = (self._entries[section.name, section.kind, one.text].key for one in section.texts)
            names: Iterator[str | int] = iter(range(len(section.texts))) if section.kind == "list" else keys
            found = self._texts[section.name] = dict(zip(names, section.texts, strict=True))
        return found

    def __iter__(self) -> Iterator[_Path]:
        yield ()
        for section in self._sections.values():
            yield (section.name,)
            if section.kind != "value":
                yield from ((section.name, key) for key in self._placed(section))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _sections(content: bytes) -> list[_Section] | None:
    """Return the sections of a file, with the texts of their entries; None for any other layout."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not text.endswith("\n") or _OTHER_BREAKS.search(text):
        return None
    return _Layout(text.split("\n")).sections()


class _Layout:
    """Layout of a file by its lines."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._found: list[_Section] = []
        self._begins = 0  # line of the entry that has not ended yet; 0 for none

    def sections(self) -> list[_Section] | None:
        """Return the sections with their entries; None for any other layout."""
        over = len(self._lines)
        for number, line in enumerate(self._lines, 1):
            if line == "...":
                over = number
                break
            if not self._takes(number, line):
                return None
        self._end_entry(over)
        rest = self._lines[over:]
        if any(line.strip(" ") and not (line.startswith("#") and line.isprintable()) for line in rest):
            return None
        return self._found if self._found and all(one.texts for one in self._found) else None

    def _takes(self, number: int, line: str) -> bool:
        """Return True if the next line is part of this layout."""
        stripped = line.lstrip(" ")
        indent = len(line) - len(stripped)
        if not stripped or stripped[0] == "#":
            return self._begins > 0 or line.isprintable()
        if indent == 0 and (header := _HEADER.match(line)):
            return self._begin_section(number, header[1], header[2] or "")
        if not self._found or self._found[-1].kind == "value":
            return bool(self._found) and indent > 0
        section = self._found[-1]
        if not self._begins:
            section.indent, section.kind = indent, "list" if stripped.startswith("- ") else "mapping"
        if indent < section.indent or (indent == 0 and not stripped.startswith("- ")):
            return False
        if indent == section.indent:
            self._end_entry(number)
            self._begins = number
        return True

    def _begin_section(self, number: int, name: str, rest: str) -> bool:
        self._end_entry(number)
        if any(name == one.name for one in self._found):
            return False
        is_open = not rest or rest.lstrip().startswith("#")
        self._found.append(_Section(name, number, "list" if is_open else "value"))
        self._begins = 0 if is_open else number
        return True

    def _end_entry(self, number: int) -> None:
        """End the entry before this line."""
        if self._begins:
            text = "\n".join(self._lines[self._begins - 1 : number - 1])
            self._found[-1].texts.append(_EntryText(self._begins, text))
