"""MCP servers of the gateway: the one at /mcp, and one for each entry of `gateway.endpoints`; and their instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from toolgen.config.mcp_servers import McpServerSettings
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.gateway.catalog.search_tools import RUN, SEARCH
from toolgen.model.call import ANY_OF, Principal
from toolgen.model.context import Prompt, Resource
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import SourceInfo
from toolgen.model.tool import Tool
from toolgen.model.waiting import GET_CALL_RESULT

__all__ = ["DEFAULT_SERVERS", "McpServers", "Offer", "instructions_of"]

_MAX_LENGTH: Final = 4000
_MAX_SOURCES: Final = 40
_MAX_QUOTED_LENGTH: Final = 500
DEFAULT_SERVERS: Final[Mapping[str, McpServerSettings]] = {"": McpServerSettings()}


class Offer(Struct, frozen=True, kw_only=True):
    """Tools, prompts and resources that a caller may see. `listed` are the names of its listed tools, which may be the search tools."""

    tools: Collection[Tool] = ()
    listed: frozenset[str] = frozenset()
    prompts: Collection[Prompt] = ()
    resources: Collection[Resource] = ()


class McpServers:
    """Servers by the name of their endpoint, "" for that at /mcp. `sources` and `toolsets` are those of the policy and the catalog in
    force."""

    def __init__(
        self,
        servers: Mapping[str, McpServerSettings] = DEFAULT_SERVERS,
        *,
        sources: Callable[[], Mapping[str, SourceInfo]] = dict,
        toolsets: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._servers, self._sources, self._toolsets = servers, sources, toolsets

    def check(self) -> None:
        """Raise `ConfigError` for an endpoint with a toolset that the policy does not have."""
        known = self._toolsets()
        for name, server in self._servers.items():
            for toolset in server.toolsets:
                if toolset not in known:
                    raise ConfigError(
                        f"gateway.endpoints: {name} names the toolset '{toolset}', which the policy does not have"
                        f"{nearest(toolset, tuple(known))}",
                        suggestion="add it under toolsets: of the policy",
                    )

    def settings(self, name: str) -> McpServerSettings:
        """Return the introduction of the server."""
        return self._servers[name]

    def narrowed(self, principal: Principal, name: str) -> Principal | None:
        """Return the principal at an endpoint: it sees only tools of the endpoint's toolsets. None if the endpoint does not exist, or one
        of its toolsets is not in the policy any more."""
        server = self._servers.get(name)
        if server is None or not server.toolsets:
            return None
        known = self._toolsets()
        if any(toolset not in known for toolset in server.toolsets):
            return None
        return replace(principal, toolsets=principal.toolsets | {ANY_OF.join(sorted(server.toolsets))})

    def instructions(self, name: str, offer: Offer) -> str:
        """Return the server's instructions for a caller, "" for none: those of toolgen.yaml, and what the caller may see."""
        own = self._servers[name].instructions
        if own == "":
            return ""
        return bounded("\n\n".join(filter(None, (own, instructions_of(offer, self._sources())))), _MAX_LENGTH)


def instructions_of(offer: Offer, sources: Mapping[str, SourceInfo]) -> str:
    """Return instructions about exactly what a caller may see: its sources with the number of tools, prompts and resources of each, how to
    search long catalogs and read waiting calls, and what bridged servers state about themselves."""
    tools, prompts = _counts(offer.tools), _counts(offer.prompts)
    resources = _counts(offer.resources)
    seen = [name for name in sorted({*tools, *prompts, *resources}) if name in sources]
    if not seen:
        return ""
    lines = []
    for name in islice(seen, _MAX_SOURCES):
        counts = ((tools[name], "tool"), (prompts[name], "prompt"), (resources[name], "resource"))
        said = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count)
        lines.append(f"- {name}: {bounded(sources[name].title, 100)} ({said})")
    if len(seen) > _MAX_SOURCES:
        lines.append(f"- and {len(seen) - _MAX_SOURCES} more")
    parts = ["Sources, whose names begin the names of their tools:\n" + "\n".join(lines)]
    if {SEARCH, RUN} <= offer.listed:
        parts.append(f"The catalog is long: find tools with {SEARCH}, and call them with {RUN}.")
    policy = "A policy decides about every call: a refusal begins with its code and tells you what to do."
    if GET_CALL_RESULT in offer.listed:
        policy += f" Some calls wait for a person; {GET_CALL_RESULT} reads their results."
    parts.append(policy)
    parts += [
        f"{name} describes itself: {bounded(' '.join(said.split()), _MAX_QUOTED_LENGTH)}"
        for name in islice(seen, _MAX_SOURCES)
        if (said := sources[name].instructions)
    ]
    return "\n\n".join(parts)


def _counts(offered: Iterable[Tool | Prompt | Resource]) -> Counter[str]:
    return Counter(one.source for one in offered)
