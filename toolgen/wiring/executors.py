"""Executors of calls, one for each source, and the reader of key sets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.config.settings import SourceSettings
from toolgen.config.tools import ToolSettings, of_tools
from toolgen.connectors.device.executor import DeviceExecutor, DeviceQueue
from toolgen.connectors.error_limit import ErrorLimits
from toolgen.connectors.executor import (
    Destination,
    Executor,
    FileSource,
    InnerCalls,
    LocalApp,
    Permit,
    PollConfig,
    SourcePermit,
)
from toolgen.connectors.functions.declared import load_tools
from toolgen.connectors.functions.executor import FunctionExecutor, FunctionRuntime
from toolgen.connectors.functions.signature import FunctionTool
from toolgen.connectors.graphql.options import DEFAULT_MAX_PAGE
from toolgen.connectors.http.credentials import Provision, SourceCredentials
from toolgen.connectors.http.executor import HttpExecutor, Reader, pieces_of
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.http.request_builder import HttpRequest, repeatable
from toolgen.connectors.http.response import result
from toolgen.connectors.resilience import ResilientExecutor
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.connectors.tool_resource import read_resource
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.generator.callability import check_auth
from toolgen.model.auth_schemes import SCHEMES, with_headers
from toolgen.model.call import Principal
from toolgen.model.excerpt import MAX_MESSAGE_LENGTH
from toolgen.model.manifest import Manifest
from toolgen.model.mcp import ServerTools, write_listing
from toolgen.model.names import ADDED, join
from toolgen.model.result import Failed
from toolgen.model.verdict import Allow, Verdict
from toolgen.wiring.identity_providers import fetch_key_set

if TYPE_CHECKING:
    from toolgen.connectors.graphql.executor import GraphQLExecutor
    from toolgen.connectors.mcp.command import CommandSpec
    from toolgen.connectors.mcp.command_client import CommandClient
    from toolgen.connectors.mcp.command_server import CommandServer
    from toolgen.connectors.mcp.executor import McpExecutor

__all__ = [
    "ExecutorDependencies",
    "headers_of",
    "listing_of",
    "make_command_client",
    "make_command_server",
    "make_executors",
    "make_fetch",
    "make_function_runtime",
    "with_added",
]

_CLOCK = SystemClock()


class ExecutorDependencies(Struct, frozen=True, kw_only=True):
    """Dependencies of executors that a gateway has and a preview does not.

    These are credentials by caller, as the policy in force gives them, a folder of its own, the runtime of its functions, the queue of
    device requests and, in one of several workers, the client for the commands of MCP servers, which another process runs.

    `assigned` is asked with a source and the caller. `inner` makes the calls that calls make. `files` are those that callers may send.
    `apps` are applications of this process, by source.
    """

    assigned: Callable[[str, Principal], Mapping[str, object] | None]
    folder: Path
    clock: Clock
    functions: FunctionRuntime
    commands: CommandClient | None = None
    inner: InnerCalls | None = None
    devices: DeviceQueue | None = None
    files: FileSource | None = None
    apps: Mapping[str, LocalApp] = field(default_factory=dict)


def make_executors(
    sources: Mapping[str, SourceSettings],
    manifest: Manifest,
    permit: SourcePermit,
    dependencies: ExecutorDependencies | None = None,
    tools: tuple[ToolSettings, ...] = (),
) -> Mapping[str, Executor]:
    """The executors of a project, by source. They open nothing before the first call. `tools` is what is said of calls of single tools.

    Raises `ConfigError` for a credential whose security scheme the description does not have, or that no such scheme can show: it would
    never be sent.
    """
    secrets = (
        SecretResolver(permit=permit)
        if dependencies is None
        else SecretResolver(permit=permit, clock=dependencies.clock)
    )
    for name, source in sources.items():
        if source.config.kind != "sql":
            schemes = manifest.sources[name].security_schemes
            check_auth(
                name, source.config.kind, source.auth, schemes, schemes.keys() | with_headers({}, source.auth)[0]
            )
    functions = FunctionRuntime() if dependencies is None else dependencies.functions
    functions.inner = None if dependencies is None else dependencies.inner
    given = of_tools(tools, manifest)
    polls = {name: one.poll for name, one in given.items() if one.poll is not None}
    sources = {name: replace(source, tool_polls=_of_source(name, polls, manifest)) for name, source in sources.items()}
    made = {
        name: _make(
            source,
            manifest,
            secrets,
            partial(permit, source=name),
            _provision(name, secrets, partial(permit, source=name), dependencies),
            functions,
            dependencies,
        )
        for name, source in sources.items()
    }
    limits = {name: _error_limits(source) for name, source in sources.items() if source.config.resource}
    return {name: ErrorLimits(one, limits[name]) if limits.get(name) else one for name, one in made.items()}


def _of_source(source: str, polls: Mapping[str, PollConfig], manifest: Manifest) -> Mapping[str, PollConfig]:
    return {name: one for name, one in polls.items() if manifest.tools[name].source == source}


def _error_limits(source: SourceSettings) -> Mapping[str, int]:
    """Return the maximum length of error messages for the tools of a resource, if it is below the default."""
    name = source.config.name
    exports = read_resource(Path(source.config.resource), name).exports
    limits = {join(name, export.name): export.error_message_limit for export in exports}
    return {tool: limit for tool, limit in limits.items() if limit < MAX_MESSAGE_LENGTH}


def _provision(
    source: str, secrets: SecretResolver, permit: Permit, dependencies: ExecutorDependencies | None
) -> Provision | None:
    if dependencies is None:
        return None
    grants = OAuthClients(
        secrets=secrets, permit=permit, clock=dependencies.clock, source=source, folder=dependencies.folder
    )
    return Provision(grants=grants, assigned=partial(dependencies.assigned, source))


def make_function_runtime(folder: Path | None = None) -> FunctionRuntime:
    """Return the runtime for the functions of one gateway, with the folders of calls below `folder`. It starts at the first call."""
    return FunctionRuntime(folder=folder)


def with_added(
    executors: Mapping[str, Executor], offers: Mapping[str, FunctionTool], functions: FunctionRuntime
) -> Mapping[str, Executor]:
    """Return the executors with one added for the functions that a program gave, by the names in their bindings."""
    return {**executors, ADDED: FunctionExecutor("", "", functions, lambda: offers)} if offers else executors


def make_command_server(sources: Mapping[str, SourceSettings]) -> CommandServer:
    """Return the server that runs the commands of MCP servers for several workers. Each is started when a worker needs it."""
    from toolgen.connectors.mcp.command_server import CommandServer  # noqa: PLC0415 - where there is such a source

    return CommandServer(_spec(source) for source in sources.values() if source.config.command)


def make_command_client(descriptor: int) -> CommandClient:
    """A worker's way to it, over the socket with this descriptor."""
    from toolgen.connectors.mcp.command_client import CommandClient  # noqa: PLC0415 - where there is such a source

    return CommandClient(descriptor)


