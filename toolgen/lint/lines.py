"""On which line of a JSON or YAML file something stands, found in one pass and without building anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import yaml

from toolgen.files import read_file
from toolgen.sources.syntax import escape

__all__ = ["lines"]

_MAX_JSON_SIZE = 64 * 1024 * 1024
_MAX_YAML_SIZE = 4 * 1024 * 1024  # its events cost ten times as much
_MAX_DEPTH = 250
_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"|[{}\[\],:]|\n')


def lines(path: Path, pointers: Collection[str]) -> dict[str, int]:
    """Pointer (`#/paths/~1pet/get`) -> line, from 1, for those that are there; nothing where the file is too large or unreadable."""
    try:
        data = read_file(path, _MAX_JSON_SIZE)
    except OSError:
        return {}
    wanted = set(pointers)
    json = data.lstrip()[:1] in (b"{", b"[")
    if not wanted or len(data) > (_MAX_JSON_SIZE if json else _MAX_YAML_SIZE):
        return {}
    found: dict[str, int] = {}
    for pointer, line in _json(data) if json else _yaml(data):
        if pointer in wanted:
            found.setdefault(pointer, line)
            if len(found) == len(wanted):
                break
    return found


def _json(data: bytes) -> Iterator[tuple[str, int]]:
    """The pointer and the line of every value. What is not quite JSON gives not quite everything."""
    line = 1
    stack: list[
        tuple[str, int]
    ] = []  # the pointer of an open container, and the index of its next item, -1 for an object
    key = b""
    yield "#", 1
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token == b"\n":
            line += 1
        elif token in b"{[":
            where = _below(stack, key)
            if stack and stack[-1][1] >= 0:
                yield where, line
            stack.append((where, 0 if token == b"[" else -1))
            if len(stack) > _MAX_DEPTH:
                return
        elif token in b"}]":
            if stack:
                stack.pop()
        elif token == b",":
            if stack and stack[-1][1] >= 0:
                stack[-1] = (stack[-1][0], stack[-1][1] + 1)
        elif token == b":":
            yield _below(stack, key), line
        else:
            key = match[1]


def _below(stack: list[tuple[str, int]], key: bytes) -> str:
    if not stack:
        return "#"
    above, index = stack[-1]
    if index >= 0:
        return f"{above}/{index}"
    name = key.decode("utf-8", "replace")
    if "\\" in name:
        name = re.sub(
            r"\\(?:u([0-9a-fA-F]{4})|(.))", lambda found: chr(int(found[1], 16)) if found[1] else found[2], name
        )
    return f"{above}/{escape(name)}"


def _yaml(data: bytes) -> Iterator[tuple[str, int]]:
    stack: list[list[str | int | None]] = []  # pointer, next index or -1, pending key
    try:
        for event in yaml.parse(data, Loader=yaml.CSafeLoader):
            if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                stack.pop()
                continue
            if not isinstance(event, yaml.NodeEvent) or event.start_mark is None:
                continue
            line = event.start_mark.line + 1
            where = "#"
            if stack:
                top = stack[-1]
                if top[1] == -1 and top[2] is None:  # a key
                    top[2] = event.value if isinstance(event, yaml.ScalarEvent) else ""
                    yield f"{top[0]}/{escape(str(top[2]))}", line
                    continue
                where = f"{top[0]}/{escape(str(top[2])) if top[1] == -1 else top[1]}"
                if top[1] == -1:
                    top[2] = None
                else:
                    top[1] = int(top[1] or 0) + 1
                    yield where, line
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append([where, -1 if isinstance(event, yaml.MappingStartEvent) else 0, None])
                if len(stack) > _MAX_DEPTH:
                    return
    except yaml.YAMLError:
        return
