"""Descriptions in, a manifest out: reads every source and puts together what became of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from toolgen.model.manifest import Manifest, Problem, assemble
from toolgen.model.tool import Tool
from toolgen.settings import SourceSettings, from_mapping, from_specs
from toolgen.sources.base import Reading, SourceConfig
from toolgen.sources.graphql import read_graphql
from toolgen.sources.openapi import read_openapi
from toolgen.sources.sql import read_sql

__all__ = ["Built", "build", "build_sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A manifest, and how many operations each source offered: tools plus skips."""

    manifest: Manifest
    operations: Mapping[str, int]


def build(sources: str | Path | Sequence[str | Path] | Mapping[str, Any], *, root: str | Path = ".") -> Manifest:
    """Builds a manifest from a path, several, or a mapping shaped like toolgen.yaml's `sources:`.

    Relative paths start at `root`. Nothing is written. Raises `DescriptionError` for a description that cannot be read at all and
    `ConfigError` for a source that is none; whatever is wrong with single operations is in the manifest's problems.
    """
    base = Path(root).resolve()
    if isinstance(sources, Mapping):
        return build_sources(from_mapping(sources, base)).manifest
    specs = (sources,) if isinstance(sources, (str, Path)) else tuple(sources)
    return build_sources(from_specs(tuple(str(spec) for spec in specs), base)).manifest


def build_sources(sources: Mapping[str, SourceSettings]) -> Built:
    """Builds the sources of a project."""
    readings = {name: _read(source.config) for name, source in sources.items()}
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    for name, reading in readings.items():
        problems += reading.problems
        for tool in reading.tools:
            if tool.name in tools:
                problems.append(
                    Problem(
                        level="error",
                        source=name,
                        origin=tool.origin,
                        code="duplicate_name",
                        message=f"its tool would be called {tool.name}, as one of {tools[tool.name].source} already is; "
                        "rename one of the two sources",
                    )
                )
            else:
                tools[tool.name] = tool
    manifest = assemble({name: reading.info for name, reading in readings.items()}, tools.values(), problems)
    return Built(manifest=manifest, operations={name: reading.operations for name, reading in readings.items()})


def _read(config: SourceConfig) -> Reading:
    match config.kind:
        case "openapi":
            return read_openapi(config)
        case "graphql":
            return read_graphql(config)
        case "sql":
            return read_sql(config)
        case _:
            assert_never(config.kind)
