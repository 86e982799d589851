"""Overrides of single tools in toolgen.yaml: name, title, description, effect, and whether the tool is hidden."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.source import SourceReading
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.model.manifest import Problem
from toolgen.model.names import TOOL_NAME, join
from toolgen.model.tool import Effect, Tool

__all__ = ["ToolOverride", "override"]


class ToolOverride(Struct, frozen=True, kw_only=True):
    """Entry of `tools:`. `key` is a tool's generated name, its origin, or the description's own name for it (operationId, field).

    `None` leaves a value as it is. `where` is the entry's file and line, for messages.
    """

    key: str
    where: str
    name: str | None = None
    title: str | None = None
    description: str | None = None
    effect: Effect | None = None
    hidden: bool = False


def override(overrides: tuple[ToolOverride, ...], readings: Mapping[str, SourceReading]) -> Mapping[str, SourceReading]:
    """The readings with every override applied.

    An effect may be raised or lowered: toolgen.yaml is its owner's word. A hidden tool becomes an info Problem, so that no operation is
    lost silently. Raises `ConfigError` for a key that is no tool's, one that is several tools', two for one tool, and a name that is none
    or another tool's.
    """
    if not overrides:
        return readings
    found = _assigned(overrides, readings)
    renamed = _renamed(found, readings)
    return MappingProxyType({name: _reading(name, reading, found, renamed) for name, reading in readings.items()})


def _assigned(overrides: tuple[ToolOverride, ...], readings: Mapping[str, SourceReading]) -> dict[str, ToolOverride]:
    """By the generated name of the tool that each is about."""
    known: dict[str, set[str]] = {}
    for reading in readings.values():
        for tool in reading.tools:
            for key in (tool.name, tool.origin, reading.identifiers.get(tool.origin, tool.name)):
                known.setdefault(key, set()).add(tool.name)
    names = {tool.name for reading in readings.values() for tool in reading.tools}
    found: dict[str, ToolOverride] = {}
    for one in overrides:
        # A tool's own name is what is meant, also where another's operationId reads the same.
        meant = {one.key} if one.key in names else known.get(one.key, set())
        if not meant:
            raise _unknown(one, known, readings)
        if len(meant) > 1:
            raise ConfigError(
                f"tools: '{one.key[:80]}' is the word of {len(meant)} tools: {', '.join(sorted(meant)[:5])}",
                where=one.where,
                suggestion="use the tool's name",
            )
        (name,) = meant
        if name in found:
            raise ConfigError(f"tools: {name} has another entry already, at {found[name].where}", where=one.where)
        found[name] = one
    return found


def _unknown(one: ToolOverride, known: Mapping[str, set[str]], readings: Mapping[str, SourceReading]) -> ConfigError:
    for reading in readings.values():
        for problem in reading.problems:
            if problem.level == "error" and f"{problem.origin}/".startswith(f"{one.key}/"):
                return ConfigError(f"tools: the operation has no tool: {problem.message}", where=one.where)
    message = f"tools: there is no tool or operation '{one.key[:80]}'{nearest(one.key, known)}"
    return ConfigError(message, where=one.where)


def _renamed(found: Mapping[str, ToolOverride], readings: Mapping[str, SourceReading]) -> dict[str, str]:
    """New name by generated name. The source's prefix is added where it was left out: it is what policies and credentials go by."""
    new: dict[str, str] = {}
    for source, reading in readings.items():
        prefix = join(source, "")
        for tool in reading.tools:
            one = found.get(tool.name)
            if one is None or one.name is None:
                continue
            name = one.name if one.name.startswith(prefix) else join(source, one.name)
            if name == prefix or not TOOL_NAME.match(name):
                raise ConfigError(
                    f"tools: '{name[:80]}' is not a tool name",
                    where=one.where,
                    suggestion="use letters, digits, _ and -, at most 48 characters with the source's prefix",
                )
            new[tool.name] = name
    holders: dict[str, str] = {}
    for reading in readings.values():
        for tool in reading.tools:
            name = new.get(tool.name, tool.name)
            other = holders.setdefault(name, tool.name)
            if other != tool.name and (tool.name in new or other in new):
                culprit = found[tool.name] if tool.name in new else found[other]
                raise ConfigError(
                    f"tools: {name} would be the name of two tools, {other} and {tool.name}", where=culprit.where
                )
    return new


def _reading(
    source: str, reading: SourceReading, found: Mapping[str, ToolOverride], renamed: Mapping[str, str]
) -> SourceReading:
    tools: list[Tool] = []
    hidden: list[Problem] = []
    # Only a database's tools are described by us, and speak of each other.
    ours = reading.info.kind == "sql"
    moved = {tool.name: renamed[tool.name] for tool in reading.tools if ours and tool.name in renamed}
    for tool in reading.tools:
        one = found.get(tool.name)
        if one is not None and one.hidden:
            message = f"{tool.name} is hidden by `tools:` in toolgen.yaml"
            hidden.append(Problem(level="info", source=source, origin=tool.origin, code="hidden", message=message))
            continue
        tools.append(_changed(_mentioning(tool, moved), one, renamed.get(tool.name, tool.name)))
    return replace(reading, tools=tuple(tools), problems=(*reading.problems, *hidden))


def _changed(tool: Tool, one: ToolOverride | None, name: str) -> Tool:
    if one is None:
        return tool
    return msgspec.structs.replace(
        tool,
        name=name,
        title=one.title or tool.title,
        description=one.description or tool.description,
        effect=one.effect or tool.effect,
    )


def _mentioning(tool: Tool, moved: Mapping[str, str]) -> Tool:
    """The tool with its siblings called by their new names: a database's tools send the model from one to the other."""
    if not moved:
        return tool
    old = re.compile(r"\b(?:" + "|".join(re.escape(name) for name in sorted(moved, reverse=True)) + r")\b")

    def told(text: str) -> str:
        return old.sub(lambda match: moved[match[0]], text)

    def walk(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {
                key: told(item) if key == "description" and isinstance(item, str) else walk(item)
                for key, item in value.items()
            }
        return [walk(item) for item in value] if isinstance(value, (list, tuple)) else value

    return msgspec.structs.replace(tool, description=told(tool.description), input_schema=walk(tool.input_schema))
