"""Named queries checked by the guard's grammar and by the database's engine before they become tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import jsonschema_rs
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.identifiers import full_name
from toolgen.connectors.sql.guard.query_shape import shape_of
from toolgen.connectors.sql.reading.query_tools import ResultColumn, finished
from toolgen.connectors.sql.reading.read import EngineCheck, prepare, read_sql
from toolgen.core.spelling import nearest
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.manifest import Problem
from toolgen.model.schema import Json, Schema
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.tool import SqlBinding, Tool
from toolgen.model.verdict import Deny

__all__ = ["is_named", "read_database", "refusal_text", "sample_values"]

_SAMPLES: Final[Mapping[str, Json]] = {"integer": 1, "number": 1.5, "boolean": True, "string": "a"}


class _Checked(Struct, frozen=True, kw_only=True):
    """Query that the guard would permit if every table were open; only the engine's check remains."""

    tool: Tool
    parameters: tuple[str, ...]
    columns: tuple[str, ...]
    statement: Statement


def read_database(config: SourceConfig, password: str = "") -> SourceReading:
    """Read a database like `read_sql`, but leave out named queries that cannot work and report them as problems.

    Raises the same errors.
    """
    reading = read_sql(config, password)
    database = reading.info.database
    assert database is not None  # noqa: S101 - read_sql always finds one
    kept: list[Tool] = []
    faults: dict[str, str] = {}
    checked: list[_Checked] = []
    for tool in reading.tools:
        if not is_named(tool):
            kept.append(tool)
        elif isinstance(outcome := _check(tool, database), str):
            faults[tool.origin] = outcome
        else:
            checked.append(outcome)
    answers = prepare(config.location, password, [item.statement for item in checked])
    for item, answer in zip(checked, answers, strict=True):
        if fault := _disagreement(item, answer):
            faults[item.tool.origin] = fault
            continue
        types = answer.types or _declared(item, database)
        columns = [ResultColumn(name=name, type=kind) for name, kind in zip(item.columns, types, strict=True)]
        kept.append(finished(item.tool, item.parameters, columns, pages=bool(item.statement.page)))
    problems = (
        Problem(
            level="error",
            source=config.name,
            origin=reading.places[origin],
            code="bad_query",
            message=f"{origin.rpartition('#')[2]}: {fault}; the query has no tool",
        )
        for origin, fault in faults.items()
    )
    return replace(reading, tools=tuple(kept), problems=(*reading.problems, *problems))


def sample_values(tool: Tool) -> list[Json]:
    """Return a value of the right type for each placeholder of a named query, in order: for checks that run nothing."""
    assert isinstance(tool.binding, SqlBinding)  # noqa: S101 - a named query's tool
    properties = tool.input_schema["properties"]
    return [_sample(properties[name]) for name in tool.binding.parameters]


def is_named(tool: Tool) -> bool:
    """Return True for the tool of a named query."""
    return isinstance(tool.binding, SqlBinding) and tool.binding.operation == "named"


def _check(tool: Tool, database: Database) -> _Checked | str:
    """Check a named query against a policy that allows everything. Return the checked query, or the fault."""
    assert isinstance(tool.binding, SqlBinding)  # noqa: S101 - a named query's tool
    if fault := _bad_default(tool.input_schema):
        return fault
    shape = shape_of(tool.binding.statement, database.dialect)
    if isinstance(shape, Deny):
        return refusal_text(shape)
    declared = tool.binding.parameters
    for name in shape.parameters:
        if name not in declared:
            return f":{name} is not declared{nearest(name, declared)}; add -- parameter: {name} and its type"
    for name in declared:
        if name not in shape.parameters:
            return (
                f"the parameter {name} is declared but does not occur in the statement{nearest(name, shape.parameters)}"
            )
    in_order = finished(tool, shape.parameters, (), pages=False)
    verdict = guard(
        tool.binding.statement,
        sample_values(in_order),
        database=database,
        scope=SqlScope(tables={full_name(table): TableScope() for table in database.tables}),
        attributes={},
    )
    if isinstance(verdict, Deny):
        return refusal_text(verdict)
    return _Checked(tool=tool, parameters=shape.parameters, columns=shape.columns, statement=verdict)


def refusal_text(verdict: Deny) -> str:
    """Return the reason of a refusal with its suggestion."""
    return f"{verdict.reason}; {verdict.suggestion}" if verdict.suggestion else verdict.reason


def _bad_default(schema: Schema) -> str:
    """Return the fault of a default that its own parameter would refuse."""
    for name, parameter in schema["properties"].items():
        if "default" not in parameter:
            continue
        validator = jsonschema_rs.Draft202012Validator(dict(parameter), validate_formats=True)
        for fault in validator.iter_errors(parameter["default"]):
            return f"the default of {name} is not valid for the parameter: {fault.message}"
    return ""


def _sample(schema: Schema) -> Json:
    if schema.get("default") is not None:
        default: Json = schema["default"]
        return default
    if "enum" in schema:
        choice: Json = schema["enum"][0]
        return choice
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if kind == "array":
        return [_sample(schema["items"])]
    if "pattern" in schema:
        return "2026-01-31" if schema.get("format") == "date" else "2026-01-31T09:30:00Z"
    if kind in {"integer", "number"}:
        bound: Json = schema.get("minimum", schema.get("maximum", _SAMPLES[kind]))
        return bound
    return _SAMPLES[kind]


def _disagreement(item: _Checked, answer: EngineCheck) -> str:
    if answer.fault:
        return answer.fault
    if answer.types and len(answer.types) != len(item.columns):
        return f"the engine returns {len(answer.types)} columns and the statement names {len(item.columns)}"
    return ""


def _declared(item: _Checked, database: Database) -> tuple[str, ...]:
    """Return the declared types of columns whose name occurs only once among the columns that are read."""
    types: dict[str, set[str]] = {}
    for table in database.tables:
        for column in table.columns:
            if f"{full_name(table)}.{column.name}" in item.statement.columns:
                types.setdefault(column.name.casefold(), set()).add(column.type)
    found = (types.get(name.casefold(), set()) for name in item.columns)
    return tuple(next(iter(kinds)).lower() if len(kinds) == 1 else "" for kinds in found)
