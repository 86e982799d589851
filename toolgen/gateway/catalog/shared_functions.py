"""Functions that became tools at run time, shared with other gateways, which make the same tools of them."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Iterable, Mapping

import msgspec

from toolgen.config.settings import Settings
from toolgen.connectors.functions.signature import imported
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.gateway.catalog.tool_overlay import Added, Overlay, ToolOverrides, added_tool
from toolgen.model.manifest import Manifest
from toolgen.model.names import ADDED, join
from toolgen.model.tool import Tool
from toolgen.state.tool_changes import AddedTool, ToolChanges

__all__ = ["SharedFunctions"]

_IMPORT_S = 60.0


class SharedFunctions:
    """Sharing of functions. Only functions in a package of one of the project's own `python:` sources are shared with others, and imported
    on behalf of others: an attacker with write access to the shared state can choose among functions of the project, but run no other code.
    The imported function must make the tool with the shared digest. `prefix` begins the names of the tools."""

    def __init__(self, settings: Settings, *, in_process: bool) -> None:
        sources = [source.config for source in settings.sources.values()]
        self._roots = {
            one.location.partition(":")[0].partition(".")[0]: one.root
            for one in sources
            if CONNECTORS[one.kind].runs_functions and not one.resource
        }
        bare = in_process and all(one.prefix == "none" for one in sources)
        self._prefix = "" if bare else join(ADDED, "")
        self._is_taken = ADDED in settings.sources
        self._made: dict[str, Added] = {}

    @property
    def prefix(self) -> str:
        """Raise `ConfigError` if the project has a source with this name."""
        if self._is_taken:
            raise ConfigError(f"the project has a source named {ADDED}, which is reserved", suggestion="rename it")
        return self._prefix

    def entry(self, function: object, tool: Tool, said: ToolOverrides, now: float) -> AddedTool | None:
        """Return the entry that lets other processes load a function; None if they could not."""
        if not inspect.isfunction(function):
            return None
        module, name = function.__module__, function.__name__
        if module.partition(".")[0] not in self._roots or getattr(sys.modules.get(module), name, None) is not function:
            return None
        return AddedTool(
            name=tool.name,
            module=module,
            function=name,
            digest=tool.digest,
            effect=said.effect,
            title=said.title,
            description=said.description,
            since=now,
        )

    @staticmethod
    def known(shared: ToolChanges | None, name: str) -> AddedTool | None:
        """Return the shared entry of the tool with this name."""
        return next((one for one in shared.added if one.name == name), None) if shared is not None else None

    @staticmethod
    def with_one(shared: ToolChanges, entry: AddedTool) -> ToolChanges:
        """Return the shared entries with one more. Raises `ConfigError` if another tool took its name meanwhile."""
        known = next((one for one in shared.added if one.name == entry.name), None)
        if known is not None and known.digest == entry.digest:
            return shared
        if known is not None:
            raise ConfigError(f"another gateway added a tool {entry.name} meanwhile")
        return msgspec.structs.replace(shared, added=(*shared.added, entry))

    def keep(self, added: Added) -> None:
        """Use this function for its digest, even if its module changes."""
        self._made[added.tool.digest] = added

    async def load(self, entries: Iterable[AddedTool]) -> tuple[dict[str, Added], dict[str, str]]:
        """Return the tools, by name, that others added, and the reasons why some are missing."""
        found: dict[str, Added] = {}
        faults: dict[str, str] = {}
        for entry in entries:
            try:
                if entry.digest not in self._made:
                    async with asyncio.timeout(_IMPORT_S):
                        self._made[entry.digest] = await asyncio.to_thread(self._make, entry)
                found[entry.name] = self._made[entry.digest]
            except (ConfigError, DescriptionError) as error:
                faults[entry.name] = f"{entry.name} is not there: {error.message}"
            except TimeoutError:
                faults[entry.name] = f"{entry.name} is not there: its module was not imported within {_IMPORT_S:g} s"
        return found, faults

    async def overlay(
        self, shared: ToolChanges, built: Manifest, mine: Mapping[str, Added]
    ) -> tuple[Overlay, dict[str, str]]:
        """Return the changes by other processes and by this one to a built catalog, and by tool why some cannot be applied."""
        added, faults = await self.load(shared.added)
        faults |= {name: f"{name} was added here and elsewhere" for name in added.keys() & mine.keys()}
        overlay = Overlay(added={**added, **mine}, removed=frozenset(one.name for one in shared.removed))
        taken = overlay.clashes(built)
        faults |= {name: f"{name} has the name of a tool that was built" for name in taken}
        return overlay.without(taken), faults

    def _make(self, entry: AddedTool) -> Added:
        prefix, root = self.prefix, self._roots.get(entry.module.partition(".")[0])
        if root is None:
            raise ConfigError(f"{entry.module} is not in a package of a `python:` source")
        function = getattr(imported(entry.module, root), entry.function, None)
        if not inspect.isfunction(function) or function.__module__ != entry.module:
            raise ConfigError(f"{entry.module} has no function {entry.function} of its own")
        local = entry.name.removeprefix(prefix)
        said = ToolOverrides(name=local, effect=entry.effect, title=entry.title, description=entry.description)
        added = added_tool(function, said, prefix)
        if added.tool.digest != entry.digest or added.tool.name != entry.name:
            raise ConfigError(f"{entry.module}.{entry.function} is not the function that was added")
        return added
