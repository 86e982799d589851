"""A database becomes four tools; its schema goes into the manifest, its rows never."""

from __future__ import annotations

from toolgen.core.errors import ConfigError

try:
    import sqlglot  # noqa: F401 - what checks and labels of tables are read with
except ImportError as error:
    raise ConfigError(
        "what reads SQL is not installed", suggestion='install it with: pip install "toolgen[sql]"'
    ) from error

from toolgen.sources.sql.read import read_sql

__all__ = ["read_sql"]
