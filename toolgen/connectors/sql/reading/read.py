"""Reading of a database by the engine of its location: the schema with its digest, four tools, and problems.

Also the check of rendered statements, each prepared or explained and never run, and the rights of a source's account, queried from the
database with the source's credentials.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.sql.dialects import RECORDS, Dialect
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.reading.declared import declared_queries
from toolgen.connectors.sql.reading.queries import read_queries
from toolgen.connectors.sql.reading.query_tools import named_tool
from toolgen.connectors.sql.reading.tools import make_tools
from toolgen.core.canonical import digest
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database_rights import Power, Rights
from toolgen.model.database_url import FileLocation, Location
from toolgen.model.manifest import Problem, SourceInfo

__all__ = ["EngineCheck", "prepare", "read_rights", "read_sql"]

_BINARY = re.compile(r"blob|bytea|binary|bit varying|^image$", re.IGNORECASE)
"""Column types whose values are bytes, in any engine."""


def read_sql(config: SourceConfig, password: str = "") -> SourceReading:
    """Read the schema of the database at `config.location` (toolgen.model.database_url) through a read-only session; never a row.

    Its named queries become tools without a check against the database, which `named_queries.py` does. Raises `DescriptionError` for an
    invalid location, a database that is missing, unreachable or unreadable, and an engine whose driver is not installed. No error contains
    the password or a text of the server.
    """
    where = f"sources.{config.name}"
    try:
        location = location_of(config.location)
        _check_changes(config, RECORDS[location.dialect])
        found = RECORDS[location.dialect].read(location, password)
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


class EngineCheck(Struct, frozen=True, kw_only=True):
    """Result of preparing a statement: its column types if the engine gives them (SQLite does not), or the reason why it was rejected."""

    types: tuple[str, ...] = ()
    fault: str = ""


def prepare(location: str, password: str, statements: Sequence[Statement]) -> tuple[EngineCheck, ...]:
    """Prepare each statement and return one result for each. Raises `DescriptionError` if the database cannot be reached."""
    if not statements:
        return ()
    parsed = location_of(location)
    answers = RECORDS[parsed.dialect].prepare(parsed, password, statements)
    return tuple(
        EngineCheck(fault=answer) if isinstance(answer, str) else EngineCheck(types=answer) for answer in answers
    )


def read_rights(config: SourceConfig, password: str = "") -> Rights:
    """Read the rights from catalogs, in a read-only session.

    Raises `DescriptionError` for a database that cannot be reached and an engine whose driver is not installed.
    """
    try:
        location = location_of(config.location)
        return _rights(location, password)
    except (ConfigError, DescriptionError) as error:
        where = error.where or f"sources.{config.name}"
        raise DescriptionError(error.message, where=where, suggestion=error.suggestion) from error


def _rights(location: Location, password: str) -> Rights:
    rights = RECORDS[location.dialect].rights
    if rights is not None:
        return rights(location, password)
    assert isinstance(location, FileLocation)  # noqa: S101 - a server has accounts
    return _file_rights(location.path)


def _file_rights(path: Path) -> Rights:
    """Return the rights on a file, which has no accounts: the operating system decides what the gateway's process may do."""
    if not path.is_file():
        raise DescriptionError("there is no such database file", suggestion="check the path of the source")
    powers = []
    if os.access(path, os.W_OK):
        message = (
            "this process may write the database file; the gateway opens it read-only unless a change was approved"
        )
        powers.append(Power(code="file-writable", message=message, harmless=True))
    if os.access(path.parent, os.W_OK):
        message = "this process may write the folder of the database file, and so replace it"
        powers.append(Power(code="folder-writable", message=message, harmless=True))
    return Rights(account="", powers=tuple(powers))


def _check_changes(config: SourceConfig, record: Dialect) -> None:
    if config.writes and not record.changes:
        raise ConfigError(f"rows of {record.engine} cannot be changed by a statement", suggestion="remove writes: true")
