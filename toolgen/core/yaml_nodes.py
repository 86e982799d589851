"""YAML nodes of toolgen's files as plain data, with the line of each part."""

from __future__ import annotations

from typing import Any

import yaml

from toolgen.core.errors import ToolgenError

__all__ = ["read_nodes"]

_YAML = "tag:yaml.org,2002:"
# tags of JSON's types
_TAGS = frozenset(f"{_YAML}{name}" for name in ("map", "seq", "str", "int", "float", "bool", "null"))
_Path = tuple[str | int, ...]
_MAX_DEPTH = 50


def read_nodes(text: str, name: str, error: type[ToolgenError]) -> tuple[Any, dict[_Path, int]]:
    """Return the data of a YAML text, and the line of each part that starts on another line than its parent. Raises `error`."""
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
    return data, lines


def _refuse_deep(text: str, name: str, error: type[ToolgenError]) -> None:
    """Refuse deep nesting before a node is composed, because composing recurses in C and could end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise error(f"is nested more than {_MAX_DEPTH} levels deep", where=f"{name}:{line}")


class _Loader(yaml.CSafeLoader):
    """PyYAML's safe loader without timestamps: a date is text, parsed where it is used."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class _NodeReader:
    """Converter of YAML nodes to plain data that records their lines."""

    def __init__(self, loader: _Loader, name: str, error: type[ToolgenError], lines: dict[_Path, int]) -> None:
        self._loader, self._name, self._error, self._lines = loader, name, error, lines
        self._seen: set[int] = set()

    def root(self, node: yaml.Node) -> object:
        """Return the value of a document's node."""
        line = self._lines[()] = node.start_mark.line + 1
        return self._value(node, (), line)

    def _value(self, node: yaml.Node, path: _Path, line: int) -> object:
        """Return the value of a node inside a part that starts on this line."""
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
                raise self._error(f"the key '{key}' occurs twice", where=self._at(key_node))
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
        """Return the line on which a part starts, and record it if it differs from its parent's line."""
        line: int = node.start_mark.line + 1
        if line != around:
            self._lines[path] = line
        return line

    def _at(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"
