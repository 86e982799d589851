"""Engines of SQL databases, one line each. The record of an engine is in its module of `dialects/`.

This module needs no SQL parser, so that a project can be loaded without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.model.database import DialectName
from toolgen.model.database_url import Location, Scheme, parse_location
from toolgen.model.excerpt import bounded

__all__ = ["ENGINES", "SqlEngine", "engine_of", "is_file", "location_of", "preview_location"]


class SqlEngine(Struct, frozen=True, kw_only=True):
    """Engine: its dialect, the schemes of its locations, the port of its servers or 0 for files, and the extra with its driver.

    `options` are those that only locations of this engine have. `module` has its record as `DIALECT`. Files of the engine have the bytes
    `signature` at an offset.
    """

    name: DialectName
    schemes: tuple[str, ...]
    port: int = 0
    extra: str
    options: tuple[str, ...] = ()
    module: str = ""
    signature: bytes = b""
    signature_at: int = 0


_ENGINES: Final[dict[DialectName, SqlEngine]] = {
    engine.name: engine
    for engine in (
        SqlEngine(name="sqlite", schemes=("sqlite",), extra="sql", signature=b"SQLite format 3\0"),
        SqlEngine(name="postgres", schemes=("postgresql",), port=5432, extra="postgres"),
        SqlEngine(name="mysql", schemes=("mysql", "mariadb"), port=3306, extra="mysql"),
        SqlEngine(name="duckdb", schemes=("duckdb",), extra="duckdb", signature=b"DUCK", signature_at=8),
        SqlEngine(name="clickhouse", schemes=("chdb",), extra="clickhouse"),
        SqlEngine(
            name="snowflake", schemes=("snowflake",), port=443, extra="sql", options=("account", "role", "warehouse")
        ),
        SqlEngine(
            name="bigquery",
            schemes=("bigquery",),
            port=443,
            extra="sql",
            options=("maximum_bytes_billed", "region", "service"),
        ),
        SqlEngine(name="tsql", schemes=("mssql",), port=1433, extra="mssql"),
    )
}
ENGINES: Final[Mapping[DialectName, SqlEngine]] = MappingProxyType(_ENGINES)
"""Engines by their dialects."""


def engine_of(location: str) -> SqlEngine | None:
    """Return the engine of the scheme of a location."""
    scheme = location.partition(":")[0]
    return next((engine for engine in ENGINES.values() if scheme in engine.schemes), None)


def location_of(text: str) -> Location:
    """Read the location of a source's database. Raises `ConfigError`."""
    schemes = {
        name: Scheme(engine.name, engine.port, engine.options) for engine in ENGINES.values() for name in engine.schemes
    }
    return parse_location(text, schemes)


def is_file(location: str) -> bool:
    """Return True for the URL of a database file."""
    engine = engine_of(location)
    return engine is not None and not engine.port


def preview_location(dialect: DialectName) -> str:
    """Return the URL of a placeholder database of a dialect. Raises `ConfigError` for an unknown dialect."""
    engine = ENGINES.get(dialect)
    if engine is None:
        raise ConfigError(f"the SQL dialect {bounded(dialect, 20)!r} is not supported")
    return f"{engine.schemes[0]}://{'preview@preview' if engine.port else ''}/preview"
