"""Keys of a database in toolgen.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from toolgen.connectors.source import QueryFiles
from toolgen.connectors.source_entry import SourceEntry
from toolgen.connectors.sql.engines import is_file
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import short
from toolgen.model.database_url import part_password

__all__ = ["SqlKeys", "read_location", "read_queries"]


class SqlKeys(msgspec.Struct):
    """Keys of a source. `queries` are files or globs of named queries."""

    sql: str | None = None
    queries: bool | str | list[str] = False
    writes: bool = False


def read_location(written: str, entry: SourceEntry) -> tuple[str, dict[str, Any]]:
    """Return a database's location without its password, and its credentials with it. Raises `ConfigError`."""
    auth, where = entry.auth, entry.where()
    location, password = part_password(written)
    if password and auth:
        raise ConfigError("the password is both in the location and under auth:", where=where)
    if unknown := auth.keys() - {"password"}:
        raise ConfigError(f"auth: of a database takes only password, not {short(min(unknown))}", where=where)
    if auth and (not isinstance(auth["password"], str) or is_file(location)):
        raise ConfigError("auth: password: is one value, of a database that is a server", where=where)
    if password and entry.anonymous:
        raise ConfigError("auth: none contradicts the password in the location", where=where)
    return location, {"password": password} if password else dict(auth)


def read_queries(keys: SqlKeys, entry: SourceEntry) -> tuple[QueryFiles, ...]:
    """Return the globs of named queries. A build searches the files: a gateway serves the built tools."""
    given = keys.queries
    if given is False:
        return ()
    if not isinstance(given, (str, list)):
        raise ConfigError(
            "queries: of a database takes files or globs",
            where=entry.where("queries"),
            suggestion="write it like specs/shop/*.sql",
        )
    listed = isinstance(given, list)
    files: list[QueryFiles] = []
    for index, pattern in enumerate(given if isinstance(given, list) else [given]):
        where = entry.where("queries", index) if listed else entry.where("queries")
        if not pattern or "://" in pattern or Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise ConfigError(
                f"queries: '{short(pattern)}' is not a file or glob below the project's folder",
                where=where,
                suggestion="write it like specs/shop/*.sql",
            )
        files.append(QueryFiles(pattern=pattern, root=str(entry.root), where=where))
    return tuple(files)
