"""Catalog in force: read again when a build has written another, and put in force as a whole if it can be used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec.structs import replace

from toolgen.connectors.executor import Executor
from toolgen.connectors.functions.signature import FunctionTool
from toolgen.core.background import Background, cancel
from toolgen.core.errors import ToolgenError
from toolgen.gateway.calls.executors import Renewed
from toolgen.gateway.catalog.search.hybrid import SemanticSearch
from toolgen.gateway.catalog.served_catalog import as_served, built_catalog
from toolgen.gateway.catalog.tool_overlay import Overlay
from toolgen.gateway.catalog.tool_settings import caching_of, fallbacks_of, pagings_of
from toolgen.gateway.policies.compiled_policy import GatewayDependencies
from toolgen.gateway.policies.policy_reloader import INTERVAL_S, PolicyReloader, State, file_states, state_of
from toolgen.generator.emit.diff import compare, lines
from toolgen.model.manifest import Manifest
from toolgen.pipeline.middleware import InFlightCalls

__all__ = ["CatalogReloader"]

_MAX_TOLD = 20
_logger = logging.getLogger(__name__)

Renewal = Callable[[Manifest, Manifest], Renewed]
"""Function that returns the executors of a catalog that replaces another."""
Carried = Callable[[Mapping[str, Executor] | None, Mapping[str, FunctionTool]], Mapping[str, Executor]]
"""Function that returns these executors, or those in force, together with the executor of functions that were added."""


_State = tuple[State, State, bool]
"""State of the built files, the policy, and whether that has been unchanged for long enough."""


class CatalogReloader:
    """Reloader of the output of `toolgen build`. Every worker has its own, so that all follow within a second.

    A catalog that cannot be read, or that the policy does not fit, changes nothing; it is tried again when a file of either changes.
    Executors of an older catalog are closed once no call of `running` needs them. `meaning` searches the tools in force.
    """

    def __init__(
        self,
        policies: PolicyReloader,
        renewed: Renewal,
        carried: Carried,
        running: InFlightCalls,
        meaning: SemanticSearch | None,
    ) -> None:
        self._policies = policies
        self._renewed = renewed
        self._running, self._meaning = running, meaning
        self._carried = carried
        self._changing = asyncio.Lock()
        self.built = policies.runtime.manifest
        """The catalog as it was built, without later additions and removals."""
        self.overlay = Overlay()
        """Tools that were added and removed since the build."""
        self._watching: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.unread = ""
        """The error of the built files while an older catalog is in force."""

    def start(self, background: Background) -> None:
        """Start watching the files."""
        self._watching = background.start("watching the catalog", self._watch)

    async def stop(self) -> None:
        """Stop watching; the catalog in force stays."""
        if self._watching is not None:
            await cancel(self._watching)
        if self._closing:
            await asyncio.wait(self._closing)

    async def reload(self) -> bool:
        """Read the catalog again and put it in force as a whole. Returns False if it cannot be used: then nothing changes.

        Both outcomes are logged and recorded. Tools that were added or removed stay so.
        """
        async with self._changing:
            return await self._reload()

    @property
    def in_force(self) -> Manifest:
        """Return the catalog in force."""
        return self._policies.runtime.manifest

    def policy_state(self) -> object:
        """Return a value that changes when the policy may have become compatible with a new catalog."""
        return state_of(self._policies.runtime.settings.policies), self._policies.loaded

    async def change(self, overlay: Overlay, begin: Callable[[Manifest, Manifest], Awaitable[None]]) -> None:
        """Put added and removed tools in force, in place of the earlier ones. `begin` is called just before, with the catalogs in force
        before and after.

        Raises `ToolgenError` if the policy does not fit, and the errors of `begin`: nothing changes then. An edit that only removes tools
        leaves the policy unchanged.
        """
        async with self._changing:
            overlay.check(self.built)
            before, runtime = self._policies.runtime.manifest, self._runtime(self.built, overlay)
            put = self._policies.narrow if overlay.narrows(self.overlay) else self._policies.adopt
            await put(runtime, lambda: begin(before, runtime.manifest))
            self.overlay = overlay
            self._follow(runtime.manifest)

    async def _reload(self) -> bool:
        runtime = self._policies.runtime
        before, built = runtime.manifest, self.built
        try:
            manifest = await asyncio.to_thread(built_catalog, runtime.settings)
            manifest = None if manifest is None else as_served(runtime.settings, manifest)
            if manifest is None or manifest.digest == built.digest:
                self.unread = ""
                return manifest is not None
            self.overlay.check(manifest)
            made = self._renewed(built, manifest)
            changed = replace(
                self._runtime(manifest, self.overlay, made.by_source),
                caching=caching_of(runtime.settings, manifest, runtime.clock),
                fallbacks=fallbacks_of(runtime.settings, manifest),
                pagings=pagings_of(runtime.settings, manifest),
            )
            await self._policies.adopt(changed, _then(made.begin))
        except Exception as error:  # noqa: BLE001 - also a fault of ours: the next build must still be looked at
            said = str(error) if isinstance(error, ToolgenError) else f"reading it failed ({type(error).__name__})"
            self.unread = f"what was built is not in force: {said}"
            _logger.error("%s", self.unread)  # noqa: TRY400 - the error says all there is to say
            await self._policies.note({"event": "catalog", "status": "error", "arguments": {"in_force": before.digest}})
            return False
        self.built, self.unread = manifest, ""
        self._follow(changed.manifest)
        self._close_later(made.left)
        await self._tell(before, changed.manifest)
        return True

    def _runtime(
        self, built: Manifest, overlay: Overlay, made: Mapping[str, Executor] | None = None
    ) -> GatewayDependencies:
        offers = {one.offer.name: one.offer for one in overlay.added.values()}
        return replace(
            self._policies.runtime,
            manifest=overlay.in_force(built),
            known=overlay.known(built),
            executors=self._carried(made, offers),
        )

    def _follow(self, manifest: Manifest) -> None:
        if self._meaning is not None:
            self._meaning.follow(manifest)

    def _close_later(self, left: tuple[Executor, ...]) -> None:
        """Close the former executors after every call that began under the former catalog has ended."""

        async def close() -> None:
            await self._running.ended()
            for executor in left:
                await executor.close()

        if left:
            task = asyncio.create_task(close(), name="closing the executors of the former catalog")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _tell(self, before: Manifest, after: Manifest) -> None:
        difference = await asyncio.to_thread(compare, before, after)
        told = {status: [one.name for one in difference.tools if one.status == status] for status in _STATUSES}
        counts = {status: len(names) for status, names in told.items() if names}
        said = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no tool differs"
        _logger.warning("the catalog %s is in force (%s)", after.digest, said)
        for line in list(lines(difference))[:_MAX_TOLD]:
            _logger.warning("catalog: %s", line)
        arguments: dict[str, Any] = {"in_force": after.digest, "before": before.digest}
        arguments |= {status: names[:_MAX_TOLD] for status, names in told.items() if names}
        await self._policies.note({"event": "catalog", "status": "ok", "arguments": arguments})

    async def _watch(self) -> None:
        """Watch for changes. A change is read after it has been stable, because a build writes its files one after the other."""
        known = last = (self._policies.state.built, self._policies.state.policies, True)
        while True:
            await asyncio.sleep(INTERVAL_S)
            states = file_states(self._policies.runtime.settings)
            state = (states.built, states.policies, self._policies.settled)
            if state == last and self._concerns(known, state):
                known = state  # a change during the reading is read again
                await self.reload()
            last = state

    def _concerns(self, known: _State, state: _State) -> bool:
        """Return True if another catalog may come into force: one was built, or the policy that prevented it was changed or is settled."""
        return state[0] != known[0] or (bool(self.unread) and state != known)


def _then(begin: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def begun() -> None:
        begin()

    return begun


_STATUSES = ("added", "changed", "renamed", "removed")
