"""Options and result of reading a source's description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from toolgen.connectors.assigned_names import Assignments
from toolgen.connectors.graphql.options import GraphOptions
from toolgen.connectors.openapi.options import OpenApiOptions
from toolgen.connectors.pins import Pin
from toolgen.core.errors import ConfigError
from toolgen.model.database_url import ENGINES
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.tool import CodeBinding, Effect, OutputForm, Tool

__all__ = [
    "QueryFiles",
    "SourceConfig",
    "SourceKind",
    "SourceReading",
    "check_sql_extra",
    "is_networked",
    "is_remote",
    "is_served",
    "listed_filter",
]

SourceKind: TypeAlias = Literal["openapi", "graphql", "sql", "python", "mcp", "workflow", "code", "device"]
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_OPTIONS = GraphOptions()
_NO_API_OPTIONS = OpenApiOptions()


class QueryFiles(Struct, frozen=True, kw_only=True):
    """Files of named queries: a glob below the project's folder, and where toolgen.yaml says it."""

    pattern: str
    root: str
    where: str


class SourceConfig(Struct, frozen=True, kw_only=True):
    """Entry of `sources:` in toolgen.yaml, as far as a build needs it; without credentials.

    `location` is a path (already resolved against the project's folder) or a URL; `pin` is the accepted copy of the document at the URL.
    `include` and `exclude` filter by `tags`, `operations` (globs), `methods` and `effects`.
    """

    name: str
    kind: SourceKind
    location: str
    server: str = ""  # openapi: overrides the document's servers
    endpoint: str = ""  # graphql
    graph: GraphOptions = _NO_OPTIONS  # graphql
    api: OpenApiOptions = _NO_API_OPTIONS  # openapi
    overlay: tuple[str, ...] = ()  # openapi: paths of Overlay 1.0 documents, applied in order
    include: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    exclude: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    pin: Pin | None = None
    names: Assignments = field(default_factory=lambda: _NOTHING)  # those that toolgen.lock has
    anonymous: bool = False  # openapi: no credential is sent, and none is demanded
    key_header: str = ""  # openapi: the header of idempotency keys, where its description does not say so itself
    refs: tuple[str, ...] = ()  # openapi: canonical URLs below which it may pull documents in by `$ref`
    writes: bool = False  # sql: a tool that changes tables, for what the policy opens
    queries: tuple[QueryFiles, ...] = ()  # sql: a tool for each named query of these files
    code: CodeBinding | None = None  # code: the limits of its sandbox
    root: str = ""  # python: where modules are looked for first; mcp: where a command is started
    resource: str = ""  # of any kind: the file of a tool resource (`kind: Tool`) that its tools are declared in
    adopted: Literal["", "fastmcp", "langchain"] = ""  # python: whose tools `module:name` are
    prefix: str = ""  # python: "none" for tools that are called as their functions are
    command: tuple[str, ...] = ()  # mcp: a server that is started, and spoken to over its pipes
    annotations: Literal["", "trusted"] = ""  # mcp: whether a tool is as harmless as its server says
    listed_output: OutputForm = ""  # what MCP clients are listed of the output schemas of its tools
    strict_arguments: bool = False  # whether tools that read refuse unknown arguments too
    exact_schema: bool = False  # whether input schemas are listed as they are
    references: Mapping[str, Pin] = field(
        default_factory=lambda: _NOTHING
    )  # what it pulled in when it was accepted, by canonical URL

    @property
    def file(self) -> str:
        """Where the description is read from: the pinned copy, or what the location names."""
        return str(self.pin.path) if self.pin is not None else self.location


class SourceReading(Struct, frozen=True, kw_only=True):
    """Result of reading one description. `operations` counts everything in it: tools and skipped operations, each of which has a Problem.

    `identifiers` gives the description's own name (operationId, field) by tool origin. `files` are all files that were read, as path ->
    `sha256:…`; `complete` is True if these are all the files that it refers to. `references` are the remote documents that were used, and
    `wanted` are allowed remote documents that are not pinned, both as canonical URLs. `places` gives `file:line` by tool origin, for tools
    whose description is in a file of its own.
    """

    info: SourceInfo
    tools: tuple[Tool, ...]
    problems: tuple[Problem, ...]
    operations: int
    identifiers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    files: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    complete: bool = True
    references: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


def is_remote(config: SourceConfig) -> bool:
    """Return True if a description is fetched, and so pinned, rather than opened as a file."""
    if config.kind == "mcp":
        return True
    return config.kind in {"openapi", "graphql"} and config.location.startswith(("http://", "https://"))


def is_networked(config: SourceConfig) -> bool:
    """Return True if a build may have to fetch documents for the source."""
    return is_remote(config) or bool(config.refs)


def check_sql_extra(config: SourceConfig) -> None:
    """Raises `ConfigError` where what reads SQL is not installed: names the extra of the database's driver, which brings it as well."""
    if find_spec("sqlglot") is None:
        engine = ENGINES.get(config.location.partition(":")[0], "sqlite")
        extra = "sql" if engine == "sqlite" else engine
        raise ConfigError(
            "what reads SQL is not installed", suggestion=f'install it with: pip install "toolgen[{extra}]"'
        )


def is_served(config: SourceConfig) -> bool:
    """Return True for a database behind a server, whose name is the same on every machine; False for a file."""
    return config.kind == "sql" and not config.location.startswith(("sqlite:", "duckdb:"))


def listed_filter(config: SourceConfig, what: str) -> Callable[[Tool], bool]:
    """Which tools of a source that lists its tools are wanted: every key of `include` must agree, and one of `exclude` is enough to leave
    one out. Globs are on the source's own names (the origins). Raises `ConfigError`; `what` the source is, with an article."""
    for option, given in (("include", config.include), ("exclude", config.exclude)):
        where = f"sources.{config.name}.{option}"
        for key, values in given.items():
            if key not in {"operations", "effects"}:
                raise ConfigError(
                    f"`{key}` does not apply to {what}", where=where, suggestion="use operations or effects"
                )
            if key == "effects" and (wrong := [value for value in values if value not in set(Effect)]):
                raise ConfigError(f"{wrong[0]!r} is not read, write or destructive", where=f"{where}.{key}")

    def fits(key: str, values: tuple[str, ...], tool: Tool) -> bool:
        return tool.effect in values if key == "effects" else any(fnmatchcase(tool.origin, glob) for glob in values)

    def wanted(tool: Tool) -> bool:
        included = all(fits(key, values, tool) for key, values in config.include.items())
        return included and not any(fits(key, values, tool) for key, values in config.exclude.items())

    return wanted
