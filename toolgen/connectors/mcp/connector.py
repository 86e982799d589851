"""MCP servers that are bridged: reading of their pinned listings, and calls of their tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.executor import Executor, Permit
from toolgen.connectors.locations import check_remote, last_step
from toolgen.connectors.mcp.registry_reference import RegistryReference
from toolgen.connectors.mcp.settings import SourceMcpKeys, read_server
from toolgen.connectors.original import Original
from toolgen.connectors.source import Fetched, SourceConfig, SourceReading, SourceSettings
from toolgen.connectors.source_entry import ConfiguredSource, SourceEntry
from toolgen.core.errors import ConfigError
from toolgen.model.binding_change import BindingChange
from toolgen.model.manifest import SourceInfo
from toolgen.model.mcp import ServerTools, write_listing
from toolgen.model.tool import Tool

__all__ = ["McpConnector"]

_LISTING = "tools.json"


class McpConnector(Connector):
    """Connector of `mcp:`."""

    kind = "mcp"
    keys = SourceMcpKeys
    bindings = frozenset({"mcp", "mcp_context"})
    free_headers = True
    networked = True
    needs_root = True
    lists_tools = True
    own_keys = frozenset({"trace"})
    failure_keys = frozenset({"timeouts", "retries", "breaker", "concurrency", "answers"})
    failure_advice = "MCP has its own way with this"
    command_keys = frozenset({"timeouts", "answers"})
    command_advice = "a command that breaks is started again, and its calls are not repeated"
    no_proof = "the tool is an MCP server's: its arguments are sent as they are"

    def configure(self, given: Any, entry: SourceEntry) -> ConfiguredSource:
        """Return the settings of a server: its URL, or its command with its environment."""
        server = read_server(given.mcp, entry)
        config: dict[str, Any] = {name: getattr(server, name) for name in ("command", "annotations", "allow", "apps")}
        config |= {"options": server.registered} if server.registered is not None else {}
        return ConfiguredSource(
            location=server.location, auth=entry.auth, config=config, environment=server.environment
        )

    def location(self, given: str, root: Path, where: str) -> str:
        """Return the URL of a server, or its command."""
        if given.startswith(("stdio:", "registry:")):
            return given
        if not given.startswith(("http://", "https://")):
            raise ConfigError("mcp: url: takes an http(s) URL", where=where)
        check_remote(self.kind, given, where)
        return given

    def fetch(self, source: SourceSettings, permit: Permit | None = None) -> Fetched:
        """Ask a server for its tools."""
        from toolgen.connectors.mcp.source_client import listing_of  # noqa: PLC0415 - if there is such a source

        if isinstance(source.config.options, RegistryReference):
            from toolgen.connectors.mcp.registered_source import fetched_listing  # noqa: PLC0415 - as above

            return Fetched(filename=_LISTING, data=fetched_listing(source, source.config.options, permit))
        return Fetched(filename=_LISTING, data=write_listing(listing_of(source, permit)))

    def resolved(self, config: SourceConfig) -> SourceConfig:
        """Return a source of a registry with the command or URL that is pinned."""
        if not isinstance(config.options, RegistryReference) or config.pin is None:
            return config
        from toolgen.connectors.mcp.registered_source import with_pinned  # noqa: PLC0415 - if there is such a source

        return with_pinned(config)

    def unanswered(self) -> Fetched:
        """Return a listing without tools."""
        return Fetched(filename=_LISTING, data=write_listing(ServerTools(server="", version="", tools=())))

    def written(self, location: str) -> dict[str, str]:
        """Return a mapping: a server is a URL or a command."""
        return {"url": location}

    def recognize(self, spec: str, head: Callable[[], bytes]) -> str:
        """Return a URL that ends with /mcp."""
        return spec if spec.startswith(("http://", "https://")) and last_step(spec) == self.kind else ""

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read the pinned listing of a server."""
        from toolgen.connectors.mcp.read import read_mcp  # noqa: PLC0415 - if there is such a source

        return read_mcp(config)

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return the client of a server: over HTTP, or over the pipes of a command."""
        from toolgen.connectors.mcp.source_client import make_client  # noqa: PLC0415 - if there is such a source

        executor = make_client(
            source, context.secrets, context.permit, context.provision, context.commands, context.page_done
        )
        if source.config.command:
            return executor
        from toolgen.connectors.http.source_executor import resilient  # noqa: PLC0415 - a gateway's alone

        return resilient(executor, source)

    def original(self, config: SourceConfig, info: SourceInfo) -> Original:
        """Read the texts of the pinned listing."""
        from toolgen.connectors.mcp.original import listed_texts  # noqa: PLC0415 - for `toolgen lint` alone

        return Original(texts=tuple(listed_texts(Path(config.file))))

    def binding_changes(self, before: Tool, after: Tool) -> Iterator[BindingChange]:
        """Yield the changes of a call to a server."""
        from toolgen.connectors.mcp.binding_changes import server_changes  # noqa: PLC0415 - for a comparison alone

        return server_changes(before, after)
