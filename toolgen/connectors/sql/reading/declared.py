"""Named queries from the statements of a tool resource, checked against guard and database like those of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolgen.connectors.declared.read import problem_of
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.reading.tools import ROWS
from toolgen.connectors.tool_resource import Export, ExportFault, read_resource
from toolgen.model.database import DialectName
from toolgen.model.manifest import Problem
from toolgen.model.names import join
from toolgen.model.tool import Effect, SqlBinding, Tool

__all__ = ["declared_queries"]

_SCALARS = frozenset({"string", "integer", "number", "boolean"})


def declared_queries(
    config: SourceConfig, dialect: DialectName
) -> tuple[tuple[Tool, ...], tuple[Problem, ...], dict[str, str]]:
    """Return a tool for each statement, the faults of the others, and `file:line` by origin. Raises `DescriptionError` for an invalid
    resource.
    """
    resource = read_resource(Path(config.resource), config.name)
    tools: list[Tool] = []
    places: dict[str, str] = {}
    problems = [problem_of(config.name, fault) for fault in resource.faults]
    for export in resource.exports:
        if fault := next(_faults(export), ""):
            problems.append(problem_of(config.name, ExportFault(where=export.where, message=f"{export.name}: {fault}")))
            continue
        tool = _tool(config, export, dialect)
        tools.append(tool)
        places[tool.origin] = export.where
    return tuple(tools), tuple(problems), places


def _faults(export: Export) -> Iterator[str]:
    if export.effect not in {"", "read"}:
        yield "effect: a statement only reads; what changes a table goes through `writes: true` of a sql source"
    for name, schema in (export.parameters or {}).get("properties", {}).items():
        kind = schema.get("type") if isinstance(schema, dict) else None
        inner = schema.get("items", {}).get("type") if kind == "array" else kind
        if inner not in _SCALARS:
            yield f"{name[:40]} takes a type: string, integer, number, boolean, or an array of one of these"


def _tool(config: SourceConfig, export: Export, dialect: DialectName) -> Tool:
    parameters = dict(export.parameters or {})
    properties: dict[str, Any] = parameters.get("properties", {})
    return Tool(
        name=join(config.name, export.name),
        title=export.title,
        description=export.description,
        input_schema={**parameters, "properties": properties, "additionalProperties": False},
        output_schema=ROWS,
        effect=Effect.READ,
        idempotent=True,
        source=config.name,
        origin=f"{Path(config.resource).name}#{export.name}",
        binding=SqlBinding(
            dialect=dialect, operation="named", statement=export.statement.strip(), parameters=tuple(properties)
        ),
    )