def make_fetch(permit: Permit) -> Callable[[str, int], Awaitable[bytes]]:
    """Return the function that reads the keys of identity providers, given a URL or an absolute path and a size limit in bytes.

    It raises `OSError`.
    """
    return partial(fetch_key_set, permit=permit)


def _make(
    source: SourceSettings,
    manifest: Manifest,
    secrets: SecretResolver,
    permit: Permit,
    provision: Provision | None,
    functions: FunctionRuntime,
    dependencies: ExecutorDependencies | None,
) -> Executor:
    config = source.config
    files = None if dependencies is None else dependencies.files
    match config.kind:
        case "openapi":
            http = partial(_http, source, manifest, secrets, permit, provision, dependencies)
            return _polling(source, manifest, http)
        case "graphql":
            return _resilient(_graphql(source, manifest, secrets, permit, provision, files), source)
        case "sql":
            password = source.auth.get("password")
            reference = password if isinstance(password, SecretReference) else None
            from toolgen.connectors.sql.execution.executor import SqlExecutor  # noqa: PLC0415 - where there is such a source

            return SqlExecutor(config.location, password=reference, secrets=secrets, permit=permit)
        case "python":
            load = partial(
                load_tools,
                config.location,
                config.root,
                config.name,
                framework=config.adopted,
                resource=config.resource,
            )
            return FunctionExecutor(config.location, config.root, functions, load)
        case "mcp":
            mcp = _mcp(source, secrets, permit, provision, None if dependencies is None else dependencies.commands)
            return mcp if config.command else _resilient(mcp, source)
        case "workflow":
            from toolgen.connectors.workflow.executor import WorkflowExecutor  # noqa: PLC0415 - where there is such a source

            return (
                WorkflowExecutor(None)
                if dependencies is None
                else WorkflowExecutor(dependencies.inner, clock=dependencies.clock)
            )
        case "device":
            return DeviceExecutor(None if dependencies is None else dependencies.devices)
        case "code":
            return _code(config.name, dependencies)
        case _:
            assert_never(config.kind)


def _code(source: str, dependencies: ExecutorDependencies | None) -> Executor:
    if find_spec("pydantic_monty") is None:
        raise ConfigError(
            "code: needs its sandbox",
            where=f"sources.{source}.code",
            suggestion='install it with: pip install "toolgen[code]"',
        )
    from toolgen.connectors.functions.code.executor import CodeExecutor  # noqa: PLC0415 - where there is such a source

    return CodeExecutor(None if dependencies is None else dependencies.inner)


def _http(
    source: SourceSettings,
    manifest: Manifest,
    secrets: SecretResolver,
    permit: Permit,
    provision: Provision | None,
    dependencies: ExecutorDependencies | None,
    reader: Reader = result,
) -> HttpExecutor:
    known, auth = with_headers(manifest.sources[source.config.name].security_schemes, source.auth)
    return HttpExecutor(
        schemes=known,
        auth=auth,
        secrets=secrets,
        permit=permit,
        provision=provision,
        timeouts=source.resilience.timeouts,
        key_header=source.resilience.key_header,
        traces=source.trace,
        http2=source.http2,
        largest=source.resilience.largest,
        listen=pieces_of,
        reader=reader,
        files=None if dependencies is None else dependencies.files,
        downloads=True,
        app=None if dependencies is None else dependencies.apps.get(source.config.name),
    )


