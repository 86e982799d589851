"""Selectors of tools in policies: globs of names, and tags, operationIds, paths and methods of the description.

Selectors are resolved to tools when the policy is loaded, so a call only needs a lookup in a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import Manifest
from toolgen.model.names import ADDED, join
from toolgen.model.tool import Tool
from toolgen.policy.document.schema import SelectorShape
from toolgen.policy.rules import matching

__all__ = ["ToolSelection", "come_later", "matched", "selected"]

_Path = tuple[str | int, ...]


class ToolSelection(Struct, frozen=True, kw_only=True):
    """Tools that all selectors of a part of a policy match.

    `patterns` are its globs of names if it has no other selectors, and () otherwise. `later`: it can only match tools that a program adds
    while the gateway runs.
    """

    tools: tuple[Tool, ...]
    patterns: tuple[str, ...]
    later: bool = False

    @property
    def names(self) -> frozenset[str] | None:
        """Return the tools by name, None if the globs determine them."""
        return None if self.patterns else frozenset(tool.name for tool in self.tools)


def selected(given: SelectorShape, manifest: Manifest, document: YamlDocument, path: _Path) -> ToolSelection | None:
    """Return the tools that all selectors match, None without selectors.

    Raises `PolicyError` for a value that no tool has, and for selectors that have no tool in common.
    """
    names = None if isinstance(given.tools, msgspec.UnsetType) else given.tools
    others = {name: values for name in _READERS if not isinstance(values := getattr(given, name), msgspec.UnsetType)}
    if names is not None and not others:
        tools = matched(names, manifest, document, (*path, "tools"))
        return (
            ToolSelection(tools=tuple(tools), patterns=tuple(names), later=come_later(names, manifest))
            if names
            else None
        )
    if not others:
        return None
    found = {
        tool.name: tool
        for tool in (manifest.tools.values() if names is None else matched(names, manifest, document, (*path, "tools")))
    }
    for name, values in others.items():
        having = _having(name, values, manifest, document, (*path, name))
        found = {one: tool for one, tool in found.items() if one in having}
    if not found:
        listed = ", ".join((*(("tools",) if names is not None else ()), *others))
        raise PolicyError(f"no tool matches all selectors ({listed})", where=document.where(*path))
    return ToolSelection(tools=tuple(found.values()), patterns=())


def matched(patterns: Sequence[str], manifest: Manifest, document: YamlDocument, path: _Path) -> list[Tool]:
    """Return the tools that globs match; a glob that matches nothing is an error, because it is probably a mistake. One about tools
    that a program adds (`added__*`) may match later."""
    tools: dict[str, Tool] = {}
    for index, pattern in enumerate(patterns):
        found = matching(pattern, manifest.tools)
        if not found and not come_later((pattern,), manifest):
            raise PolicyError(
                f"'{pattern}' matches no tool{nearest(pattern, manifest.tools)}", where=document.where(*path, index)
            )
        tools |= {name: manifest.tools[name] for name in found}
    return [*tools.values()]


def come_later(patterns: Iterable[str], manifest: Manifest) -> bool:
    """Return True if all of these can only match tools that a program adds while the gateway runs."""
    info = manifest.sources.get(ADDED)
    return (info is None or not info.settings) and all(pattern.startswith(join(ADDED, "")) for pattern in patterns)


def _having(
    selector: str, values: Sequence[str], manifest: Manifest, document: YamlDocument, path: _Path
) -> frozenset[str]:
    """Return the names of the tools that one selector matches."""
    known: dict[str, list[str]] = {}
    for tool in manifest.tools.values():
        for word in _READERS[selector](tool):
            known.setdefault(word, []).append(tool.name)
    found: set[str] = set()
    for index, value in enumerate(values):
        wanted = value.upper() if selector == "methods" else value
        words = [wanted] if wanted in known else [] if selector == "methods" else matching(wanted, known)
        if not words:
            raise PolicyError(
                f"no tool has the {_CALLED[selector]} '{bounded(value, 100)}'{nearest(wanted, known)}",
                where=document.where(*path, index),
            )
        found.update(name for word in words for name in known[word])
    return frozenset(found)


def _tags(tool: Tool) -> Iterator[str]:
    yield from tool.tags


def _operation(tool: Tool) -> Iterator[str]:
    if tool.operation:
        yield tool.operation


def _path(tool: Tool) -> Iterator[str]:
    if (http := tool.http) is not None:
        yield http.path


def _method(tool: Tool) -> Iterator[str]:
    if (http := tool.http) is not None:
        yield http.method.upper()


_READERS: Mapping[str, Callable[[Tool], Iterator[str]]] = {
    "tags": _tags,
    "operations": _operation,
    "paths": _path,
    "methods": _method,
}
_CALLED = {"tags": "tag", "operations": "operation", "paths": "path", "methods": "method"}
