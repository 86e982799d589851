"""Reading of a database's schema: four tools for each database; the manifest contains its schema, never its rows."""

from toolgen.core.errors import ConfigError

try:
    import sqlglot  # noqa: F401 - checks and labels of tables are read with it
except ImportError as error:
    raise ConfigError(
        "the SQL parser is not installed", suggestion='install it with: pip install "toolgen[sql]"'
    ) from error