def _polling(source: SourceSettings, manifest: Manifest, make: Callable[..., HttpExecutor]) -> Executor:
    """Return an executor that polls the operations of a source, if toolgen.yaml configures polling for it or for any of its tools."""
    followed = [one for one in (source.poll, *source.tool_polls.values()) if one is not None and one.url]
    if not followed:
        return _resilient(make(), source)
    from toolgen.connectors.http.polling import PollingExecutor, reader_for  # noqa: PLC0415 - where anything is followed

    schemes = manifest.sources[source.config.name].security_schemes.values()
    hidden = frozenset(one.name for one in schemes if one.type == "apiKey" and one.in_ == "query")
    inner = _resilient(make(reader_for(followed)), source)
    return PollingExecutor(inner, default=source.poll, polls=source.tool_polls, hidden=hidden)


def _graphql(
    source: SourceSettings,
    manifest: Manifest,
    secrets: SecretResolver,
    permit: Permit,
    provision: Provision | None,
    files: FileSource | None,
) -> GraphQLExecutor:
    from toolgen.connectors.graphql.executor import GraphQLExecutor  # noqa: PLC0415 - where there is such a source

    info = manifest.sources[source.config.name]
    return GraphQLExecutor(
        schemes=info.security_schemes,
        auth=source.auth,
        secrets=secrets,
        permit=permit,
        graph=info.graph,
        max_page=source.config.graph.max_page or DEFAULT_MAX_PAGE,
        timeouts=source.resilience.timeouts,
        key_header=source.resilience.key_header,
        traces=source.trace,
        http2=source.http2,
        largest=source.resilience.largest,
        provision=provision,
        files=files,
    )


def _mcp(
    source: SourceSettings,
    secrets: SecretResolver,
    permit: Permit,
    provision: Provision | None = None,
    commands: CommandClient | None = None,
) -> McpExecutor:
    from toolgen.connectors.mcp.executor import McpExecutor  # noqa: PLC0415 - where there is such a source
    from toolgen.connectors.mcp.http import HttpWire  # noqa: PLC0415
    from toolgen.connectors.mcp.stdio import StdioWire  # noqa: PLC0415

    config, timeouts, largest = source.config, source.resilience.timeouts, source.resilience.largest
    if config.location.startswith("http"):
        wire = HttpWire(
            config.location,
            auth=source.auth,
            secrets=secrets,
            permit=permit,
            provision=provision,
            timeouts=timeouts,
            largest=largest,
        )
        sessions = None if commands is None else partial(commands.session, config.name)
        return McpExecutor(wire, shared=False, timeouts=timeouts, sessions=sessions)
    shared = None if commands is None else commands.command(config.name)
    command = StdioWire(_spec(source), secrets=secrets, timeouts=timeouts, command=shared)
    return McpExecutor(command, shared=True, timeouts=timeouts)


def _spec(source: SourceSettings) -> CommandSpec:
    from toolgen.connectors.mcp.command import CommandSpec  # noqa: PLC0415 - where there is such a source

    config = source.config
    return CommandSpec(
        source=config.name,
        words=config.command,
        folder=config.root,
        environment=source.environment,
        largest=source.resilience.largest,
    )


def listing_of(source: SourceSettings) -> bytes:
    """Return the current tools of an MCP server in the pinned form. The operator asks, so no policy applies.

    Raises `DescriptionError`.
    """

    async def ask() -> ServerTools | Failed:
        executor = _mcp(source, SecretResolver(), _allowed)
        try:
            return await executor.listing()
        finally:
            await executor.close()

    found = asyncio.run(ask())
    if isinstance(found, Failed):
        raise DescriptionError(
            f"its tools cannot be listed: {found.error.message}",
            where=f"sources.{source.config.name}.mcp",
            suggestion=found.error.suggestion or "check that it is an MCP server, and that it runs",
        )
    return write_listing(found)


def _allowed(to: Destination) -> Verdict:
    return Allow(rule="build")


def _resilient(inner: Executor, source: SourceSettings) -> Executor:
    resilience = source.resilience
    return ResilientExecutor(
        inner,
        resilience=resilience,
        repeatable=lambda call: repeatable(call, resilience.key_header),
        source=source.config.name,
        clock=_CLOCK,
    )


def headers_of(source: SourceSettings) -> Mapping[str, str]:
    """The headers that the calls of a GraphQL source show its credentials in. Raises `SecretError`."""
    schemes, auth = with_headers(SCHEMES, source.auth)
    credentials = SourceCredentials(schemes=schemes, auth=auth, secrets=SecretResolver())
    asked = HttpRequest(method="POST", url=source.config.location, headers=(), body=None)
    signed = asyncio.run(credentials.sign(asked, credentials.choose((tuple(sorted(auth)),) if auth else ())))
    return dict(signed.request.headers)
