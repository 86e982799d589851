"""Event streams of MCP over HTTP: an answer preceded by notifications, and the changes that a client subscribed to."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import closing
from typing import Any

from msgspec import Struct

from toolgen.core.background import cancel
from toolgen.core.errors import ToolgenError
from toolgen.frontends.http.request import EventStream, Rejected, Response
from toolgen.frontends.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    LIST_CHANGED,
    Id,
    RpcFault,
    RpcReply,
    failed,
    response,
)
from toolgen.frontends.mcp.server import Mcp
from toolgen.frontends.mcp.shown_pages import PageStream
from toolgen.frontends.mcp.subscriptions import UPDATED, Updates
from toolgen.frontends.mcp.task_events import WatchedTasks, own_tasks, session_changes, task_changes
from toolgen.gateway.calls.json_body import encode
from toolgen.model.call import Principal, parties
from toolgen.pipeline.middleware import CallerConnection

__all__ = [
    "Channel",
    "Heard",
    "ListWatch",
    "Listeners",
    "acknowledged",
    "ended",
    "event",
    "notification",
    "subscribed",
]

_MAX_UNREAD = 256
_QUIET_S = 15.0
_AGAIN_S = 2.0
"""After which clients are told of a change again: another worker, which may have answered them, knows of it by then."""
_MAX_LISTENERS = 1024
_MAX_EACH = 256
_MAX_URIS = 256
_STILL_HERE = b":\n\n"
log = logging.getLogger("toolgen.gateway")


def event(body: bytes) -> bytes:
    """Return a message as a server-sent event; JSON has no line breaks."""
    return b"event: message\ndata: " + body + b"\n\n"


class Channel:
    """Channel for messages to a client before the answer to its request. The number of unread messages is bounded. A request that its
    client cancelled, according to `caller_connection`, gets no answer (2025-11-25, basic/utilities/cancellation)."""

    def __init__(self, caller_connection: CallerConnection) -> None:
        self._caller_connection = caller_connection
        self._unread: asyncio.Queue[bytes] = asyncio.Queue(_MAX_UNREAD)

    def send(self, body: bytes) -> None:
        """Says one message. Raises `asyncio.QueueFull` where too much is unread already."""
        self._unread.put_nowait(body)

    async def answer(
        self, request: Id | None, answering: Coroutine[None, None, RpcReply], respond: Callable[[RpcReply], Response]
    ) -> Response | EventStream:
        """The answer: alone where nothing was said before it, and otherwise the end of a stream that begins now."""
        task: asyncio.Future[RpcReply] = asyncio.ensure_future(answering)
        first: asyncio.Future[bytes] = asyncio.ensure_future(self._unread.get())
        both: tuple[asyncio.Future[Any], ...] = (task, first)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not first.done():
                first.cancel()
        if not first.done() or first.cancelled():
            reply = await task
            return respond(RpcReply() if self._caller_connection.disconnected() else reply)
        return EventStream(events=self._events(request, first.result(), task))

    async def _events(self, request: Id | None, first: bytes, task: asyncio.Future[RpcReply]) -> AsyncIterator[bytes]:
        yield event(first)
        while not task.done() or not self._unread.empty():
            getting: asyncio.Future[bytes] = asyncio.ensure_future(self._unread.get())
            both: tuple[asyncio.Future[Any], ...] = (task, getting)
            await asyncio.wait(both, timeout=_QUIET_S, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                yield event(getting.result())
                continue
            getting.cancel()
            if not task.done():
                yield _STILL_HERE
        if not self._caller_connection.disconnected():
            yield event(_ending(request, task).body)


def _ending(request: Id | None, task: asyncio.Future[RpcReply]) -> RpcReply:
    """The reply of a task that is done. Once a stream has begun there is no status left to say what went wrong."""
    try:
        return task.result()
    except ToolgenError as error:
        log.error("a request to /mcp ended in %s", type(error).__name__)  # noqa: TRY400 - its text may hold anything
    except Exception as error:  # noqa: BLE001 - the outermost boundary of what was streamed
        log.error("a request to /mcp ended in %s", type(error).__name__)  # noqa: TRY400 - as above
    return failed(request, RpcFault(code=INTERNAL_ERROR, message="the gateway failed; the operator's log says where"))


async def _departure(caller_connection: CallerConnection) -> None:
    """Returns when the client leaves."""
    await caller_connection.awaiting(asyncio.Event().wait())


class Heard(Struct, frozen=True, kw_only=True):
    """Changes that a client is told of: of these lists, by the notification about each, and of the resources of these URIs."""

    lists: frozenset[str] = frozenset(LIST_CHANGED.values())
    uris: tuple[str, ...] = ()

    @classmethod
    def of(cls, wanted: Mapping[str, Any]) -> Heard | RpcFault:
        """Changes that `params.notifications` of `subscriptions/listen` asks for (2026-07-28)."""
        uris = wanted.get("resourceSubscriptions", [])
        if not isinstance(uris, list) or len(uris) > _MAX_URIS or not all(isinstance(uri, str) for uri in uris):
            said = f"params.notifications.resourceSubscriptions must be a list of at most {_MAX_URIS} URIs"
            return RpcFault(code=INVALID_PARAMS, message=said)
        lists = frozenset(method for name, method in LIST_CHANGED.items() if wanted.get(name) is True)
        return cls(lists=lists, uris=tuple(uris))

    def agreed(self) -> dict[str, object]:
        """Members of the acknowledgement for these changes."""
        lists: dict[str, object] = {name: True for name, method in LIST_CHANGED.items() if method in self.lists}
        return lists | ({"resourceSubscriptions": list(self.uris)} if self.uris else {})


class ListWatch:
    """Watch over the lists of a principal, from its creation to `close`. It ends when the client leaves, the gateway closes, or the policy
    has the principal no more."""

    def __init__(
        self, mcp: Mcp, principal: Principal, caller_connection: CallerConnection, closing: asyncio.Event
    ) -> None:
        self._mcp, self._principal = mcp, principal
        # Each wait is made before the lists are read: a change while the client is told of the one before ends it too.
        self._changed: asyncio.Future[Any] = asyncio.ensure_future(mcp.changed())
        self._at_sources: asyncio.Future[Any] = asyncio.ensure_future(mcp.source_lists_changed())
        self._listed = mcp.listed(principal)
        self._over: tuple[asyncio.Future[Any], ...] = (
            asyncio.ensure_future(closing.wait()),
            asyncio.ensure_future(_departure(caller_connection)),
        )

    def close(self) -> None:
        """End the watch."""
        for one in (self._changed, self._at_sources, *self._over):
            one.cancel()

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        """The notifications about lists that have changed, each time some have, and none when nothing was said for a while. Where others
        answer the same clients, a change is told twice: a client that listed its tools at once may have asked one that did not know of
        it."""
        mcp, over, listed = self._mcp, self._over, self._listed
        now, again_at = asyncio.get_running_loop().time, math.inf
        told: frozenset[str] = frozenset()
        while listed is not None and not any(end.done() for end in over):
            quiet_s = max(0.0, min(_QUIET_S, again_at - now()))
            waits = (self._changed, self._at_sources, *over)
            await asyncio.wait(waits, timeout=quiet_s, return_when=asyncio.FIRST_COMPLETED)
            if not (self._changed.done() or self._at_sources.done()):
                again = told if now() >= again_at else frozenset()
                if again:
                    again_at = math.inf
                yield again
                continue
            if self._changed.done():
                self._changed = asyncio.ensure_future(mcp.changed())
            if self._at_sources.done():
                self._at_sources = asyncio.ensure_future(mcp.source_lists_changed())
            before, listed = listed, mcp.listed(self._principal)
            if listed is not None and listed != before:
                told = frozenset(method for method, found in listed.items() if found != before[method])
                yield told
                again_at = math.inf if mcp.alone else now() + _AGAIN_S


class Listeners:
    """Everybody who listens, counted, so that no principal holds more connections than it has use for."""

    def __init__(self, mcp: Mcp) -> None:
        self._mcp = mcp
        self._each: dict[tuple[str, ...], int] = {}
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Ends every stream, so that nobody waits for one when the gateway stops."""
        self._closing.set()

    def of_session(self, principal: Principal, caller_connection: CallerConnection, session: str) -> EventStream:
        """The handshake era's stream: a notification whenever the tools, or a task that the session made here, have changed."""
        self._admit(principal)
        return EventStream(events=self._counted(principal, self._told(principal, caller_connection, session)))

    async def _told(
        self, principal: Principal, caller_connection: CallerConnection, session: str
    ) -> AsyncIterator[bytes]:
        with (
            closing(ListWatch(self._mcp, principal, caller_connection, self._closing)) as lists,
            self._mcp.subscriptions.updates_of_session(principal, session) as updates,
            self._mcp.pages.listening(principal, session) as pages,
        ):
            changes = _together(self._changes(lists, {}, Heard()), self._made(principal, session))
            changes = _together(changes, _events(pages))
            async for one in _together(changes, self._updated(updates, {})):
                yield one

    async def _updated(self, updates: Updates, params: dict[str, object]) -> AsyncIterator[bytes]:
        async for uri in updates.changes():
            yield event(notification(UPDATED, {"uri": uri, **params}))

    async def _made(self, principal: Principal, session: str) -> AsyncIterator[bytes]:
        async for message in session_changes(self._mcp.tasks, principal, session):
            yield event(encode(message))

    def of_request(
        self,
        request: Id,
        principal: Principal,
        caller_connection: CallerConnection,
        heard: Heard,
        *,
        watched: WatchedTasks | None = None,
    ) -> EventStream:
        """`subscriptions/listen` (2026-07-28): first what will be said, then that, and at the end that it has ended."""
        self._admit(principal)
        events = self._subscribed(request, principal, caller_connection, heard, watched)
        return EventStream(events=self._counted(principal, events))

    def _admit(self, principal: Principal) -> None:
        if self._each.get(parties(principal), 0) >= _MAX_EACH or sum(self._each.values()) >= _MAX_LISTENERS:
            raise Rejected(
                429,
                "rate_limited",
                "too many streams are open already",
                suggestion="close one",
                retry_after_s=5,
            )

    async def _counted(self, principal: Principal, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        who = parties(principal)
        self._each[who] = self._each.get(who, 0) + 1
        try:
            async for one in events:
                yield one
        finally:
            self._each[who] -= 1
            if not self._each[who]:
                del self._each[who]

    async def _subscribed(
        self,
        request: Id,
        principal: Principal,
        caller_connection: CallerConnection,
        heard: Heard,
        watched: WatchedTasks | None,
    ) -> AsyncIterator[bytes]:
        own = None if watched is None else await own_tasks(self._mcp.tasks, watched, principal)
        meta: dict[str, object] = {"_meta": subscribed(request)}
        # All of it is listened to before the acknowledgement: a client may cause the first change as soon as it has that.
        with (
            closing(ListWatch(self._mcp, principal, caller_connection, self._closing)) as lists,
            self._mcp.subscriptions.updates_of(principal, heard.uris) as updates,
        ):
            await updates.settled()
            yield event(acknowledged(request, heard, tasks=None if own is None else own.ids))
            changes = self._changes(lists, meta, heard)
            if heard.uris:
                changes = _together(changes, self._updated(updates, meta))
            if own is not None and own.ids:
                changes = _together(changes, self._tasks(own, principal, meta))
            async for one in changes:
                yield one
        yield event(ended(request))

    async def _tasks(self, own: WatchedTasks, principal: Principal, params: dict[str, object]) -> AsyncIterator[bytes]:
        async for task in task_changes(self._mcp.tasks, own, principal):
            yield event(notification("notifications/tasks", {**task, **params}))

    async def _changes(self, lists: ListWatch, params: dict[str, object], heard: Heard) -> AsyncIterator[bytes]:
        yield _STILL_HERE  # the head of the answer leaves with the first of its body
        async for changed in lists.changes():
            if not changed:
                yield _STILL_HERE
            for method in sorted(changed & heard.lists):
                yield event(notification(method, params))


async def _events(pages: PageStream) -> AsyncIterator[bytes]:
    async for body in pages.notifications():
        yield event(body)


async def _together(leading: AsyncIterator[bytes], other: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Merge two event streams until one of them ends."""
    said: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def hear(events: AsyncIterator[bytes]) -> None:
        async for one in events:
            await said.put(one)

    hearing = [asyncio.create_task(hear(events)) for events in (leading, other)]
    try:
        while True:
            getting = asyncio.ensure_future(said.get())
            both: tuple[asyncio.Future[Any], ...] = (getting, hearing[0])
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                return
            yield getting.result()
    finally:
        await cancel(*hearing)


def notification(method: str, params: Mapping[str, object]) -> bytes:
    """A message that nobody answers."""
    return encode({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})


def subscribed(request: Id) -> dict[str, object]:
    """The `_meta` of whatever belongs to a subscription."""
    return {"io.modelcontextprotocol/subscriptionId": request}


def acknowledged(request: Id, heard: Heard, *, tasks: tuple[str, ...] | None = None) -> bytes:
    """The first message of a subscription: what of it will be said."""
    agreed = heard.agreed()
    if tasks is not None:
        agreed["taskIds"] = list(tasks)
    params = {"notifications": agreed, "_meta": subscribed(request)}
    return notification("notifications/subscriptions/acknowledged", params)


def ended(request: Id) -> bytes:
    """The last."""
    result = {"resultType": "complete", "_meta": subscribed(request)}
    return response(request, "result", result)
