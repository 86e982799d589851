"""Reads a fixture, or SDL written in a test, into tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphql import GraphQLSchema, build_schema
from msgspec.structs import replace

from toolgen.connectors.graphql.read import read_graphql
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, GraphQLSchemaBinding, Tool

FIXTURES = Path(__file__).parents[2] / "fixtures" / "graphql"
SKIPS = frozenset({"leads_to_root", "unsupported_subscription"})
ENDPOINT = "https://api.example/graphql"


def read(location: Path | str, **options: Any) -> SourceReading:
    """The reading with the tools of operations alone, unless the schema is open to documents."""
    reading = read_whole(location, **options)
    others = tuple(tool for tool in reading.tools if not isinstance(tool.binding, GraphQLSchemaBinding))
    opened = any(isinstance(tool.binding, GraphQLDocumentBinding) for tool in others)
    if opened or len(others) == len(reading.tools):
        return reading
    return replace(reading, tools=others, operations=reading.operations - 1)


def read_whole(location: Path | str, **options: Any) -> SourceReading:
    return read_graphql(
        SourceConfig(**{"name": "s", "kind": "graphql", "location": str(location), "endpoint": ENDPOINT, **options})
    )


def read_sdl(directory: Path, sdl: str, **options: Any) -> SourceReading:
    path = directory / "schema.graphql"
    path.write_text(sdl, encoding="utf-8")
    return read(path, **options)


def tools_of(reading: SourceReading) -> dict[str, Tool]:
    return {tool.name: tool for tool in reading.tools}


def binding(tool: Tool) -> GraphQLBinding:
    assert isinstance(tool.binding, GraphQLBinding)
    return tool.binding


def edges() -> tuple[dict[str, Tool], GraphQLSchema]:
    path = FIXTURES / "edges.graphql"
    return tools_of(read(path)), build_schema(path.read_text(encoding="utf-8"))
