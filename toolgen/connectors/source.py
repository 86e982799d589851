"""Source of tools: its settings, and the result of reading its description."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from toolgen.connectors.assigned_names import Assignments
from toolgen.connectors.failure_settings import ResilienceConfig
from toolgen.connectors.graphql.options import GraphOptions
from toolgen.connectors.openapi.options import OpenApiOptions
from toolgen.connectors.pins import Pin
from toolgen.connectors.poll_settings import PollConfig
from toolgen.core.errors import ConfigError
from toolgen.model.caller_requests import RequestKind
from toolgen.model.context import Prompt, Resource
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.secret import SecretReference
from toolgen.model.tool import CodeBinding, Effect, OutputForm, Tool

__all__ = [
    "Auth",
    "ContextFiles",
    "Fetched",
    "QueryFiles",
    "SourceConfig",
    "SourceKind",
    "SourceReading",
    "SourceSettings",
    "ToolResource",
    "is_networked",
    "is_remote",
    "listed_filter",
    "password_of",
]

SourceKind: TypeAlias = str
"""Kind of a connector in `connectors/registry.py`."""
Auth: TypeAlias = Mapping[str, SecretReference | Mapping[str, Any]]
"""By security scheme: the reference of the one value, or a mapping of OpenAPI-independent names to references and plain settings."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_OPTIONS = GraphOptions()
_NO_API_OPTIONS = OpenApiOptions()


class QueryFiles(Struct, frozen=True, kw_only=True):
    """Files of named queries: a glob below the project's folder, and where toolgen.yaml says it."""

    pattern: str
    root: str
    where: str


class ToolResource(Struct, frozen=True, kw_only=True):
    """Resource, or template of resources, that is read by calls of a tool: `uri` has its arguments, besides the fixed `arguments`. `where`
    is the line that declares it."""

    uri: str
    tool: str
    name: str = ""
    title: str = ""
    description: str = ""
    media_type: str = ""
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    where: str = ""


class ContextFiles(Struct, frozen=True, kw_only=True):
    """Contents of a context source: a glob of prompts below the project's folder, a folder of resources and one of skills ("" for none),
    and resources that tools read."""

    prompts: str = ""
    resources: str = ""
    skills: str = ""
    read_by_tools: tuple[ToolResource, ...] = ()


class SourceConfig(Struct, frozen=True, kw_only=True):
    """Entry of `sources:` in toolgen.yaml, as far as a build needs it; without credentials.

    `location` is a path (already resolved against the project's folder) or a URL; `pin` is the accepted copy of the document at the URL.
    `include` and `exclude` filter by `tags`, `operations` (globs), `methods` and `effects`.
    """

    name: str
    kind: SourceKind
    location: str
    server: str = ""  # openapi: overrides the document's servers
    endpoint: str = ""  # graphql; mcp: the URL that a registry has for the server
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
    options: Struct | None = None  # of the keys that its kind brings (`Connector.keys`)
    context: ContextFiles | None = None  # context: files of prompts, and the folder of resources
    root: str = ""  # python: where modules are looked for first; mcp: where a command is started
    resource: str = ""  # of any kind: the file of a tool resource (`kind: Tool`) that its tools are declared in
    adopted: Literal["", "fastmcp", "langchain"] = ""  # python: whose tools `module:name` are
    prefix: str = ""  # python: "none" for tools that are called as their functions are
    command: tuple[str, ...] = ()  # mcp: a server that is started, and spoken to over its pipes
    annotations: Literal["", "trusted"] = ""  # mcp: whether a tool is as harmless as its server says
    apps: bool = False  # mcp: clients are given apps of the server
    allow: tuple[RequestKind, ...] = ()  # mcp: what the server may request of callers, as far as the policy allows it
    listed_output: OutputForm = ""  # what MCP clients are listed of the output schemas of its tools
    strict_arguments: bool = False  # whether tools that read refuse unknown arguments too
    exact_schema: bool = False  # whether input schemas are listed as they are
    references: Mapping[str, Pin] = field(
        default_factory=lambda: _NOTHING
    )  # what it pulled in when it was accepted, by canonical URL

    @property
    def file(self) -> str:
        """Path from which the description is read: the pinned copy, or what the location names."""
        return str(self.pin.path) if self.pin is not None else self.location


