"""Client of a bridged MCP server as its source describes it: over HTTP, or over the pipes of a command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import Final

from toolgen.connectors.executor import Destination, PageListener, Permit, no_listener
from toolgen.connectors.http.credentials import Provision
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.mcp.command import CommandSpec
from toolgen.connectors.mcp.command_client import CommandClient
from toolgen.connectors.mcp.executor import McpExecutor
from toolgen.connectors.mcp.http import HttpWire
from toolgen.connectors.mcp.stdio import StdioWire
from toolgen.connectors.secrets import SecretResolver
from toolgen.connectors.source import SourceSettings
from toolgen.core.clock import SystemClock
from toolgen.core.errors import DescriptionError
from toolgen.model.mcp import ServerTools
from toolgen.model.result import Failed
from toolgen.model.secret import Secret
from toolgen.model.verdict import Allow, Verdict

__all__ = ["SUBJECT_TOKEN", "command_spec", "listing_of", "make_client"]

_OTHERS_TOKENS = frozenset({"refresh_token", "subject_token", "account"})
SUBJECT_TOKEN: Final = "TOOLGEN_SUBJECT_TOKEN"  # noqa: S105 - a name
"""Environment variable with the token of the person who builds, for servers that take exchanged tokens alone."""


def command_spec(source: SourceSettings) -> CommandSpec:
    """Return how the command of a server is started."""
    config = source.config
    return CommandSpec(
        source=config.name,
        words=config.command,
        folder=config.root,
        environment=source.environment,
        largest=source.resilience.largest,
    )


def listing_of(source: SourceSettings, permit: Permit | None = None) -> ServerTools:
    """Return the current tools of a server. The operator asks: without `permit` every connection is allowed, and direct.

    A token is requested where the gateway itself is the client (client credentials, the assertion of a workload). A refresh token is left
    alone, because a service may replace it, and only the gateway stores that. The token of a caller is exchanged if the person who builds
    gives theirs in the environment. Raises `DescriptionError`.
    """

    async def ask() -> ServerTools | Failed:
        allowed = permit or _allowed
        secrets = SecretResolver(permit=permit)
        grants = OAuthClients(secrets=secrets, permit=allowed, clock=SystemClock(), source=source.config.name)
        given = os.environ.get(SUBJECT_TOKEN, "")
        others = _OTHERS_TOKENS - ({"subject_token"} if given else set())
        own = all(others.isdisjoint(one) for one in source.auth.values() if isinstance(one, Mapping))
        provision = Provision(grants=grants, assigned=lambda _: None) if own else None
        executor = make_client(source, secrets, allowed, provision)
        try:
            return await executor.listing(Secret(given) if given else None)
        finally:
            await executor.close()
            await grants.close()

    found = asyncio.run(ask())
    if isinstance(found, Failed):
        raise DescriptionError(
            f"its tools cannot be listed: {found.error.message}",
            where=f"sources.{source.config.name}.mcp",
            suggestion=found.error.suggestion or "check that it is an MCP server, and that it runs",
        )
    return found


def make_client(
    source: SourceSettings,
    secrets: SecretResolver,
    permit: Permit,
    provision: Provision | None = None,
    commands: CommandClient | None = None,
    page_done: PageListener = no_listener,
) -> McpExecutor:
    """Return the client of a source's server."""
    allow = frozenset[str](source.config.allow)
    config, timeouts, largest = source.config, source.resilience.timeouts, source.resilience.largest
    url = config.endpoint or config.location
    if url.startswith("http"):
        wire = HttpWire(
            url,
            auth=source.auth,
            secrets=secrets,
            permit=permit,
            provision=provision,
            timeouts=timeouts,
            largest=largest,
        )
        sessions = None if commands is None else partial(commands.session, config.name)
        return McpExecutor(
            wire,
            shared=False,
            timeouts=timeouts,
            sessions=sessions,
            allow=allow,
            apps=config.apps,
            traces=source.trace,
            source=config.name,
            page_done=page_done,
        )
    shared = None if commands is None else commands.command(config.name)
    command = StdioWire(command_spec(source), secrets=secrets, timeouts=timeouts, command=shared)
    return McpExecutor(
        command,
        shared=True,
        timeouts=timeouts,
        allow=allow,
        apps=config.apps,
        traces=source.trace,
        source=config.name,
        page_done=page_done,
    )


def _allowed(to: Destination) -> Verdict:
    return Allow(rule="build")
