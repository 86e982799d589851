"""Lint rules with their hits, and views of tools and sources that they check: of a build, and of the description as it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from toolgen.connectors.original import Original, WrittenOperation
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import DescriptionError
from toolgen.model.manifest import SourceInfo
from toolgen.model.schema import Schema
from toolgen.model.tool import Tool

__all__ = [
    "Argument",
    "CatalogView",
    "Level",
    "LintRule",
    "LintTool",
    "RuleHit",
    "SourceView",
    "readable",
    "tool_view",
]

T = TypeVar("T")


class Level(StrEnum):
    """Severity of a finding: an error misleads or endangers an agent, a warning costs it calls, an info would help it."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """Rank of the severity, 0 for the highest."""
        return list(Level).index(self)


class RuleHit(Struct, frozen=True, kw_only=True):
    """Hit of a rule. `about` distinguishes hits of one rule at one origin, and stays the same when the wording changes."""

    message: str
    origin: str = ""  # if the view's own origin is not precise enough
    about: str = ""


class LintRule(Struct, Generic[T], frozen=True, kw_only=True):
    """Lint rule: a name, its level, the advice, and the pure function that finds hits."""

    id: str
    level: Level
    advice: str
    check: Callable[[T], Iterable[RuleHit]]


class Argument(Struct, frozen=True, kw_only=True):
    """Argument of a tool, with its reference resolved. `place` is path, query, header, cookie, querystring, body or ""."""

    name: str
    place: str
    required: bool
    schema: Mapping[str, Any]
    origin: str


class LintTool(Struct, frozen=True, kw_only=True):
    """Tool as the rules see it. `written` is None if only the tool is known."""

    tool: Tool
    info: SourceInfo
    arguments: Sequence[Argument]
    written: WrittenOperation | None

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """Return a part of an input schema with its reference into `$defs` followed."""
        return resolved(self.tool.input_schema, schema)


class SourceView(Struct, frozen=True, kw_only=True):
    """Source with all of its tools and the texts that its author wrote about each."""

    name: str
    info: SourceInfo
    tools: Sequence[LintTool]


class CatalogView(Struct, frozen=True, kw_only=True):
    """Tools that one agent would be given."""

    tools: Sequence[Tool]
    tokens: int  # approximate


def resolved(root: Schema, schema: Any) -> Mapping[str, Any]:
    """Return a schema with its `$ref` into the root's `$defs` followed; an invalid schema becomes an empty one."""
    definitions = root.get("$defs")
    for _ in range(20):
        ref = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(ref, str) or not isinstance(definitions, Mapping):
            break
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = definitions.get(ref.removeprefix("#/$defs/"))
        schema = {**target, **beside} if isinstance(target, Mapping) else beside
    return schema if isinstance(schema, Mapping) else {}


def tool_view(tool: Tool, info: SourceInfo, written: WrittenOperation | None) -> LintTool:
    """Return the view of a tool, with its arguments listed."""
    schema = tool.input_schema
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    places: dict[str, tuple[str, str]] = {}
    if (http := tool.http) is not None:
        places = {one.argument: (one.in_, one.name) for one in http.parameters}
    arguments = []
    for name, inner in properties.items():
        place, wire = places.get(name, ("" if http is None else "body", name))
        origin = written.origins.get((place, wire), "") if written is not None else ""
        arguments.append(
            Argument(name=name, place=place, required=name in required, schema=resolved(schema, inner), origin=origin)
        )
    return LintTool(tool=tool, info=info, arguments=tuple(arguments), written=written)


def readable(config: SourceConfig, info: SourceInfo) -> Original | None:
    """Return the original, or None if it cannot be read again (a live endpoint, a missing file)."""
    try:
        return CONNECTORS[config.kind].original(config, info)
    except DescriptionError:
        return None
