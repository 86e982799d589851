"""What a source's own account may do in its database, whatever the policy says: asked of the database, through the source's credentials."""

from __future__ import annotations

import os
from pathlib import Path
from typing import assert_never

from toolgen.errors import ConfigError, DescriptionError
from toolgen.model.location import FileLocation, ServerLocation, parse_location
from toolgen.model.rights import Power, Rights
from toolgen.sources.base import SourceConfig

__all__ = ["read_rights"]


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
            from toolgen.sources.sql.postgres_rights import postgres_rights  # noqa: PLC0415 - see above

            return postgres_rights(location, password)
        case ServerLocation():
            from toolgen.sources.sql.mysql_rights import mysql_rights  # noqa: PLC0415 - see above

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
