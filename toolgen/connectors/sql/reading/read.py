"""Which reader a location needs, and what becomes of what it finds: the schema with its digest, four tools, Problems.

Statements that a guard rendered, held against the database they are for: each is prepared or explained, and never run. What a source's own
account may do in its database, whatever the policy says: asked of the database, through the source's credentials.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec import Struct

from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.sql.reading.declared import declared_queries
from toolgen.connectors.sql.reading.queries import named_tool, read_queries
from toolgen.connectors.sql.reading.schema import ReadSchema
from toolgen.connectors.sql.reading.sqlite import prepare_sqlite, read_sqlite
from toolgen.connectors.sql.reading.tools import make_tools
from toolgen.core.canonical import digest
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Power, Rights
from toolgen.model.database_url import FileLocation, ServerLocation, parse_location
from toolgen.model.manifest import Problem, SourceInfo

__all__ = ["EngineCheck", "prepare", "read_rights", "read_sql"]

_BINARY = re.compile(r"blob|bytea|binary|bit varying|^image$", re.IGNORECASE)
"""Column types whose values are bytes, in any engine."""


def read_sql(config: SourceConfig, password: str = "") -> SourceReading:
    """Reads the schema of the database at `config.location` (toolgen.model.database_url) through a read-only session; never a row.

    Its named queries become tools that nobody has held against the database yet; `named_queries.py` does that.
    Raises `DescriptionError` for a location that is none, a database that is not there, not reachable or not readable, and an engine
    whose driver is not installed. No error holds the password or what a server said.
    """
    where = f"sources.{config.name}"
    try:
        location = parse_location(config.location)
        found = _find(location, password)
        if config.writes:
            found = found.with_cascades()
    except (ConfigError, DescriptionError) as error:
        raise DescriptionError(error.message, where=error.where or where, suggestion=error.suggestion) from error
    database = found.database
    info = SourceInfo(
        kind="sql", digest=digest(msgspec.to_builtins(database)), title=location.title, version="", database=database
    )
    problems = (
        Problem(level=note.level, source=config.name, origin=note.origin, code=note.code, message=note.message)
        for note in found.notes
    )
    if config.resource:
        declared, faults, places = declared_queries(config, database.dialect)
        return SourceReading(
            info=info,
            tools=declared,
            problems=(*problems, *faults),
            operations=len(declared) + len(faults),
            places=places,
        )
    files = any(_BINARY.search(column.type) for table in database.tables for column in table.columns)
    tools = tuple(
        make_tools(config.name, database.dialect, writes=config.writes, tables=len(database.tables), files=files)
    )
    queries = read_queries(config.name, database.dialect, config.queries)
    named = tuple(named_tool(config.name, database.dialect, query) for query in queries.found)
    return SourceReading(
        info=info,
        tools=(*tools, *named),
        problems=(*problems, *queries.problems),
        operations=len(tools) + queries.offered,
        places={tool.origin: f"{query.file}:{query.line}" for tool, query in zip(named, queries.found, strict=True)},
    )


def _find(location: FileLocation | ServerLocation, password: str) -> ReadSchema:
    # The engines with a driver of their own are extras, so their readers are imported when there is such a source.
    match location:
        case FileLocation(dialect="sqlite", path=path):
            return read_sqlite(path)
        case FileLocation(path=path):
            return _find_duckdb(path)
        case ServerLocation(dialect="postgres"):
            from toolgen.connectors.sql.reading.postgres import read_postgres  # noqa: PLC0415 - see above

            return read_postgres(location, password)
        case ServerLocation():
            from toolgen.connectors.sql.reading.mysql import read_mysql  # noqa: PLC0415 - see above

            return read_mysql(location, password)
        case _:
            assert_never(location)


def _find_duckdb(path: Path) -> ReadSchema:
    from toolgen.connectors.sql.reading.duckdb import read_duckdb  # noqa: PLC0415 - see above

    return read_duckdb(path)


class EngineCheck(Struct, frozen=True, kw_only=True):
    """Result of preparing a statement: its column types if the engine gives them (SQLite does not), or the reason why it was rejected."""

    types: tuple[str, ...] = ()
    fault: str = ""


def prepare(location: str, password: str, statements: Sequence[Statement]) -> tuple[EngineCheck, ...]:
    """Prepare each statement and return one result for each. Raises `DescriptionError` if the database cannot be reached."""
    if not statements:
        return ()
    parsed = parse_location(location)
    # The engines with a driver of their own are extras, so their readers are imported when there is such a source.
    match parsed:
        case FileLocation(dialect="sqlite", path=path):
            answers = prepare_sqlite(path, statements)
        case FileLocation(path=path):
            from toolgen.connectors.sql.reading.duckdb import prepare_duckdb  # noqa: PLC0415 - see above

            answers = prepare_duckdb(path, statements)
        case ServerLocation(dialect="postgres"):
            from toolgen.connectors.sql.reading.postgres import prepare_postgres  # noqa: PLC0415 - see above

            answers = prepare_postgres(parsed, password, statements)
        case ServerLocation():
            from toolgen.connectors.sql.reading.mysql import prepare_mysql  # noqa: PLC0415 - see above

            answers = prepare_mysql(parsed, password, statements)
        case _:
            assert_never(parsed)
    return tuple(
        EngineCheck(fault=answer) if isinstance(answer, str) else EngineCheck(types=answer) for answer in answers
    )


def read_rights(config: SourceConfig, password: str = "") -> Rights:
    """Reads catalogs alone, in a session that only reads.

    Raises `DescriptionError` for a database that cannot be reached and an engine whose driver is not installed.
    """
    try:
        location = parse_location(config.location)
        return _rights(location, password)
    except (ConfigError, DescriptionError) as error:
        where = error.where or f"sources.{config.name}"
        raise DescriptionError(error.message, where=where, suggestion=error.suggestion) from error


def _rights(location: FileLocation | ServerLocation, password: str) -> Rights:
    # The engines with a driver of their own are extras, so their readers are imported when there is such a source.
    match location:
        case FileLocation(path=path):
            return _file_rights(path)
        case ServerLocation(dialect="postgres"):
            from toolgen.connectors.sql.reading.postgres_rights import postgres_rights  # noqa: PLC0415 - see above

            return postgres_rights(location, password)
        case ServerLocation():
            from toolgen.connectors.sql.reading.mysql_rights import mysql_rights  # noqa: PLC0415 - see above

            return mysql_rights(location, password)
        case _:
            assert_never(location)


def _file_rights(path: Path) -> Rights:
    """A file has no accounts: what the gateway's process may do with it is what the operating system lets it."""
    if not path.is_file():
        raise DescriptionError("there is no such database file", suggestion="check the path of the source")
    powers = []
    if os.access(path, os.W_OK):
        message = (
            "this process may write the database file; the gateway opens it read-only unless a change was approved"
        )
        powers.append(Power(code="file-writable", message=message, harmless=True))
    if os.access(path.parent, os.W_OK):
        message = "this process may write the folder of the database file, and so put another file in its place"
        powers.append(Power(code="folder-writable", message=message, harmless=True))
    return Rights(account="", powers=tuple(powers))
