"""Executors of calls, one for each source: of a project, and of a catalog that is reloaded while calls run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.config.tools import ToolSettings, of_tools
from toolgen.connectors.base import ExecutorContext
from toolgen.connectors.device.executor import DeviceQueue
from toolgen.connectors.error_limit import ErrorLimits
from toolgen.connectors.executor import (
    Executor,
    FileSource,
    InnerCalls,
    LocalApp,
    PageListener,
    Permit,
    SourcePermit,
    no_listener,
)
from toolgen.connectors.functions.executor import FunctionExecutor, FunctionRuntime
from toolgen.connectors.functions.signature import FunctionTool, forget
from toolgen.connectors.http.credentials import Provision
from toolgen.connectors.http.oauth.account_tokens import AccountTokens
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.poll_settings import PollConfig
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.secrets import SecretResolver
from toolgen.connectors.source import SourceSettings
from toolgen.connectors.tool_resource import read_resource
from toolgen.core.clock import Clock
from toolgen.generator.credentials import check_auth
from toolgen.model.auth_schemes import with_headers
from toolgen.model.call import Principal
from toolgen.model.excerpt import MAX_MESSAGE_LENGTH
from toolgen.model.manifest import Manifest
from toolgen.model.names import ADDED, join

if TYPE_CHECKING:
    from toolgen.connectors.mcp.command_client import CommandClient as CommandClient  # noqa: PLC0414 - exported
    from toolgen.connectors.mcp.command_server import CommandServer

__all__ = [
    "ExecutorDependencies",
    "Renewed",
    "make_command_client",
    "make_command_server",
    "make_executors",
    "make_function_runtime",
    "renewed_executors",
    "with_added",
]


class ExecutorDependencies(Struct, frozen=True, kw_only=True):
    """Dependencies of executors that a gateway has and a preview does not: credentials by caller under the policy in force, a folder, the
    runtime of functions, the queue of device requests and, with several workers, the client for commands of MCP servers, which another
    process runs.

    `assigned` returns the credential of a caller for a source. `inner` makes inner calls. `files` are those that callers may send.
    `accounts` has the tokens of callers' own accounts, by source, and `apps` applications of this process. `page_done` hears of web pages
    that are done.
    """

    assigned: Callable[[str, Principal], Mapping[str, object] | None]
    folder: Path
    clock: Clock
    functions: FunctionRuntime
    commands: CommandClient | None = None
    inner: InnerCalls | None = None
    devices: DeviceQueue | None = None
    files: FileSource | None = None
    accounts: Callable[[str], AccountTokens | None] = lambda _: None
    apps: Mapping[str, LocalApp] = field(default_factory=dict)
    page_done: PageListener = no_listener


def make_executors(
    sources: Mapping[str, SourceSettings],
    manifest: Manifest,
    permit: SourcePermit,
    dependencies: ExecutorDependencies | None = None,
    tools: tuple[ToolSettings, ...] = (),
) -> Mapping[str, Executor]:
    """Make the executors of a project, by source. They open nothing before the first call. `tools` has the settings of single tools.

    Raises `ConfigError` for a credential that would never be sent: its security scheme is not in the description, or cannot carry it.
    """
    secrets = (
        SecretResolver(permit=permit)
        if dependencies is None
        else SecretResolver(permit=permit, clock=dependencies.clock)
    )
    for name, source in sources.items():
        if CONNECTORS[source.config.kind].names_schemes:
            schemes = manifest.sources[name].security_schemes
            check_auth(
                name, source.config.kind, source.auth, schemes, schemes.keys() | with_headers({}, source.auth)[0]
            )
    functions = FunctionRuntime() if dependencies is None else dependencies.functions
    given = of_tools(tools, manifest)
    polls = {name: one.poll for name, one in given.items() if one.poll is not None}
    sources = {name: replace(source, tool_polls=_of_source(name, polls, manifest)) for name, source in sources.items()}
    made = {
        name: CONNECTORS[source.config.kind].make_executor(
            source, _context(name, manifest, secrets, partial(permit, source=name), functions, dependencies)
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


def _context(
    source: str,
    manifest: Manifest,
    secrets: SecretResolver,
    permit: Permit,
    functions: FunctionRuntime,
    dependencies: ExecutorDependencies | None,
) -> ExecutorContext:
    info = manifest.sources[source]
    if dependencies is None:
        return ExecutorContext(info=info, secrets=secrets, permit=permit, functions=functions)
    grants = OAuthClients(
        secrets=secrets, permit=permit, clock=dependencies.clock, source=source, folder=dependencies.folder
    )
    return ExecutorContext(
        info=info,
        secrets=secrets,
        permit=permit,
        functions=functions,
        clock=dependencies.clock,
        provision=Provision(
            grants=grants, assigned=partial(dependencies.assigned, source), accounts=dependencies.accounts(source)
        ),
        commands=dependencies.commands,
        inner=dependencies.inner,
        devices=dependencies.devices,
        files=dependencies.files,
        app=dependencies.apps.get(source),
        page_done=dependencies.page_done,
    )


def make_function_runtime(
    folder: Path | None = None,
    inner: InnerCalls | None = None,
    resource_updated: Callable[[str], None] | None = None,
) -> FunctionRuntime:
    """Return the runtime for the functions of one gateway, with the folders of calls below `folder`. It starts at the first call. `inner`
    makes the calls of functions to other tools, and `resource_updated` gets the URI of a changed resource."""
    return FunctionRuntime(folder=folder, inner=inner, resource_updated=resource_updated)


def with_added(
    executors: Mapping[str, Executor], offers: Mapping[str, FunctionTool], functions: FunctionRuntime
) -> Mapping[str, Executor]:
    """Return the executors with one added for the functions that a program added, by the names in their bindings."""
    return {**executors, ADDED: FunctionExecutor("", "", functions, lambda: offers)} if offers else executors


def make_command_server(sources: Mapping[str, SourceSettings]) -> CommandServer:
    """Return the server that runs the commands of MCP servers for several workers. Each is started when a worker needs it."""
    from toolgen.connectors.mcp.command_server import CommandServer  # noqa: PLC0415 - where there is such a source
    from toolgen.connectors.mcp.source_client import command_spec  # noqa: PLC0415

    return CommandServer(command_spec(source) for source in sources.values() if source.config.command)


def make_command_client(descriptor: int) -> CommandClient:
    """Return a worker's client for that server, over the socket with this descriptor."""
    from toolgen.connectors.mcp.command_client import CommandClient  # noqa: PLC0415 - where there is such a source

    return CommandClient(descriptor)


class Renewed(Struct, frozen=True, kw_only=True):
    """Executors after a reload, and those that are no longer needed. Call `begin` just before they are put in force: functions whose source
    changed are then imported again at their next call."""

    by_source: Mapping[str, Executor]
    left: tuple[Executor, ...]
    begin: Callable[[], None]


def renewed_executors(
    made: Mapping[str, Executor], known: Mapping[str, Executor], before: Manifest, after: Manifest
) -> Renewed:
    """Return the executors of another catalog of the same project: those `made` for it if a source has changed, otherwise the known
    ones."""
    changed = {
        name for name, info in after.sources.items() if CONNECTORS[info.kind].renewable and before.sources[name] != info
    }
    bindings = (tool.binding for tool in (*before.tools.values(), *after.tools.values()) if tool.source in changed)
    modules = {one.module.partition(":")[0] for one in bindings if one.module}
    return Renewed(
        by_source={name: made[name] if name in changed else known[name] for name in known},
        # All of them share the runtime of functions, which is not stopped.
        left=tuple(
            known[name] for name in sorted(changed) if not CONNECTORS[after.sources[name].kind].shares_executors
        ),
        begin=lambda: forget(modules),
    )
