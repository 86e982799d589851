"""The SQL guard: pure functions from a statement, a database and a scope to a statement that may run, or a refusal."""

from toolgen.core.errors import ConfigError

try:
    import sqlglot  # noqa: F401 - what every module here reads SQL with
except ImportError as error:
    raise ConfigError(
        "the SQL parser is not installed", suggestion='install it with: pip install "toolgen[sql]"'
    ) from error
