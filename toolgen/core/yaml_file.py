"""Our own YAML files (toolgen.yaml, policies/): strict, bounded, and able to say on which line something is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import Struct

from toolgen.core.errors import ToolgenError
from toolgen.core.files import read_file
from toolgen.core.spelling import nearest

__all__ = ["MAX_FILE_SIZE", "SHAPE", "YamlDocument", "apart", "decode", "parse", "parse_bytes", "read"]

T = TypeVar("T")
SHAPE = "shape"
_YAML = "tag:yaml.org,2002:"
_TAGS = frozenset(f"{_YAML}{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null"))  # JSON's
_Path = tuple[str | int, ...]
MAX_FILE_SIZE = 4 * 1024 * 1024
"""How many bytes a file may have."""
_MAX_DEPTH = 50
_MAX_EXACT = 2**53 - 1
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`")
_AT = re.compile(r"^(?P<text>.*?)(?: - at (?:key in )?`\$(?P<path>[^`]*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


class YamlDocument(Struct, frozen=True):
    """A parsed file: plain data, and the line (from 1) every part of it starts on, or what else a part is from. `lines` leaves out a part
    that starts on the line of the part around it."""

    name: str
    data: Any
    lines: Mapping[_Path, int]
    origins: Mapping[_Path, str] = {}

    def where(self, *path: str | int) -> str:
        """`file:line` of the part at `path`, or of the nearest part above it that exists."""
        while (line := self.lines.get(path)) is None and path:
            if path in self.origins:
                return self.origins[path]
            path = path[:-1]
        return f"{self.name}:{line or 1}"

    def check_numbers(self, path: _Path, error: type[ToolgenError]) -> None:
        """Raises `error` where below a part there is a number that not every JSON program reads as what it is: NaN, one beyond 2**53."""
        value = self.data
        for step in path:
            value = value[step]
        waiting: list[tuple[_Path, Any]] = [(path, value)]
        while waiting:
            at, value = waiting.pop()
            if isinstance(value, dict):
                waiting += [((*at, name), item) for name, item in value.items()]
            elif isinstance(value, list):
                waiting += [((*at, index), item) for index, item in enumerate(value)]
            elif isinstance(value, int | float) and not _is_exact(value):
                raise error(
                    f"{value!s:.40} is a number that JSON does not carry",
                    where=self.where(*at),
                    suggestion="put it in quotes, or leave it out",
                )


def _is_exact(value: float) -> bool:
    return -_MAX_EXACT <= value <= _MAX_EXACT if isinstance(value, int) else math.isfinite(value)


def read(path: Path, name: str, error: type[ToolgenError]) -> YamlDocument:
    """Reads and parses a file. `name` is how messages call it; raises `error` for every way in which that fails."""
    try:
        raw = read_file(path, MAX_FILE_SIZE)
    except OSError as cause:
        raise error(f"cannot be read: {cause.strerror or type(cause).__name__}", where=name) from cause
    return parse_bytes(raw, name, error)


def parse_bytes(raw: bytes, name: str, error: type[ToolgenError]) -> YamlDocument:
    """The content of a file, decoded and parsed as `read` does it."""
    if len(raw) > MAX_FILE_SIZE:
        raise error(f"is larger than {MAX_FILE_SIZE} bytes", where=name)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise error(f"is not UTF-8 text (byte {cause.start})", where=name) from cause
    return parse(text, name, error)


def parse(text: str, name: str, error: type[ToolgenError]) -> YamlDocument:
    """Parses YAML 1.1 as PyYAML's safe loader does, but refuses duplicate keys, keys that are no text, aliases, tags and deep nesting."""
    loader = _Loader(text)
    try:
        _refuse_deep(text, name, error)
        node = loader.get_single_node()
        lines: dict[_Path, int] = {}
        data = _NodeReader(loader, name, error, lines).root(node) if node is not None else {}
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark or cause.context_mark
        raise error(f"is not YAML: {cause.problem}", where=f"{name}:{mark.line + 1 if mark else 1}") from cause
    except (yaml.YAMLError, ValueError) as cause:
        raise error("is not YAML: it holds characters or values YAML does not allow", where=name) from cause
    finally:
        loader.dispose()
    return YamlDocument(name, data, lines)


