"""What every source returns, and the options every source is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.tool import Tool

__all__ = ["Reading", "SourceConfig", "SourceKind"]

SourceKind: TypeAlias = Literal["openapi", "graphql", "sql"]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One entry of `sources:` in toolgen.yaml, as far as a build needs it; credentials are not among it.

    `location` is a path (already resolved against the project's folder) or a URL. `include` and `exclude` filter by `tags`,
    `operations` (globs), `methods` and `effects`.
    """

    name: str
    kind: SourceKind
    location: str
    server: str = ""  # openapi: overrides the document's servers
    endpoint: str = ""  # graphql
    include: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    exclude: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What became of one description. `operations` counts everything it offered: tools plus skips, each skip with its Problem."""

    info: SourceInfo
    tools: tuple[Tool, ...]
    problems: tuple[Problem, ...]
    operations: int
