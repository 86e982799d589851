"""A SQLite database becomes four tools; its schema goes into the manifest, its rows never."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from toolgen.canonical import digest
from toolgen.errors import DescriptionError
from toolgen.model.database import Column, Database, Table
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.names import join
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, SqlBinding, Tool
from toolgen.sources.base import Reading, SourceConfig

__all__ = ["read_sql"]

_SCHEME: Final = "sqlite:///"
_DIALECT: Final = "sqlite"
_MOST_TABLES: Final = 5_000
_OFFERED: Final = 4  # tools of a database

_CELL: Final[Schema] = {"type": ["string", "number", "boolean", "null"]}
_STATEMENT: Final[Schema] = {
    "type": "object",
    "properties": {
        "sql": {"type": "string", "minLength": 1, "maxLength": 20_000, "description": "One SELECT statement."},
        "parameters": {
            "type": "array",
            "items": _CELL,
            "maxItems": 200,
            "default": [],
            "description": "A value for each ? in the statement, in order.",
        },
    },
    "required": ["sql"],
    "additionalProperties": False,
}
_ROWS: Final[Schema] = {
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
                },
                "required": ["name", "type", "nullable"],
            },
        },
        "primary_key": {"type": "array", "items": {"type": "string"}},
        "references": {"type": "object", "additionalProperties": {"type": "string"}},
        "comment": {"type": "string"},
    },
    "required": ["name", "kind", "columns"],
}


def read_sql(config: SourceConfig) -> Reading:
    """Reads the schema of the database at `config.location` (`sqlite:///path`) through a read-only connection.

    Raises `DescriptionError` for another engine, a file that is not there and one that is not a database. Virtual tables become a Problem
    each, because what reading them does is up to a module.
    """
    path = _path(config)
    try:
        uri = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)) as connection:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA trusted_schema=OFF")
            database, problems = _read(connection, config.name)
    except sqlite3.Error as error:
        raise DescriptionError(
            "the database cannot be read", where=_where(config), suggestion="check that the file is a SQLite database"
        ) from error
    info = SourceInfo(
        kind="sql",
        digest=digest(msgspec.to_builtins(database)),
        title=path.stem,
        version="",
        database=database,
    )
    tools = tuple(_tools(config.name))
    return Reading(info=info, tools=tools, problems=tuple(problems), operations=_OFFERED)


def _path(config: SourceConfig) -> Path:
    scheme, separator, _ = config.location.partition("://")
    if not separator or scheme != "sqlite" or not config.location.startswith(_SCHEME):
        raise DescriptionError(
            f"databases of the kind {scheme[:20]!r} are not supported yet",
            where=f"sources.{config.name}",
            suggestion="use sqlite:///path/to/file.db",
        )
    path = Path(config.location.removeprefix(_SCHEME))
    if not path.is_file():
        raise DescriptionError(
            "there is no such database file", where=_where(config), suggestion="check the path after sqlite:///"
        )
    return path


def _where(config: SourceConfig) -> str:
    return f"sources.{config.name}"


def _read(connection: sqlite3.Connection, source: str) -> tuple[Database, list[Problem]]:
    tables: list[Table] = []
    problems: list[Problem] = []
    connection.execute("BEGIN")
    listed = connection.execute("PRAGMA main.table_list").fetchmany(_MOST_TABLES)
    for _, name, kind, *_ in sorted(listed, key=lambda row: str(row[1])):
        if name.lower().startswith("sqlite_") or kind == "shadow":
            continue
        if kind == "virtual":
            problems.append(
                _problem(
                    source,
                    name,
                    "virtual_table",
                    "a virtual table is left out: its module decides what reading it does",
                )
            )
            continue
        try:
            tables.append(_table(connection, name, view=kind == "view"))
        except sqlite3.Error:
            problems.append(
                _problem(source, name, "broken_view", "the columns of this view cannot be read, so it is left out")
            )
    return Database(dialect=_DIALECT, tables=tuple(tables)), problems


def _problem(source: str, name: str, code: str, message: str) -> Problem:
    return Problem(level="warning", source=source, origin=name, code=code, message=message)


def _table(connection: sqlite3.Connection, name: str, *, view: bool) -> Table:
    columns: list[Column] = []
    keyed: list[tuple[int, str]] = []
    for _, column, declared, not_null, _, key, hidden in connection.execute(
        "SELECT * FROM pragma_table_xinfo(?, 'main')", (name,)
    ):
        if hidden == 1:
            continue
        columns.append(Column(name=column, type=declared or "", nullable=not (not_null or key)))
        if key:
            keyed.append((key, column))
    return Table(
        name=name,
        columns=tuple(columns),
        primary_key=tuple(column for _, column in sorted(keyed)),
        references=dict(_references(connection, name)),
        view=view,
    )


def _references(connection: sqlite3.Connection, name: str) -> Iterator[tuple[str, str]]:
    """Foreign keys by column. A key that names no column of the other table means its primary key, which is named here."""
    for row in sorted(connection.execute("SELECT * FROM pragma_foreign_key_list(?, 'main')", (name,))):
        _, position, other, column, target, *_ = row
        if target is None:
            keys = sorted(
                (info[5], info[1])
                for info in connection.execute("SELECT * FROM pragma_table_xinfo(?, 'main')", (other,))
                if info[5]
            )
            target = keys[position][1] if position < len(keys) else "rowid"
        yield column, f"{other}.{target}"


def _tools(source: str) -> Iterator[Tool]:
    look = f"Find tables with {join(source, 'list_tables')} and their columns with {join(source, 'describe_table')}."
    rules = (
        "One SELECT (WITH, joins, set operations and window functions included) in SQLite's dialect. Only tables, columns and "
        "functions that are open to you may be named, and rows are limited. Write ? for a value and pass it in parameters."
    )
    yield _tool(
        source,
        "query",
        f"Query {source}",
        f"Runs a SELECT on the SQLite database {source}. {rules} {look}",
        _STATEMENT,
        _ROWS,
    )
    yield _tool(
        source,
        "explain",
        f"Explain a query on {source}",
        f"Shows how the SQLite database {source} would run a query, without running it. {rules} {look}",
        _STATEMENT,
        _ROWS,
    )
    yield _tool(
        source,
        "list_tables",
        f"List the tables of {source}",
        f"Lists the tables and views of the SQLite database {source} that are open to you."
        f" {join(source, 'describe_table')} gives the columns of one.",
        {"type": "object", "properties": {}, "additionalProperties": False},
        _TABLES,
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
    yield _tool(
        source,
        "describe_table",
        f"Describe a table of {source}",
        f"Gives the columns, types, keys and references of a table or view of the SQLite database {source} that is open to you.",
        described,
        _TABLE,
    )


def _tool(source: str, operation: str, title: str, description: str, takes: Schema, gives: Schema) -> Tool:
    return Tool(
        name=join(source, operation),
        title=title,
        description=description,
        input_schema=takes,
        output_schema=gives,
        effect=Effect.READ,
        idempotent=True,
        source=source,
        origin=f"sqlite#{operation}",
        binding=SqlBinding(dialect=_DIALECT, operation=operation),
    )
