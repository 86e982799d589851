"""Tools that a program adds and removes while its gateway runs: recorded, in force at once here, and soon after in all gateways that share
the state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from toolgen.config.settings import Settings
from toolgen.core.background import Background, FaultLog, cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, ConfigError, PolicyError, StateError, ToolgenError
from toolgen.core.spelling import nearest
from toolgen.gateway.catalog.catalog_reloader import CatalogReloader
from toolgen.gateway.catalog.shared_functions import SharedFunctions
from toolgen.gateway.catalog.tool_overlay import Added, Overlay, ToolOverrides, added_tool
from toolgen.gateway.policies.policy_reloader import INTERVAL_S
from toolgen.gateway.state.shared_state import Shared
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Tool
from toolgen.state.count_connection import StoreUnreachableError
from toolgen.state.pauses import SharedPauses
from toolgen.state.tool_changes import Edit, RemovedTool, ToolChanges, ToolChangesStore

__all__ = ["RuntimeTools", "runtime_tools"]

_MAX_ADDED = 1_000
_logger = logging.getLogger(__name__)
Begin = Callable[[Manifest, Manifest], Awaitable[None]]
"""Function that is called just before another catalog comes into force, with both catalogs."""


class RuntimeTools:
    """`gateway.tools`. An added tool is called `added__name` (in a gateway made of functions, by its own name), and may be called if the
    policy allows that. `is_awaited`: no call begins before these tools are known.

    Removals are shared through `state:` and last until they are undone. An added tool is shared if its function can be imported; another
    gateway has the tool if it can make the same from it (`SharedFunctions`).
    """

    def __init__(
        self,
        catalog: CatalogReloader,
        store: ToolChangesStore,
        functions: SharedFunctions,
        record: Callable[[Mapping[str, Any]], Awaitable[object]],
        policy_state: Callable[[], object],
        clock: Clock,
        *,
        is_awaited: bool = False,
    ) -> None:
        self._catalog, self._store, self._functions = catalog, store, functions
        self._record, self._policy_state, self._clock = record, policy_state, clock
        self._mine: dict[str, Added] = {}  # added in this process only
        self._shared: ToolChanges | None = None
        self._refused: object = None  # policy that did not fit the shared changes
        self._changing = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._is_open, self._is_awaited = False, is_awaited
        self._faults: dict[str, str] = {}  # errors by tool; of the policy under ""
        self.trouble = FaultLog(clock, "tools that others added or removed")

    async def add(
        self, function: object, *, name: str = "", effect: str = "", title: str = "", description: str = ""
    ) -> Tool:
        """Make a tool of a function or method, marked with `@tool` or not (without the mark its effect is write), or add one of FastMCP or
        LangChain. `name`, `effect`, `title` and `description` replace its own.

        Raises `ConfigError` for an object that cannot be a tool and for a name that is in use, `PolicyError` if the policy does not fit,
        `AuditError` and `StateError` if it cannot be recorded or shared: then it is not added.
        """
        said = ToolOverrides(name=name, effect=effect, title=title, description=description)
        added = await asyncio.to_thread(added_tool, function, said, self._functions.prefix)
        tool, entry = added.tool, self._functions.entry(function, added.tool, said, self._clock.now())
        async with self._changing:
            overlay, known = (await self._opened()).overlay, self._functions.known(self._shared, added.tool.name)
            if known is not None and known.digest != tool.digest:
                raise ConfigError(f"another function was added as {tool.name}", suggestion="remove that one first")
            if known is not None and tool.name in overlay.added:
                return overlay.added[tool.name].tool  # added by another gateway, or by this one before it was restarted
            if tool.name in self._catalog.in_force.tools:
                raise ConfigError(f"there is a tool {tool.name} already", suggestion="remove it, or give another name")
            if len(overlay.added) >= _MAX_ADDED:
                raise ConfigError(f"{_MAX_ADDED} tools were added, and no more can be")

            async def begin(before: Manifest, after: Manifest) -> None:
                await self._note("tool_added", tool, before, after, shared=entry is not None)
                if entry is not None and known is None:
                    await self._share("tool_added", tool, before, lambda all_: self._functions.with_one(all_, entry))

            await self._catalog.change(replace(overlay, added={**overlay.added, tool.name: added}), begin)
            if entry is None:
                self._mine[tool.name] = added
            else:
                self._functions.keep(added)
        where = " in this process only" if entry is None else ""
        _logger.warning("the tool %s (%s) was added%s", tool.name, tool.digest, where)
        return tool

    async def remove(self, name: str) -> None:
        """Remove a tool: one that was added, or one of the build, which then stays removed in later builds. Running calls end normally.

        It is removed even if that cannot be recorded. Raises `ConfigError` for an unknown name, `StateError` if it cannot be shared
        (nothing changes then), and `AuditError`.
        """
        async with self._changing:
            overlay, before = (await self._opened()).overlay, self._catalog.in_force
            tool, known = before.tools.get(name), self._functions.known(self._shared, name)
            if tool is None and known is None:
                raise ConfigError(f"there is no tool '{bounded(name, 60)}'{nearest(name, before.tools)}")
            of_build = tool is not None and name not in overlay.added
            own = self._mine.get(name)

            async def begin(_: Manifest, __: Manifest) -> None:
                if own is None:
                    gone = self._removed(tool) if tool is not None and of_build else None
                    self._shared = await self._store.change(lambda all_: _without(all_, name, gone))

            left = {kept: one for kept, one in overlay.added.items() if kept != name}
            removed = overlay.removed | {name} if of_build else overlay.removed
            await self._catalog.change(Overlay(added=left, removed=removed), begin)
            self._mine.pop(name, None)
            self._faults.pop(name, None)
            self._say()
            _logger.warning("the tool %s was removed", name)
            if tool is not None:
                await self._note("tool_removed", tool, before, self._catalog.in_force, shared=own is None)

    async def restore(self, name: str) -> Tool | None:
        """Restore a removed tool of the build, in its current version; returns None if the build does not have it any more.

        Raises `ConfigError` if it is not removed, or if an added tool has its name, and otherwise as `add`.
        """
        async with self._changing:
            overlay, tool = (await self._opened()).overlay, self._catalog.built.tools.get(name)
            if name not in overlay.removed:
                raise ConfigError(f"'{bounded(name, 60)}' is not removed{nearest(name, overlay.removed)}")
            if name in overlay.added:
                raise ConfigError(f"{name} was added meanwhile", suggestion="remove that one first")

            async def begin(before: Manifest, after: Manifest) -> None:
                if tool is not None:
                    await self._note("tool_restored", tool, before, after, shared=True)
                await self._share("tool_restored", tool, before, lambda all_: _restored(all_, name))

            await self._catalog.change(replace(overlay, removed=overlay.removed - {name}), begin)
            _logger.warning("the tool %s is not removed any more", name)
        return tool

    @property
    def removed(self) -> frozenset[str]:
        """Return the names of the removed tools of builds."""
        return self._catalog.overlay.removed

    async def start(self, background: Background) -> None:
        """Start following additions and removals of other gateways. Raises `StateError` as `sync` does."""
        await self.sync()
        self._watching = background.start("following which tools others added", self._watch)

    async def stop(self) -> None:
        """Stop watching; the tools in force stay."""
        self._is_open = False
        if self._watching is not None:
            await cancel(self._watching)

    async def sync(self) -> None:
        """Put the additions and removals of other gateways in force. Raises `StateError` if they cannot be read and calls do not wait for
        them (`is_awaited`)."""
        self._is_open = True
        try:
            async with self._changing:
                await self._synced()
        except StateError:
            if not self._is_awaited:
                raise

    async def known(self) -> None:
        """Wait until additions and removals are known. Raises `StateError` if they are not."""
        if self._shared is None:
            async with self._changing:
                await self._synced()

    async def look(self) -> tuple[str, ...]:
        """Put them in force once, for a command that opens nothing else and records nothing. Returns the reason if some are not; raises
        `StateError` if they cannot be read."""

        async def nobody(before: Manifest, after: Manifest) -> None: ...

        try:
            async with self._changing:
                return tuple((await self._follow(await self._store.read(), nobody)).values())
        finally:
            await self._store.close()

    @property
    def added(self) -> tuple[str, ...]:
        """Return the names of the tools that were added and are in force."""
        return tuple(sorted(self._catalog.overlay.added))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                async with self._changing:
                    await self._synced()
            except StateError as error:
                known = self._shared is not None  # the known state stays in force
                self.trouble.say(str(error), passing=known or isinstance(error.__cause__, StoreUnreachableError))

    async def _opened(self) -> CatalogReloader:
        """Return the current catalog. Raises `ConfigError` if the gateway is not open."""
        if not self._is_open:
            raise ConfigError("the gateway is not open", suggestion="use `async with gateway:`, or `with gateway:`")
        await self._synced()
        return self._catalog

    async def _synced(self) -> None:
        """Put changes of others in force. Impossible ones are left out, reported, and tried again when the policy changes."""
        shared = await self._store.read()
        again = self._refused is not None and self._refused != self._policy_state()
        if shared != self._shared or again:
            self._shared, self._refused = shared, None
            self._faults = await self._follow(shared, self._told)
        self._say()

    def _say(self) -> None:
        if self._faults:
            self.trouble.say("; ".join(self._faults.values()), passing=True)
        else:
            self.trouble.clear()

    async def _follow(self, shared: ToolChanges, tell: Begin) -> dict[str, str]:
        """Put shared changes in force; return the reason if some are not. Removals are always applied."""
        overlay, faults = await self._functions.overlay(shared, self._catalog.built, self._mine)
        before, state = self._catalog.overlay, self._policy_state()
        if overlay == before:
            return faults
        try:
            await self._catalog.change(overlay, tell)
        except ToolgenError as error:
            self._refused = state if isinstance(error, PolicyError) else ()
            kept = {name: one for name, one in before.added.items() if overlay.added.get(name) is one}
            less = Overlay(added=kept, removed=overlay.removed | before.removed)
            if less != before:
                await self._catalog.change(less, tell)
            faults[""] = f"not all are in force: {error}"
        return faults

    async def _told(self, before: Manifest, after: Manifest) -> None:
        """Record changes of others. A tool is added only after that; a removal is applied in any case."""
        old, new = ({(tool.name, tool.digest): tool for tool in one.tools.values()} for one in (before, after))
        for name, digest in sorted(new.keys() - old.keys()):
            code = "tool_restored" if name in self._catalog.built.tools else "tool_added"
            await self._note(code, new[name, digest], before, after, shared=True)
            _logger.warning("another gateway added the tool %s (%s)", name, digest)
        for name, digest in sorted(old.keys() - new.keys()):
            _logger.warning("another gateway removed the tool %s (%s)", name, digest)
            try:
                await self._note("tool_removed", old[name, digest], before, after, shared=True)
            except AuditError:
                _logger.error("the removal of the tool %s is not recorded", name)  # noqa: TRY400 - said elsewhere

    async def _share(self, code: str, tool: Tool | None, before: Manifest, edit: Edit) -> None:
        """Share a recorded change with others; if that fails, the failure is recorded too."""
        try:
            self._shared = await self._store.change(edit)
        except ToolgenError:
            if tool is not None:
                await self._note(code, tool, before, before, shared=True, status="error")
            raise

    def _removed(self, tool: Tool) -> RemovedTool:
        return RemovedTool(name=tool.name, digest=tool.digest, since=self._clock.now())

    async def _note(
        self, code: str, tool: Tool, before: Manifest, after: Manifest, *, shared: bool, status: str = "ok"
    ) -> None:
        about = {"event": "catalog", "status": status, "code": code, "tool": tool.name, "tool_digest": tool.digest}
        arguments = {"before": before.digest, "in_force": after.digest, "shared": shared}
        await self._record({**about, "arguments": arguments})


def runtime_tools(
    catalog: CatalogReloader,
    shared: Shared,
    settings: Settings,
    record: Callable[[Mapping[str, Any]], Awaitable[object]],
    clock: Clock,
    *,
    in_process: bool,
) -> RuntimeTools:
    """Create the runtime tools of a project, or of a gateway made `in_process`. Calls wait until the tools removed elsewhere are known."""
    functions = SharedFunctions(settings, in_process=in_process)
    is_awaited = isinstance(shared.pauses, SharedPauses)
    return RuntimeTools(catalog, shared.tools, functions, record, catalog.policy_state, clock, is_awaited=is_awaited)


def _without(shared: ToolChanges, name: str, gone: RemovedTool | None) -> ToolChanges:
    """Return the shared state without an added tool, or with a removal of a tool of the build."""
    if gone is None:
        return msgspec.structs.replace(shared, added=tuple(one for one in shared.added if one.name != name))
    others = (one for one in shared.removed if one.name != name)
    return msgspec.structs.replace(shared, removed=(*others, gone))


def _restored(shared: ToolChanges, name: str) -> ToolChanges:
    return msgspec.structs.replace(shared, removed=tuple(one for one in shared.removed if one.name != name))
