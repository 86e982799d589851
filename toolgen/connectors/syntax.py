"""JSON or YAML bytes into a value, within limits, with whatever key stands twice in one object."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.connectors.parsed_document import MAX_REPEATED, ParsedDocument, Repeated, escape, measure
from toolgen.core.errors import DescriptionError

__all__ = [
    "MAX_DOCUMENT_SIZE",
    "ParsedDocument",
    "Repeated",
    "escape",
    "measure",
    "parse",
    "read",
]

MAX_DOCUMENT_SIZE = 64 * 1024 * 1024
_BYTE = re.compile(r"\(byte (\d+)\)\Z")
_MAX_TOKENS = 5_000_000
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")  # in one pass, which takes a quarter of the time of two searches with `in`
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]|\n', re.DOTALL)


def parse(data: bytes, *, where: str) -> Any:
    """The value that `read` finds, for those who do not ask how it is written. Raises as `read` does."""
    return read(data, where=where).value


def read(data: bytes, *, where: str) -> ParsedDocument:
    """The JSON value in `data`, which is JSON or YAML in UTF-8.

    Raises `DescriptionError`, with file and line, for anything else: too large, too deep, another encoding, HTML, a bomb of aliases.
    """
    if len(data) > MAX_DOCUMENT_SIZE:
        raise DescriptionError(f"is larger than {MAX_DOCUMENT_SIZE >> 20} MiB", where=where, suggestion="split it")
    data = data.removeprefix(b"\xef\xbb\xbf")
    start = data[:512].lstrip()
    if not start:
        raise DescriptionError("is empty", where=where)
    json_fault: DescriptionError | None = None
    if start[:1] in b"{[":
        try:
            value = msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            json_fault = _json_fault(error, data, where)
        else:
            return ParsedDocument(value=value, repeated=_repeated_in_json(data, value))
    text = _text(data, where)
    if start[:1] == b"<":
        raise DescriptionError(
            "is an HTML or XML page, not a description",
            where=f"{where}:1",
            suggestion="name the description itself: the raw file, or what such a page loads, often …/openapi.json",
        )
    if json_fault is not None and where.endswith(".json"):
        raise json_fault
    from toolgen.connectors.yaml_syntax import read_yaml  # noqa: PLC0415 - JSON, as most large descriptions are, needs no YAML

    return read_yaml(text, where)


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DescriptionError("is not UTF-8", where=f"{where}:{line}", suggestion="save it as UTF-8") from error


def _json_fault(error: Exception, data: bytes, where: str) -> DescriptionError:
    """Description error with the line that a decoder's message (`… (byte 17)`) means; text that ends too early is at fault on its last."""
    found = _BYTE.search(str(error))
    end = int(found[1]) if found else len(data.rstrip()) if "truncated" in str(error) else 0
    line = data.count(b"\n", 0, end) + 1
    return DescriptionError(f"is not JSON: {error}", where=f"{where}:{line}")


def _repeated_in_json(data: bytes, value: Any) -> tuple[Repeated, ...]:
    """msgspec lets the last key win and says nothing, so the colons are counted: written again, a value has lost those of lost keys.

    An escaped colon could make up for a lost one, and then, as for what nests too deeply to be written, every key is looked at.
    """
    lost = 0
    if _ESCAPED_COLON.search(data) is None:
        try:
            lost = data.count(b":") - _colons(value, 2)
        except (TypeError, ValueError, RecursionError):
            lost = -1
        if not lost:
            return ()
    found: list[Repeated] = []
    if not _scan(data, found) and lost > 0 and not found:
        found.append(Repeated(pointer="#", key="", line=1))
    return tuple(found)


def _colons(value: Any, levels: int) -> int:
    """Number of colons in the JSON of a value; written member by member, as all of it at once would be as large as the file."""
    if levels and isinstance(value, dict):
        return sum(1 + name.count(":") + _colons(item, levels - 1) for name, item in value.items())
    return msgspec.json.encode(value).count(b":")


class _Open(Struct, kw_only=True):
    """An object or a list that is being scanned. `keys` is None for a list; `at` is the last key, or the item's index."""

    pointer: str
    keys: set[str] | None
    at: str
    awaits_key: bool


def _scan(data: bytes, found: list[Repeated]) -> bool:
    """Every key of a valid JSON text; whether it came to the end."""
    line = 1
    stack: list[_Open] = []
    for count, match in enumerate(_TOKEN.finditer(data)):
        if count > _MAX_TOKENS or len(found) >= MAX_REPEATED:
            return False
        token, top = match[0], stack[-1] if stack else None
        if token == b"\n":
            line += 1
        elif token in b"{[":
            pointer = f"{top.pointer}/{escape(top.at)}" if top else "#"
            is_object = token == b"{"
            stack.append(_Open(pointer=pointer, keys=set() if is_object else None, at="0", awaits_key=is_object))
        elif token in b"}]":
            stack.pop()
        elif top is None:
            continue
        elif token == b",":
            top.awaits_key = top.keys is not None
            if top.keys is None:
                top.at = str(int(top.at) + 1)
        elif top.keys is not None and top.awaits_key:
            top.at, top.awaits_key = msgspec.json.decode(token), False
            if top.at in top.keys:
                found.append(Repeated(pointer=top.pointer, key=top.at, line=line))
            top.keys.add(top.at)
    return True
