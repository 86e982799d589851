"""References by `$id` and `$anchor` as the pointers that they stand for (JSON Schema 2020-12, section 8.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any
from urllib.parse import unquote, urljoin

from toolgen.connectors.syntax import escape

__all__ = ["by_pointer", "may_name_parts"]

_MARKS = re.compile(rb"\$(?:id|anchor|dynamicAnchor)")  # one pass over a document, which may be megabytes
_ANCHORS = ("$anchor", "$dynamicAnchor")
_DATA = frozenset({"enum", "const", "default", "example", "examples"})
_NAMED = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "schemas", "parameters"}
)


def may_name_parts(data: bytes) -> bool:
    """Return True if the bytes of a document hold a name by which references could mean a part of it (`$id` or an anchor)."""
    return _MARKS.search(data) is not None


def by_pointer(document: Any) -> Any:
    """The document with every reference that an `$id` or an anchor in it can resolve written as a pointer from its root."""
    resources = _Resources(document)
    return resources.rewritten() if resources.found else document


class _Resources:
    """The schemas of one document that have an address of their own, by URL, and their anchors."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._pointers: dict[str, str] = {"": ""}
        self._anchors: dict[tuple[str, str], str] = {}
        self._done: dict[tuple[int, str, bool], Any] = {}
        seen: set[int] = set()
        todo: list[tuple[Any, str, str, bool]] = [(document, "", "", True)]
        while todo:
            node, pointer, base, is_schema = todo.pop()
            if not isinstance(node, (dict, list)) or id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, dict) and is_schema:
                base = self._enter(node, pointer, base)
            todo += [
                (item, f"{pointer}/{escape(str(key))}", base, inner is _Inside.SCHEMA)
                for key, item, inner in _inside(node, is_schema)
                if inner is not _Inside.DATA
            ]
        self.found = len(self._pointers) > 1 or bool(self._anchors)

    def _enter(self, node: dict[str, Any], pointer: str, base: str) -> str:
        own = _base(node, base)
        if own != base:
            self._pointers.setdefault(own, pointer)
        for keyword in _ANCHORS:
            if isinstance(name := node.get(keyword), str):
                self._anchors.setdefault((own, name), pointer)
        return own

    def rewritten(self) -> Any:
        """The document, with its references as pointers."""
        return self._rewritten(self._document, "", True)

    def _rewritten(self, node: Any, base: str, is_schema: bool) -> Any:
        if not isinstance(node, (dict, list)):
            return node
        known = self._done.get((id(node), base, is_schema))
        if known is not None:
            return known
        own = _base(node, base) if is_schema and isinstance(node, dict) else base
        built: Any = {} if isinstance(node, dict) else [None] * len(node)
        for key, item, inner in _inside(node, is_schema):
            if is_schema and key == "$ref" and isinstance(item, str):
                built[key] = self._pointer(item, own)
            elif inner is _Inside.DATA:
                built[key] = item
            else:
                built[key] = self._rewritten(item, own, inner is _Inside.SCHEMA)
        self._done[id(node), base, is_schema] = built
        return built

    def _pointer(self, ref: str, base: str) -> str:
        target, _, fragment = ref.partition("#")
        url = _joined(base, target) if target else base
        within = self._pointers.get(url)
        if within is None or (not within and fragment.startswith("/")):
            return ref
        if fragment and not fragment.startswith("/"):
            place = self._anchors.get((url, unquote(fragment)))
            return ref if place is None else f"#{place}"
        # Many write pointers from the document's root where an `$id` makes them start from the schema.
        return f"#{within}{fragment}" if target or self._leads(f"{within}{fragment}") else ref

    def _leads(self, pointer: str) -> bool:
        node = self._document
        for token in pointer.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(node):
                node = node[int(key[:9])]
            else:
                return False
        return True


class _Inside(Enum):
    SCHEMA = "its keys are keywords"
    NAMES = "its keys are names"
    DATA = "it is a value"


def _inside(node: Any, is_schema: bool) -> Iterator[tuple[Any, Any, _Inside]]:
    """Yield the members of a node: key or index, value, and the kind of the value."""
    if isinstance(node, list):
        yield from ((index, item, _Inside.SCHEMA) for index, item in enumerate(node))
        return
    for key, item in node.items():
        if is_schema and (key in _DATA or key.startswith("x-")):
            yield key, item, _Inside.DATA
        else:
            yield key, item, _Inside.NAMES if is_schema and key in _NAMED else _Inside.SCHEMA


def _base(node: dict[str, Any], base: str) -> str:
    own = node.get("$id")
    return _joined(base, own.partition("#")[0]) if isinstance(own, str) and own.partition("#")[0] else base


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return f"unreadable:{target}"
