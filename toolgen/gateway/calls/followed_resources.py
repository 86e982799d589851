"""Subscriptions to resources of other systems: each resource is followed once while a client of this process listens to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from msgspec import Struct, field

from toolgen.connectors.executor import Executor, FollowsResources, ResourceNotice
from toolgen.core.background import cancel
from toolgen.core.errors import AuditError
from toolgen.gateway.calls.context_policy import Reader
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Call, Principal

__all__ = ["FollowedResources", "Following"]

_MAX_FOLLOWED = 4096
_SETTLING_S = 2.0
_NOBODY = Principal(id="subscriptions")
"""Caller for a system whose credentials are the same for all."""
_Key = tuple[str, str, str, str]


class _Followed(Struct):
    """Resource that is followed, and the number of its listeners. `settled` is set once its system tells of changes, or it is known that it
    does not."""

    settled: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    listeners: int = 1


class Following:
    """Resources that one listener has followed, by `hold` and `release` of each."""

    def __init__(
        self,
        wanted: Callable[[str], Iterator[tuple[_Key, Call]]],
        hold: Callable[[_Key, Call], _Followed | None],
        release: Callable[[_Key], None],
    ) -> None:
        self._wanted, self._hold, self._release = wanted, hold, release
        self._held: dict[_Key, _Followed] = {}

    def follow(self, uris: Collection[str]) -> None:
        """Take the canonical URIs that the listener wants, again whenever they change."""
        wanted = {key: call for uri in uris for key, call in self._wanted(uri)}
        for key in self._held.keys() - wanted.keys():
            del self._held[key]
            self._release(key)
        for key in wanted.keys() - self._held.keys():
            if (found := self._hold(key, wanted[key])) is not None:
                self._held[key] = found

    async def settled(self) -> None:
        """Wait for a moment until the systems tell of changes of these resources, or it is known that they do not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLING_S):
                for one in tuple(self._held.values()):
                    await one.settled.wait()


class FollowedResources:
    """Resources that are followed at their systems. `systems` has the executors in force, `record` makes an entry durable and raises
    `AuditError`; `updates` gets the changes."""

    def __init__(
        self,
        current: CurrentPolicy,
        systems: Callable[[], Mapping[str, Executor]],
        updates: ResourceUpdates,
        record: Callable[[Mapping[str, Any]], Awaitable[object]],
    ) -> None:
        self._current, self._systems, self._updates, self._record = current, systems, updates, record
        self._followed: dict[_Key, _Followed] = {}

    @contextmanager
    def following(self, principal: Principal) -> Iterator[Following]:
        """Follow the resources that a principal listens to, as far as it may read them, to the end of the block."""
        following = Following(
            partial(self._wanted, principal), lambda key, call: self._hold(key, call, principal), self._release
        )
        try:
            yield following
        finally:
            following.follow(())

    async def close(self) -> None:
        """End all subscriptions."""
        await cancel(*(one.task for one in self._followed.values() if one.task is not None))

    def _wanted(self, principal: Principal, uri: str) -> Iterator[tuple[_Key, Call]]:
        """Yield the read of a resource that another system may report changes of. Callers with the same credentials there share one."""
        context = self._current.compiled_policy.context
        resource = context.resource_of(uri)
        if resource is None or not context.sees_uri(principal, uri):
            return
        source = resource.source
        if not isinstance(self._systems().get(source), FollowsResources):
            return
        who = _NOBODY if self._current.assigned(source, principal) is None else principal
        call = context.followed_call(uri, Reader(principal=who))
        if call is not None:
            yield (source, uri, who.id, "" if who.on_behalf_of is None else who.on_behalf_of.id), call

    def _hold(self, key: _Key, call: Call, principal: Principal) -> _Followed | None:
        if (found := self._followed.get(key)) is not None:
            found.listeners += 1
            return found
        if len(self._followed) >= _MAX_FOLLOWED:
            return None
        found = self._followed[key] = _Followed()
        found.task = asyncio.create_task(self._follow(key, call, principal, found.settled))
        found.task.add_done_callback(lambda _: found.settled.set())
        return found

    def _release(self, key: _Key) -> None:
        found = self._followed[key]
        found.listeners -= 1
        if not found.listeners:
            del self._followed[key]
            if found.task is not None:
                found.task.cancel()

    async def _follow(self, key: _Key, call: Call, principal: Principal, settled: asyncio.Event) -> None:
        """Follow a resource. What cannot be recorded is not followed."""
        source, uri, *_ = key
        executor: object = self._systems().get(source)
        entry = {
            "event": "subscription",
            "principal": principal.id,
            "on_behalf_of": "" if principal.on_behalf_of is None else principal.on_behalf_of.id,
            "tool": call.tool.name,
            "tool_digest": call.tool.digest,
            "arguments": {"uri": uri},
        }
        try:
            await self._record(entry)
        except AuditError:
            return
        if isinstance(executor, FollowsResources):
            await executor.follow(call, partial(self._noticed, source, uri, settled))

    def _noticed(self, source: str, uri: str, settled: asyncio.Event, notice: ResourceNotice) -> None:
        match notice.kind:
            case "updated":
                self._updates.put_here(uri)
            case "settled":
                settled.set()
            case _:
                self._updates.list_changed(source, notice.kind)
