"""Tools of named queries: built from a query's header, completed once the statement and the database are known to fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.connectors.sql.reading.queries import NamedQuery
from toolgen.connectors.sql.reading.tools import ROWS, with_cursor
from toolgen.model.database import DialectName
from toolgen.model.names import join
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, SqlBinding, Tool

__all__ = ["ResultColumn", "finished", "named_tool"]


class ResultColumn(Struct, frozen=True, kw_only=True):
    """A column of a query's result; `type` is the engine's name for it, or ""."""

    name: str
    type: str


def named_tool(source: str, dialect: DialectName, query: NamedQuery) -> Tool:
    """Return the tool of a query. Its binding has the parameters in declared order, until `finished` sets the statement's order."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {parameter.name: parameter.schema for parameter in query.parameters},
        "additionalProperties": False,
    }
    if required := [parameter.name for parameter in query.parameters if parameter.required]:
        schema["required"] = required
    return Tool(
        name=join(source, query.name),
        title=query.title,
        description=query.description,
        input_schema=schema,
        output_schema=ROWS,
        effect=Effect.READ,
        idempotent=True,
        source=source,
        origin=f"{query.file}#{query.name}",
        binding=SqlBinding(
            dialect=dialect,
            operation="named",
            statement=query.sql,
            parameters=tuple(parameter.name for parameter in query.parameters),
        ),
    )


def finished(tool: Tool, parameters: tuple[str, ...], columns: Sequence[ResultColumn], *, pages: bool) -> Tool:
    """Return the tool with its parameters in the statement's order, the columns of its result, and a cursor if it has pages."""
    assert isinstance(tool.binding, SqlBinding)  # noqa: S101 - a named query's tool
    return msgspec.structs.replace(
        tool,
        binding=msgspec.structs.replace(tool.binding, parameters=parameters),
        input_schema=with_cursor(tool.input_schema) if pages else tool.input_schema,
        output_schema=_rows(columns),
    )


def _rows(columns: Sequence[ResultColumn]) -> Schema:
    """Return the schema of the rows. Cells are described but not typed: a mask of the policy is text, and so is a number too large for
    JSON.
    """
    cells = [{"title": column.name, **({"description": column.type} if column.type else {})} for column in columns]
    count = len(columns)
    properties = ROWS["properties"]
    rows = {
        "type": "array",
        "items": {"type": "array", "prefixItems": cells, "minItems": count, "maxItems": count},
    }
    named = {**properties["columns"], "minItems": count, "maxItems": count}
    return {**ROWS, "properties": {**properties, "columns": named, "rows": rows}}
