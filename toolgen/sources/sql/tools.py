"""The tools of a database: four that every one has, one for changes, and one for each named query."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec

from toolgen.model.names import join
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, SqlBinding, Tool

__all__ = ["OPERATIONS", "ROWS", "make_tools", "with_cursor"]

OPERATIONS: Final = frozenset({"query", "explain", "list_tables", "search_schema", "describe_table", "change"})
MIN_SEARCHED: Final = 20
"""Tables of a database that is worth searching; fewer are read in a list."""
"""The tools' names behind the source's, which no named query may take."""

_ENGINES: Final = MappingProxyType({"sqlite": "SQLite", "postgres": "PostgreSQL", "mysql": "MySQL", "duckdb": "DuckDB"})

_CELL: Final[Schema] = {"type": ["string", "number", "boolean", "null"]}
_LIST: Final[Schema] = {"anyOf": [_CELL, {"type": "array", "items": _CELL, "maxItems": 1_000}]}
ROWS: Final[Schema] = {
    "type": "object",
    "properties": {
        "columns": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
                "required": ["name", "type"],
            },
        },
        "rows": {"type": "array", "items": {"type": "array"}},
        "row_count": {"type": "integer", "minimum": 0},
    },
    "required": ["columns", "rows", "row_count"],
}
_CHANGED: Final[Schema] = {
    "type": "object",
    "properties": {"row_count": {"type": "integer", "minimum": 0}},
    "required": ["row_count"],
}
_TABLES: Final[Schema] = {
    "type": "object",
    "properties": {
        "dialect": {"type": "string"},
        "tables": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"enum": ["table", "view"]},
                    "columns": {"type": "integer"},
                    "comment": {"type": "string"},
                },
                "required": ["name", "kind", "columns"],
            },
        },
    },
    "required": ["dialect", "tables"],
}
_TABLE: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["table", "view"]},
        "dialect": {"type": "string"},
        "columns": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "type": {"type": "string"},
                    "nullable": {"type": "boolean"},
                    "comment": {"type": "string"},
                    "values": {"type": "array", "items": {"type": "string"}},
                    "default": {"type": "string"},
                    "samples": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["name", "type", "nullable"],
            },
        },
        "primary_key": {"type": "array", "items": {"type": "string"}},
        "references": {"type": "object", "additionalProperties": {"type": "string"}},
        "referenced_by": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        "unique": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        "indexes": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        "checks": {"type": "array", "items": {"type": "string"}},
        "row_estimate": {"type": "integer"},
        "comment": {"type": "string"},
    },
    "required": ["name", "kind", "columns"],
}


_SEARCH: Final[Schema] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1_000,
            "description": "What the tables hold, in a few words, such as 'customer orders'.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 50,
            "default": 10,
            "description": "How many tables to show.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
_FOUND: Final[Schema] = {
    "type": "object",
    "properties": {
        "tables": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"enum": ["table", "view"]},
                    "columns": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "type": {"type": "string"},
                                "comment": {"type": "string"},
                            },
                            "required": ["name", "type"],
                        },
                    },
                    "column_count": {"type": "integer"},
                    "comment": {"type": "string"},
                },
                "required": ["name", "kind", "columns", "column_count"],
            },
        },
        "matching": {"type": "integer"},
        "searched": {"type": "integer"},
    },
    "required": ["tables", "matching", "searched"],
}


def make_tools(source: str, dialect: str, *, writes: bool, tables: int = 0) -> Iterator[Tool]:
    """`{source}__query`, `__explain`, `__list_tables` and `__describe_table`, `__change` for a source that is written to, and
    `__search_schema` where there are many tables."""
    engine = _ENGINES[dialect]
    searched = tables >= MIN_SEARCHED
    finds = join(source, "search_schema" if searched else "list_tables")
    look = f"Find tables with {finds} and their columns with {join(source, 'describe_table')}."
    slot = "$1, $2 … for values and pass them" if dialect == "postgres" else "? for a value and pass it"
    rules = (
        f"One SELECT (WITH, joins, set operations and window functions included) in {engine}'s dialect. Only tables, columns and "
        "functions that are open to you may be named, and rows are limited: with ORDER BY, next_cursor leads to the next ones. "
        f"Write {slot} in parameters."
    )
    tool = partial(_tool, source, dialect)
    yield tool(
        "query",
        f"Query {source}",
        f"Runs a SELECT on the {engine} database {source}. {rules} {look}",
        with_cursor(_statement(dialect, "One SELECT statement.")),
        ROWS,
    )
    yield tool(
        "explain",
        f"Explain a query on {source}",
        f"Shows how the {engine} database {source} would run a query, without running it. Views, and tables of which you see a"
        f" part of the rows or values, have no plan to show. {rules} {look}",
        _statement(dialect, "One SELECT statement."),
        ROWS,
    )
    yield tool(
        "list_tables",
        f"List the tables of {source}",
        f"Lists the tables and views of the {engine} database {source} that are open to you."
        f" {join(source, 'describe_table')} gives the columns of one.",
        {"type": "object", "properties": {}, "additionalProperties": False},
        _TABLES,
    )
    if searched:
        yield tool(
            "search_schema",
            f"Search the schema of {source}",
            f"Finds tables, views and columns of the {engine} database {source} by words of their names, comments and values, among those"
            f" that are open to you. Use it before {join(source, 'list_tables')}, which gives them all;"
            f" {join(source, 'describe_table')} gives the whole of one.",
            _SEARCH,
            _FOUND,
        )
    described: Schema = {
        "type": "object",
        "properties": {
            "table": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "description": f"A name out of {join(source, 'list_tables')}.",
            }
        },
        "required": ["table"],
        "additionalProperties": False,
    }
    yield tool(
        "describe_table",
        f"Describe a table of {source}",
        f"Gives the columns, types, keys, references, indexes and constraints of a table or view of the {engine} database {source}"
        " that is open to you.",
        described,
        _TABLE,
    )
    if writes:
        yield msgspec.structs.replace(
            tool(
                "change",
                f"Change rows of {source}",
                f"Changes rows of one table of the {engine} database {source}, after a person has agreed. One INSERT with its columns and"
                " VALUES, or one UPDATE or DELETE with a WHERE; no join, subquery or RETURNING. Only tables and columns that are open to"
                f" changes may be named, and a change of too many rows is taken back. Write {slot} in parameters. {look}",
                _statement(dialect, "One INSERT, UPDATE or DELETE statement."),
                _CHANGED,
            ),
            effect=Effect.DESTRUCTIVE,
            idempotent=False,
        )


def with_cursor(schema: Schema) -> Schema:
    """The same arguments with a cursor, for a tool that gives its rows page by page."""
    cursor = {
        "type": "string",
        "maxLength": 64,
        "description": "next_cursor of the same statement's last answer, for its next rows.",
    }
    return {**schema, "properties": {**schema["properties"], "cursor": cursor}}


def _statement(dialect: str, described: str) -> Schema:
    """PostgreSQL numbers its placeholders and takes lists: `id = ANY($1)`."""
    numbered = dialect == "postgres"
    return {
        "type": "object",
        "properties": {
            "sql": {"type": "string", "minLength": 1, "maxLength": 20_000, "description": described},
            "parameters": {
                "type": "array",
                "items": _LIST if numbered else _CELL,
                "maxItems": 200,
                "default": [],
                "description": "The values of $1, $2 …, in order; a list for = ANY($1)."
                if numbered
                else "A value for each ? in the statement, in order.",
            },
        },
        "required": ["sql"],
        "additionalProperties": False,
    }


def _tool(
    source: str, dialect: str, operation: str, title: str, description: str, takes: Schema, gives: Schema
) -> Tool:
    return Tool(
        name=join(source, operation),
        title=title,
        description=description,
        input_schema=takes,
        output_schema=gives,
        effect=Effect.READ,
        idempotent=True,
        source=source,
        origin=f"{dialect}#{operation}",
        binding=SqlBinding(dialect=dialect, operation=operation),
    )