class SourceSettings(Struct, frozen=True, kw_only=True):
    """Settings of a source: the part for a build, and the references of its credentials, which only an executor resolves."""

    config: SourceConfig
    auth: Auth
    resilience: ResilienceConfig = field(default_factory=ResilienceConfig)
    trace: bool = False  # whether its systems are told which trace a call belongs to
    http2: bool = False  # whether its systems are spoken to in HTTP/2
    environment: Mapping[str, SecretReference] = {}  # of a command
    poll: PollConfig | None = None  # how operations are followed that go on behind an answer
    tool_polls: Mapping[str, PollConfig] = field(
        default_factory=dict
    )  # the same of single tools, by their names in a catalog


class Fetched(Struct, frozen=True, kw_only=True):
    """Fetched description. The extension of `filename` tells its format."""

    filename: str
    data: bytes
    url: str = ""  # where it was found in the end, when it was redirected


class SourceReading(Struct, frozen=True, kw_only=True):
    """Result of reading one description. `operations` counts everything in it: tools and skipped operations, each of which has a Problem.

    `identifiers` gives the description's own name (operationId, field) by tool origin. `files` are all files that were read, as path ->
    `sha256:…`; `complete` is True if these are all the files that it refers to. `references` are the remote documents that were used, and
    `wanted` are allowed remote documents that are not pinned, both as canonical URLs. `places` gives `file:line` by tool origin, for tools
    whose description is in a file of its own. `drafts` are tools that are finished
    when the tools of all sources are known. `context` are its prompts and resources.
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
    drafts: Struct | None = None
    context: tuple[Prompt | Resource, ...] = ()


def is_remote(config: SourceConfig) -> bool:
    """Return True if a description is fetched, and so pinned: from a URL, from a command that is started, or by its name in a registry."""
    return config.location.startswith(("http://", "https://", "stdio:", "registry:"))


def is_networked(config: SourceConfig) -> bool:
    """Return True if a build may have to fetch documents for the source."""
    return is_remote(config) or bool(config.refs)


def listed_filter(config: SourceConfig, what: str, others: Collection[str] = ()) -> Callable[[Tool], bool]:
    """Which tools of a source that lists its tools are wanted: every key of `include` must agree, and one of `exclude` is enough to leave
    one out. Globs are on the source's own names (the origins). Raises `ConfigError`; `what` the source is, with an article. Keys of
    `others` say nothing of tools."""
    for option, given in (("include", config.include), ("exclude", config.exclude)):
        where = f"sources.{config.name}.{option}"
        for key, values in given.items():
            if key in others:
                continue
            if key not in {"operations", "effects"}:
                raise ConfigError(
                    f"`{key}` does not apply to {what}", where=where, suggestion="use operations or effects"
                )
            if key == "effects" and (wrong := [value for value in values if value not in set(Effect)]):
                raise ConfigError(f"{wrong[0]!r} is not read, write or destructive", where=f"{where}.{key}")

    def fits(key: str, values: tuple[str, ...], tool: Tool) -> bool:
        return tool.effect in values if key == "effects" else any(fnmatchcase(tool.origin, glob) for glob in values)

    def wanted(tool: Tool) -> bool:
        included = all(fits(key, values, tool) for key, values in config.include.items() if key not in others)
        return included and not any(
            fits(key, values, tool) for key, values in config.exclude.items() if key not in others
        )

    return wanted


def password_of(source: SourceSettings) -> str:
    """The password of a database, for a reader of its schema; "" when it has none. Raises `SecretError` when it cannot be had."""
    reference = source.auth.get("password")
    if not isinstance(reference, SecretReference):
        return ""
    from toolgen.connectors.secrets import SecretResolver  # noqa: PLC0415 - brings asyncio, which reading a project has no use for

    return SecretResolver().resolve(reference).reveal()
