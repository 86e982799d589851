"""What a rule is, what it finds, and what it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from toolgen.model.manifest import SourceInfo
from toolgen.model.schema import Schema
from toolgen.model.tool import Tool

__all__ = ["Argument", "CatalogView", "Hit", "Level", "Rule", "SourceView", "Text", "ToolView", "Written"]

T = TypeVar("T")
_NOWHERE: Mapping[tuple[str, str], str] = MappingProxyType({})


class Level(StrEnum):
    """How much a finding matters: an error misleads or endangers an agent, a warning costs it calls, an info would help it."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for what matters most."""
        return list(Level).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One thing a rule found. `about` tells hits of one rule at one origin apart, and stays the same when the wording changes."""

    message: str
    origin: str = ""  # where the view's own origin is not precise enough
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[T]):
    """One rule: a name, how much it matters, what to do about it, and the pure function that finds it."""

    id: str
    level: Level
    advice: str
    check: Callable[[T], Iterable[Hit]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the author of an OpenAPI operation wrote, before a build made up what was missing."""

    identifier: str
    text: str  # summary and description
    origins: Mapping[tuple[str, str], str] = field(default_factory=lambda: _NOWHERE)  # (place, name) -> pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a tool, its own reference followed. `place` is path, query, header, cookie, querystring, body or ""."""

    name: str
    place: str
    required: bool
    schema: Mapping[str, Any]
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolView:
    """One tool as the rules see it. `written` is None where nothing but the tool is known."""

    tool: Tool
    info: SourceInfo
    arguments: Sequence[Argument]
    written: Written | None

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """An input schema's part with its reference into `$defs` followed."""
        return resolved(self.tool.input_schema, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """One source, with all of its tools and what its author wrote about each."""

    name: str
    info: SourceInfo
    tools: Sequence[ToolView]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that may reach a model, and where it stands. `prose` tells descriptions from values such as defaults and examples."""

    origin: str
    value: str
    prose: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogView:
    """Everything one agent would be given."""

    tools: Sequence[Tool]
    tokens: int  # about


def resolved(root: Schema, schema: Any) -> Mapping[str, Any]:
    """A schema with its `$ref` into the root's `$defs` followed; a schema that is none is an empty one."""
    definitions = root.get("$defs")
    for _ in range(20):
        ref = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(ref, str) or not isinstance(definitions, Mapping):
            break
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = definitions.get(ref.removeprefix("#/$defs/"))
        schema = {**target, **beside} if isinstance(target, Mapping) else beside
    return schema if isinstance(schema, Mapping) else {}