def decode(document: YamlDocument, path: _Path, kind: type[T], error: type[ToolgenError]) -> T:
    """The part of a document at `path` as the msgspec Struct `kind`; unknown keys and wrong types raise `error` with line and pointer."""
    value = document.data
    for step in path:
        value = value[step]
    if not isinstance(value, dict):
        raise error(f"{_pointer(path)} must be a mapping of keys to values", where=document.where(*path))
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as cause:
        found = _AT.match(str(cause))
        text = found["text"] if found else str(cause)
        steps = path + tuple(_steps(found["path"] or "" if found else ""))
        if unknown := _UNKNOWN_FIELD.match(text):
            key = unknown[1]
            raise error(
                f"unknown key '{key}' in {_pointer(steps)}{_suggestion(key, kind, steps[len(path) :])}",
                where=document.where(*steps, key),
            ) from cause
        raise error(f"{_pointer(steps)}: {text[:1].lower()}{text[1:]}", where=document.where(*steps)) from cause


def apart(kind: type[msgspec.Struct]) -> msgspec.Meta:
    """Marks `Any` in a Struct: what stands there is decoded as `kind` by itself, so that an error can say its line."""
    return msgspec.Meta(extra={SHAPE: kind})


def _refuse_deep(text: str, name: str, error: type[ToolgenError]) -> None:
    """Before a node is composed, because composing recurses in C and deep nesting would end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise error(f"is nested more than {_MAX_DEPTH} levels deep", where=f"{name}:{line}")


def _suggestion(key: str, kind: type[Any], steps: _Path) -> str:
    structure = _structure_at(msgspec.inspect.type_info(kind), steps)
    keys = [field.encode_name for field in structure.fields] if structure else []
    return nearest(key, keys) or (f" (valid keys: {', '.join(keys)})" if keys else "")


def _structure_at(info: msgspec.inspect.Type, steps: _Path) -> msgspec.inspect.StructType | None:
    if isinstance(info, msgspec.inspect.UnionType):
        return next((found for item in info.types if (found := _structure_at(item, steps))), None)
    if isinstance(info, msgspec.inspect.StructType):
        if not steps:
            return info
        field = next((field for field in info.fields if field.encode_name == steps[0]), None)
        return _structure_at(field.type, steps[1:]) if field else None
    if isinstance(info, (msgspec.inspect.ListType, msgspec.inspect.VarTupleType)) and steps:
        return _structure_at(info.item_type, steps[1:])
    return None


def _steps(path: str) -> Iterator[str | int]:
    for name, index in _STEP.findall(path):
        if name:
            yield name
        elif index.isdigit():
            yield int(index)


def _pointer(path: _Path) -> str:
    return ".".join(str(step) for step in path) or "the file"


class _Loader(yaml.CSafeLoader):
    """PyYAML's safe loader without timestamps: a date in our files is text, read where it is used."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class _NodeReader:
    """Turns YAML nodes into plain data while noting where each stood."""

    def __init__(self, loader: _Loader, name: str, error: type[ToolgenError], lines: dict[_Path, int]) -> None:
        self._loader, self._name, self._error, self._lines = loader, name, error, lines
        self._seen: set[int] = set()

    def root(self, node: yaml.Node) -> object:
        """The value of a document's node."""
        line = self._lines[()] = node.start_mark.line + 1
        return self._value(node, (), line)

    def _value(self, node: yaml.Node, path: _Path, line: int) -> object:
        """The value of a node that is part of what starts on this line."""
        if id(node) in self._seen:
            raise self._error("uses a YAML alias; write the value out", where=self._at(node))
        if node.tag not in _TAGS:
            raise self._error(f"has the tag {node.tag.replace(_YAML, '!!')[:80]}; leave it out", where=self._at(node))
        if isinstance(node, yaml.MappingNode):
            self._seen.add(id(node))
            return self._mapping(node, path, line)
        if isinstance(node, yaml.SequenceNode):
            self._seen.add(id(node))
            return self._sequence(node, path, line)
        return self._loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, path: _Path, line: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self._loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise self._error(f"the key {key!r} is not text; put it in quotes", where=self._at(key_node))
            if key in found:
                raise self._error(f"the key '{key}' stands twice", where=self._at(key_node))
            below = (*path, key)
            found[key] = self._value(value_node, below, self._noted(below, key_node, line))
        return found

    def _sequence(self, node: yaml.SequenceNode, path: _Path, line: int) -> list[object]:
        found = []
        for index, item in enumerate(node.value):
            below = (*path, index)
            found.append(self._value(item, below, self._noted(below, item, line)))
        return found

    def _noted(self, path: _Path, node: yaml.Node, around: int) -> int:
        """The line on which a part starts, noted where it is another one than that of the part around it."""
        line: int = node.start_mark.line + 1
        if line != around:
            self._lines[path] = line
        return line

    def _at(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"
