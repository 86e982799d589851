"""YAML files of toolgen (toolgen.yaml, policies/): strict, bounded, with the line of each fault."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from toolgen.core.errors import ToolgenError
from toolgen.core.files import read_file
from toolgen.core.spelling import nearest

__all__ = ["MAX_FILE_SIZE", "SHAPE", "YamlDocument", "apart", "decode", "parse", "parse_bytes", "read"]

T = TypeVar("T")
SHAPE = "shape"
_Path = tuple[str | int, ...]
MAX_FILE_SIZE = 4 * 1024 * 1024
"""Maximum bytes of a file."""
_MAX_EXACT = 2**53 - 1
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`")
_AT = re.compile(r"^(?P<text>.*?)(?: - at (?:key in )?`\$(?P<path>[^`]*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


class YamlDocument(Struct, frozen=True):
    """Parsed file: plain data, and the line (from 1) of every part, or another origin of a part. `lines` omits a part that starts on the
    line of its parent.
    """

    name: str
    data: Any
    lines: Mapping[_Path, int]
    origins: Mapping[_Path, str] = {}

    def where(self, *path: str | int) -> str:
        """Return `file:line` of the part at `path`, or of the nearest existing part above it."""
        while (line := self.lines.get(path)) is None and path:
            if path in self.origins:
                return self.origins[path]
            path = path[:-1]
        return f"{self.name}:{line or 1}"

    def check_numbers(self, path: _Path, error: type[ToolgenError]) -> None:
        """Raise `error` for a number below a part that not every JSON program reads exactly: NaN, or one beyond 2**53."""
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
    """Read and parse a file. `name` is its name in messages; raises `error` for every fault."""
    try:
        raw = read_file(path, MAX_FILE_SIZE)
    except OSError as cause:
        raise error(f"cannot be read: {cause.strerror or type(cause).__name__}", where=name) from cause
    return parse_bytes(raw, name, error)


def parse_bytes(raw: bytes, name: str, error: type[ToolgenError]) -> YamlDocument:
    """Return the content of a file, decoded and parsed as `read` does it."""
    if len(raw) > MAX_FILE_SIZE:
        raise error(f"is larger than {MAX_FILE_SIZE} bytes", where=name)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise error(f"is not UTF-8 text (byte {cause.start})", where=name) from cause
    return parse(text, name, error)


def parse(text: str, name: str, error: type[ToolgenError]) -> YamlDocument:
    """Parse YAML 1.1 like PyYAML's safe loader, but refuse duplicate keys, keys that are not text, aliases, tags and deep nesting."""
    from toolgen.core.yaml_nodes import read_nodes  # noqa: PLC0415 - a build of a JSON description reads no YAML

    data, lines = read_nodes(text, name, error)
    return YamlDocument(name, data, lines)


def decode(document: YamlDocument, path: _Path, kind: type[T], error: type[ToolgenError]) -> T:
    """Return the part of a document at `path` as the msgspec Struct `kind`; unknown keys and wrong types raise `error` with line and
    pointer.
    """
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
    """Mark `Any` in a Struct: its value is decoded separately as `kind`, so that an error has its line."""
    return msgspec.Meta(extra={SHAPE: kind})


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
