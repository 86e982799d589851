"""Resources of a server that are followed: one subscription for each, however many callers it has.

In 2025-11-25 a resource is subscribed to (server/resources, Subscriptions), and notices come over the pipe of a command or in the stream
of a session; in 2026-07-28 they come in the answer to one request (basic/utilities/subscriptions).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct, field

from toolgen.connectors.mcp.conversation import Conversation
from toolgen.connectors.mcp.messages import STATELESS, Agreed
from toolgen.connectors.mcp.notices import (
    LISTS,
    LOST,
    SUBSCRIBE,
    UNSUBSCRIBE,
    UPDATED,
    NoticeListener,
    ServerNotice,
    Subscribed,
)
from toolgen.connectors.mcp.server_requests import CallTime
from toolgen.core.background import cancel
from toolgen.model.call import Call, Principal
from toolgen.model.result import Success
from toolgen.model.schema import Json, JsonObject

__all__ = ["PagedWire", "ServerSubscriptions", "StreamingWire", "WatchedWire"]

_MAX_URIS: Final = 256
_AGAIN_S: Final = 1.0
_MAX_AGAIN_S: Final = 60.0
_STEADY_S: Final = 60.0
_OPENING_S: Final = 2.0
_PARTING_S: Final = 5.0


@runtime_checkable
class WatchedWire(Protocol):
    """Wire that gets notifications outside of requests: the pipe of a command."""

    def watch(self, listener: NoticeListener) -> Callable[[], None]:
        """Call a listener for each notification, until the returned function is called."""


@runtime_checkable
class StreamingWire(Protocol):
    """Wire on which notices have a stream of their own."""

    async def follow(
        self, message: JsonObject, agreed: Agreed, call: Call, opened: Callable[[], None], heard: Callable[[Json], None]
    ) -> None:
        """Read notifications until their stream ends: the answer to a request, or without a message that of the session."""


@runtime_checkable
class PagedWire(Protocol):
    """Wire that gets notifications of finished web pages in the streams of calls and sessions.

    A protocol, because the pipe of a command has no sessions, and its notices are those of `WatchedWire`."""

    def watch_pages(self, listener: Callable[[Principal, str], None]) -> None:
        """Call a listener for each finished web page of a caller's session, with the server's id of the page."""

    def keep_stream(self, agreed: Agreed, call: Call) -> None:
        """Keep the stream of the session of a call open for some minutes, for notifications."""


class _FollowedResource(Struct):
    """Resource with the read of it, and its listeners."""

    call: Call
    listeners: list[NoticeListener] = field(default_factory=list)


class ServerSubscriptions:
    """Resources of one server that are followed with one set of credentials. `fits` says if a resource is as it was pinned, and `total_s`
    is the time limit of each request."""

    def __init__(
        self,
        conversation: Conversation,
        wire: WatchedWire | StreamingWire,
        fits: Callable[[Conversation, Call], Awaitable[bool]],
        total_s: float,
    ) -> None:
        self._conversation, self._wire, self._fits, self._total_s = conversation, wire, fits, total_s
        self._resources: dict[str, _FollowedResource] = {}
        self._altered = asyncio.Event()
        self._subscribed = Subscribed()
        self._settled: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    @property
    def idle(self) -> bool:
        """True if nothing is followed."""
        return not self._resources

    async def follow(self, uri: str, call: Call, listener: NoticeListener) -> None:
        """Have a listener told of changes of a resource and of lists, until this is cancelled. Returns if too many are followed."""
        if uri not in self._resources and len(self._resources) >= _MAX_URIS:
            return
        one = self._resources.setdefault(uri, _FollowedResource(call))
        one.listeners.append(listener)
        if uri in self._settled:
            listener(ServerNotice("settled", uri))
        self._altered.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            await asyncio.Event().wait()
        finally:
            one.listeners.remove(listener)
            if not one.listeners:
                self._resources.pop(uri, None)
                self._settled.discard(uri)
                self._altered.set()

    async def close(self) -> None:
        """End all of it."""
        if self._task is not None:
            await cancel(self._task)

    async def _run(self) -> None:
        loop, pause_s, again = asyncio.get_running_loop(), _AGAIN_S, False
        while self._resources:
            began = loop.time()
            await self._connected(again=again)
            again = True
            self._settle(self._resources)
            pause_s = _AGAIN_S if loop.time() - began > _STEADY_S else min(2 * pause_s, _MAX_AGAIN_S)
            if self._resources:
                await asyncio.sleep(pause_s)

    async def _connected(self, *, again: bool) -> None:
        """Follow the resources until the connection is lost, or none is left. `again`: changes may have been missed."""
        call = next(iter(self._resources.values())).call
        if not await self._fits(self._conversation, call) and not self._conversation.version:
            return
        self._ended, self._subscribed = False, Subscribed()
        wire = self._wire
        if self._conversation.version == STATELESS:
            if isinstance(wire, StreamingWire):
                await self._listen(wire, again=again)
            return
        if not self._conversation.subscribes:
            return
        if isinstance(wire, WatchedWire):
            leave = wire.watch(self._noticed)
            try:
                await self._subscribe_all(call, again=again)
            finally:
                leave()
            return
        opened = asyncio.Event()
        stream = asyncio.create_task(wire.follow({}, self._conversation.agreed, call, opened.set, self._heard))
        stream.add_done_callback(lambda _: self._noticed(LOST))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_OPENING_S):
                    await opened.wait()
            await self._subscribe_all(call, again=again)
        finally:
            await cancel(stream)

    async def _subscribe_all(self, call: Call, *, again: bool) -> None:
        """Have the server's subscriptions be those of the callers, until the connection is lost or none is left. `call` is that of any
        resource, to end subscriptions with."""
        refused: set[str] = set()
        while not self._ended:
            self._altered.clear()
            uris = self._subscribed.uris
            for uri in [uri for uri in uris if uri not in self._resources]:
                uris.discard(uri)
                await self._ask(UNSUBSCRIBE, uri, call)
            for uri, one in [(uri, one) for uri, one in self._resources.items() if uri not in uris | refused]:
                if await self._subscribes(uri, one.call):
                    if again:
                        self._noticed(ServerNotice("updated", uri))
                else:
                    refused.add(uri)
                self._settle((uri,))
            if not (self._resources or uris):
                return
            if uris <= self._resources.keys() and not self._ended:
                await self._altered.wait()

    async def _subscribes(self, uri: str, call: Call) -> bool:
        """Subscribe to a resource. Changes count from the request on, as the first may be told of before its answer."""
        if not await self._fits(self._conversation, call):
            return False
        self._subscribed.uris.add(uri)
        if await self._ask(SUBSCRIBE, uri, call):
            return True
        self._subscribed.uris.discard(uri)
        return False

    async def _ask(self, method: str, uri: str, call: Call) -> bool:
        limit = CallTime(asyncio.get_running_loop().time() + (self._total_s if method == SUBSCRIBE else _PARTING_S))
        return isinstance(await self._conversation.call(method, {"uri": uri}, call, limit), Success)

    async def _listen(self, wire: StreamingWire, *, again: bool) -> None:
        """The request of 2026-07-28, made again with the new list whenever other resources are followed: the old one ends after that."""
        streams: list[asyncio.Task[None]] = []
        try:
            while self._resources:
                self._altered.clear()
                found = [(uri, one) for uri, one in self._resources.items()]
                uris = [uri for uri, one in found if await self._fits(self._conversation, one.call)]
                self._subscribed.uris = set(uris)
                wanted: JsonObject = {**dict.fromkeys(_LISTS, True), "resourceSubscriptions": uris}
                message = self._conversation.numbered("subscriptions/listen", {"notifications": wanted})
                streams.append(await self._opened(wire, message, found[0][1].call))
                for uri in uris if again else ():
                    self._noticed(ServerNotice("updated", uri))
                self._settle(tuple(uri for uri, _ in found))
                for old in streams[:-1]:
                    old.cancel()
                del streams[:-1]
                await self._altered.wait()
                if streams[-1].done():
                    return
        finally:
            await cancel(*streams)

    async def _opened(self, wire: StreamingWire, message: JsonObject, call: Call) -> asyncio.Task[None]:
        """Begin to read the answer to a request, and return when the server has acknowledged it (basic/utilities/subscriptions)."""
        acknowledged = asyncio.Event()

        def heard(message: Json) -> None:
            if isinstance(message, Mapping) and message.get("method") == _ACKNOWLEDGED:
                acknowledged.set()
            self._heard(message)

        stream = asyncio.create_task(wire.follow(message, self._conversation.agreed, call, lambda: None, heard))
        stream.add_done_callback(lambda _: self._altered.set())
        waiting = asyncio.ensure_future(acknowledged.wait())
        try:
            await asyncio.wait((stream, waiting), timeout=_OPENING_S, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            stream.cancel()
            raise
        finally:
            waiting.cancel()
        return stream

    def _settle(self, uris: Collection[str]) -> None:
        """Tell the listeners of these resources that their changes are told from now on, or are not."""
        for uri in uris:
            self._settled.add(uri)
            self._noticed(ServerNotice("settled", uri))
        self._settled &= self._resources.keys()

    def _heard(self, message: Json) -> None:
        """Take a notification of a stream."""
        params = message.get("params") if isinstance(message, Mapping) else None
        method = message.get("method") if isinstance(message, Mapping) else None
        if method == UPDATED and isinstance(params, Mapping):
            for uri in self._subscribed.meant(params.get("uri")):
                self._noticed(ServerNotice("updated", uri))
        elif isinstance(method, str) and method in LISTS and self._subscribed.admits():
            self._noticed(ServerNotice(LISTS[method]))

    def _noticed(self, notice: ServerNotice) -> None:
        if notice.kind == "lost":
            self._ended = True
            self._altered.set()
            return
        if notice.kind == "done":
            return
        followed = self._resources
        meant = [followed[notice.uri]] if notice.uri in followed else [] if notice.uri else [*followed.values()]
        for one in meant:
            for listener in tuple(one.listeners):
                listener(notice)


_LISTS: Final = ("promptsListChanged", "resourcesListChanged")
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
