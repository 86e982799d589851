"""SQL databases: reading of schemas and named queries, and the execution of guarded statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.database_guard import DatabaseGuard
from toolgen.connectors.executor import Executor
from toolgen.connectors.original import Original
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings
from toolgen.connectors.source_entry import ConfiguredSource, SourceEntry
from toolgen.connectors.sql.engines import ENGINES, engine_of, is_file, location_of, preview_location
from toolgen.connectors.sql.settings import SqlKeys, read_location, read_queries
from toolgen.core.errors import ConfigError
from toolgen.model.account_report import DatabaseReport
from toolgen.model.binding_change import BindingChange
from toolgen.model.database_url import ServerLocation, part_password
from toolgen.model.manifest import SourceInfo
from toolgen.model.secret import SecretReference
from toolgen.model.sql_scope import SqlScope
from toolgen.model.sql_section import DatabaseSection
from toolgen.model.tool import Tool

__all__ = ["SqlConnector", "check_extra"]


class SqlConnector(Connector):
    """Connector of `sql:`."""

    kind = "sql"
    keys = SqlKeys
    bindings = frozenset({"sql"})
    dialects = MappingProxyType(
        {name: engine.name for engine in ENGINES.values() for name in (engine.name, *engine.schemes)}
    )
    failure_advice = "the policy's sql: limits the time of a statement"
    names_schemes = False
    has_description = False
    reads_files = False
    no_proof = "the tool was made from the database itself, which describes no requests"

    def configure(self, given: Any, entry: SourceEntry) -> ConfiguredSource:
        """Return the settings of a database: its location without the password, and files of named queries."""
        location, auth = read_location(given.sql, entry)
        config = {"writes": given.writes, "queries": read_queries(given, entry)}
        return ConfiguredSource(location=location, auth=auth, config=config)

    def location(self, given: str, root: Path, where: str) -> str:
        """Return the URL of a database, with an absolute path for a file."""
        scheme, separator, path = given.partition(":///")
        if separator and path and is_file(given):
            return f"{scheme}:///{root / path}"
        try:
            location_of(given)
        except ConfigError as error:
            raise ConfigError(error.message, where=where, suggestion=error.suggestion) from error
        return given

    def portable_location(self, config: SourceConfig) -> str:
        """Return the URL of a server, or the name of a file."""
        return Path(config.location).name if is_file(config.location) else config.location

    def recognize(self, spec: str, head: Callable[[], bytes]) -> str:
        """Return the URL of a database, also for the path of a database file; "" for anything else."""
        if "://" in spec:
            return "" if spec.startswith(("http://", "https://")) else spec
        began = head()
        engine = next(
            (one for one in ENGINES.values() if one.signature and began[one.signature_at :].startswith(one.signature)),
            None,
        )
        return "" if engine is None else f"{engine.schemes[0]}:///{spec}"

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read the schema of a database, and its named queries."""
        check_extra(config)
        from toolgen.connectors.sql.reading.named_queries import read_database  # noqa: PLC0415 - behind an extra

        return read_database(config, password())

    def state(self, config: SourceConfig, password: Callable[[], str]) -> object:
        """Return the schema's digest and its problems. Reading the schema is quick, while a database file changes with every row."""
        check_extra(config)
        from toolgen.connectors.sql.reading.read import read_sql  # noqa: PLC0415 - behind an extra

        reading = read_sql(config, password())
        return [reading.info.digest, [[problem.origin, problem.code, problem.message] for problem in reading.problems]]

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return an executor of statements that the guard has rendered."""
        from toolgen.connectors.sql.execution.executor import SqlExecutor  # noqa: PLC0415 - if there is such a source

        password = source.auth.get("password")
        reference = password if isinstance(password, SecretReference) else None
        return SqlExecutor(source.config.location, password=reference, secrets=context.secrets, permit=context.permit)

    def file_location(self, location: str) -> tuple[str, str]:
        """Return the prefix and the path of a database that is a file."""
        scheme, separator, path = location.partition(":///")
        return (scheme + separator, path) if is_file(location) else ("", "")

    def without_password(self, location: str) -> str:
        """Return a URL without its password."""
        return part_password(location)[0]

    def address(self, config: SourceConfig) -> tuple[str, int] | None:
        """Return host and port of a server."""
        location = location_of(config.location)
        return (location.host, location.port) if isinstance(location, ServerLocation) and location.host else None

    def examine_account(
        self, source: SourceSettings, info: SourceInfo, opened: SqlScope | None
    ) -> DatabaseReport | None:
        """Compare the rights of an account with the policy."""
        if info.database is None:
            return None
        from toolgen.connectors.sql.accounts import examined  # noqa: PLC0415 - behind an extra

        return examined(source, info.database, opened)

    def original(self, config: SourceConfig, info: SourceInfo) -> Original:
        """Return the comments of tables and columns."""
        from toolgen.connectors.sql.original import schema_texts  # noqa: PLC0415 - for `toolgen lint` alone

        return Original(texts=tuple(schema_texts(info)))

    def binding_changes(self, before: Tool, after: Tool) -> Iterator[BindingChange]:
        """Yield the changes of a statement."""
        from toolgen.connectors.sql.description_changes import statement_changes  # noqa: PLC0415 - for a comparison alone

        return statement_changes(before, after)

    def description_changes(self, before: SourceInfo, after: SourceInfo) -> Iterator[BindingChange]:
        """Yield the changes of tables and columns."""
        from toolgen.connectors.sql.description_changes import schema_changes  # noqa: PLC0415 - for a comparison alone

        return schema_changes(before, after)

    def database_section(self) -> DatabaseSection:
        """Return the reader of `sql:` in a policy."""
        from toolgen.connectors.sql.policy_section import SqlSection  # noqa: PLC0415 - behind an extra

        return SqlSection()

    def database_guard(self) -> DatabaseGuard:
        """Return the guard of statements."""
        from toolgen.connectors.sql.guard.call_guard import SqlGuard  # noqa: PLC0415 - behind an extra

        return SqlGuard()

    def preview_config(self, name: str, info: SourceInfo) -> SourceConfig:
        """Return the configuration of a placeholder database, because a manifest does not contain the location of its databases."""
        location = "" if info.database is None else preview_location(info.database.dialect)
        return SourceConfig(name=name, kind=self.kind, location=location)


def check_extra(config: SourceConfig) -> None:
    """Raise `ConfigError` if the SQL parser is not installed. The message names the extra of the database's driver, which includes it."""
    if find_spec("sqlglot") is None:
        engine = engine_of(config.location)
        extra = "sql" if engine is None else engine.extra
        raise ConfigError(
            "the SQL parser is not installed", suggestion=f'install it with: pip install "toolgen[{extra}]"'
        )
