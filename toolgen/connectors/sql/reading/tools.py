"""Tools of a database: four for every database, one for changes, and one for each named query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.model.database import DialectName
from toolgen.model.names import join
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, SqlBinding, Tool

__all__ = ["OPERATIONS", "ROWS", "make_tools", "with_cursor"]

OPERATIONS: Final = frozenset({"query", "explain", "list_tables", "search_schema", "describe_table", "change"})
"""Suffixes of the tools' names, which no named query may take."""
MIN_SEARCHED: Final = 20
"""Number of tables from which on a search is useful; fewer are read in a list."""


_CELL: Final[Schema] = {"type": ["string", "number", "boolean", "null"]}
_CELLS: Final[Schema] = {"anyOf": [_CELL, {"type": "array", "items": _CELL, "maxItems": 10_000}]}
_TEXT: Final[Schema] = {"type": "string"}
_INTEGER: Final[Schema] = {"type": "integer"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_KIND: Final[Schema] = {"enum": ["table", "view"]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": [*required]}


def _arguments(properties: Schema, *required: str) -> Schema:
    return {**_object(properties, *required), "additionalProperties": False}


ROWS: Final = _object(
    {
        "columns": _list(_object({"name": _TEXT, "type": _TEXT}, "name", "type")),
        "rows": _list({"type": "array"}),
        "row_count": _COUNT,
    },
    *("columns", "rows", "row_count"),
)
_CHANGED: Final = _object({"row_count": _COUNT}, "row_count")
_TABLES: Final = _object(
    {
        "dialect": _TEXT,
        "tables": _list(
            _object(
                {"name": _TEXT, "columns": _INTEGER, "kind": _KIND, "comment": _TEXT, "writes": _list(_TEXT)},
                *("name", "columns"),
            )
        ),
    },
    *("dialect", "tables"),
)
_COLUMN: Final = _object(
    {
        "name": _TEXT,
        "type": _TEXT,
        "nullable": {"type": "boolean"},
        "comment": _TEXT,
        "values": _list(_TEXT),
        "default": _TEXT,
        "samples": _list(_TEXT),
        "writable": {"type": "boolean"},
    },
    *("name", "type"),
)
_TABLE: Final = _object(
    {
        "name": _TEXT,
        "kind": _KIND,
        "dialect": _TEXT,
        "columns": _list(_COLUMN),
        "primary_key": _list(_TEXT),
        "references": {"type": "object", "additionalProperties": _TEXT},
        "referenced_by": {"type": "object", "additionalProperties": _list(_TEXT)},
        "unique": _list(_list(_TEXT)),
        "indexes": _list(_list(_TEXT)),
        "checks": _list(_TEXT),
        "row_estimate": _INTEGER,
        "comment": _TEXT,
        "writes": _list(_TEXT),
        "tables": _list({"type": "object"}),
    }
)
_LISTING: Final = _arguments(
    {
        "pattern": {
            "type": "string",
            "maxLength": 200,
            "description": "A part of the names, or the whole with * and ?: order, order_*",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1_000,
            "default": 200,
            "description": "How many to list.",
        },
        "cursor": {"type": "string", "maxLength": 16, "description": "meta.next_cursor of the page before."},
    }
)
_SEARCH: Final = _arguments(
    {
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
    "query",
)
_FOUND: Final = _object(
    {
        "tables": _list(
            _object(
                {
                    "name": _TEXT,
                    "kind": _KIND,
                    "columns": _list(_object({"name": _TEXT, "type": _TEXT, "comment": _TEXT}, "name", "type")),
                    "column_count": _INTEGER,
                    "comment": _TEXT,
                },
                *("name", "kind", "columns", "column_count"),
            )
        ),
        "matching": _INTEGER,
        "searched": _INTEGER,
    },
    *("tables", "matching", "searched"),
)


def make_tools(
    source: str, dialect: DialectName, *, writes: bool, tables: int = 0, files: bool = False
) -> Iterator[Tool]:
    """Return `{source}__query`, `__explain`, `__list_tables` and `__describe_table`, `__change` for a source that is written to, and
    `__search_schema` if there are many tables. `files`: rows may contain bytes.
    """
    makes = _Tools(source, dialect, searched=tables >= MIN_SEARCHED, files=files)
    yield from makes.of_statements()
    yield from makes.of_the_schema()
    if writes:
        yield makes.change()


class _Tools:
    """Tools of one database; `searched` if a search of its schema is useful."""

    def __init__(self, source: str, dialect: DialectName, *, searched: bool, files: bool) -> None:
        self._files = files
        self._source, self._dialect, self._engine, self._searched = source, dialect, RECORDS[dialect].engine, searched
        finds = join(source, "search_schema" if searched else "list_tables")
        self._look = f"Find tables with {finds} and their columns with {join(source, 'describe_table')}."
        self._slot = (
            "$1, $2 … for values and pass them" if RECORDS[dialect].always_numbered else "? for a value and pass it"
        )

    def of_statements(self) -> Iterator[Tool]:
        """Yield tools for a SELECT."""
        rules = (
            f"One SELECT (WITH, joins, set operations and window functions included) in {self._engine}'s dialect. Only tables, columns and "
            "functions that are open to you may be named, and rows are limited: with ORDER BY, next_cursor leads to the next ones. "
            f"Write {self._slot} in parameters."
        )
        statement = _statement(self._dialect, "One SELECT statement.")
        yield self._tool(
            "query",
            f"Query {self._source}",
            f"Runs a SQL SELECT on the {self._engine} database {self._source}: reads, filters, joins, counts, sums and groups rows of its"
            f" tables. {rules} {self._look}",
            with_cursor(statement),
            ROWS,
        )
        prefix = RECORDS[self._dialect].explain
        if prefix is None:
            return
        shows = (
            f"the plan by which the {self._engine} database {self._source} would run it, such as its use of indexes"
            if prefix
            else f"what the {self._engine} database {self._source} says of it: its kind, the bytes that it would read and its tables"
        )
        yield self._tool(
            "explain",
            f"Explain a query on {self._source}",
            f"Explains a SQL statement: shows {shows}, without running it. It takes what {join(self._source, 'query')} takes. Views, and"
            " tables of which you see a part of the rows or values, have no plan to show.",
            statement,
            ROWS,
        )

    def of_the_schema(self) -> Iterator[Tool]:
        """Yield tools that show tables and columns."""
        source, lists, describes = self._source, join(self._source, "list_tables"), join(self._source, "describe_table")
        yield self._tool(
            "list_tables",
            f"List the tables of {source}",
            f"Lists the tables and views of the {self._engine} database {source} that are open to you."
            f" {describes} gives the columns of one.",
            _LISTING,
            _TABLES,
        )
        if self._searched:
            yield self._tool(
                "search_schema",
                f"Search the schema of {source}",
                f"Finds tables, views and columns of the {self._engine} database {source} by words of their names, comments and values,"
                f" among those that are open to you. Use it before {lists}, which gives them all; {describes} gives the whole of one.",
                _SEARCH,
                _FOUND,
            )
        named = {
            "type": "string",
            "minLength": 1,
            "maxLength": 2_000,
            "description": f"A name out of {lists}; several with commas between them.",
        }
        yield self._tool(
            "describe_table",
            f"Describe a table of {source}",
            f"Gives the structure of a table or view of the {self._engine} database {source} that is open to you: columns, types, keys,"
            " references, indexes and constraints.",
            _arguments({"table": named}, "table"),
            _TABLE,
        )

    def change(self) -> Tool:
        """Return the tool that changes rows."""
        made = self._tool(
            "change",
            f"Change rows of {self._source}",
            f"Changes rows of one table of the {self._engine} database {self._source}, after a person has agreed. One INSERT with its"
            " columns and VALUES, or one UPDATE or DELETE with a WHERE; no join, subquery or RETURNING. Only tables and columns that are"
            f" open to changes may be named, and a change of too many rows is taken back. Write {self._slot} in parameters. {self._look}",
            _statement(self._dialect, "One INSERT, UPDATE or DELETE statement."),
            _CHANGED,
        )
        return msgspec.structs.replace(made, effect=Effect.DESTRUCTIVE, idempotent=False)

    def _tool(self, operation: str, title: str, description: str, takes: Schema, gives: Schema) -> Tool:
        return Tool(
            name=join(self._source, operation),
            title=title,
            description=description,
            input_schema=takes,
            output_schema=gives,
            effect=Effect.READ,
            idempotent=True,
            source=self._source,
            origin=f"{self._dialect}#{operation}",
            binding=SqlBinding(dialect=self._dialect, operation=operation, files=self._files and operation == "query"),
        )


def with_cursor(schema: Schema) -> Schema:
    """Return the input schema with a cursor argument, for a tool that returns its rows in pages."""
    cursor = {
        "type": "string",
        "maxLength": 64,
        "description": "next_cursor of the same statement's last answer, for its next rows.",
    }
    return {**schema, "properties": {**schema["properties"], "cursor": cursor}}


def _statement(dialect: DialectName, described: str) -> Schema:
    """Return the schema of a statement and its values. PostgreSQL numbers its placeholders and accepts lists: `id = ANY($1)`."""
    numbered = RECORDS[dialect].always_numbered
    parameters = {
        "type": "array",
        "items": _CELLS if numbered else _CELL,
        "maxItems": 200,
        "default": [],
        "description": "The values of $1, $2 …, in order; a list for = ANY($1)."
        if numbered
        else "A value for each ? in the statement, in order.",
    }
    sql = {"type": "string", "minLength": 1, "maxLength": 20_000, "description": described}
    return _arguments({"sql": sql, "parameters": parameters}, "sql")
