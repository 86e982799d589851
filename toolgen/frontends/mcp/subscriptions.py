"""Subscriptions of MCP sessions to resources (2025-11-25, server/resources), and what becomes of them when a resource changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from toolgen.frontends.mcp.sessions import session_key
from toolgen.gateway.calls.context_calls import ContextCalls
from toolgen.gateway.calls.followed_resources import Following
from toolgen.model.call import Principal, parties
from toolgen.model.relayed import Relayed
from toolgen.model.uri_template import canonical_uri

__all__ = ["UPDATED", "Subscriptions", "Updates"]

UPDATED = "notifications/resources/updated"
_MAX_SESSIONS = 4096
_MAX_URIS = 256


class Updates:
    """Changes of resources that a client listens to. `wanted` are their canonical URIs, each as the client wrote it, and `changed` has
    those that changed, "" when `wanted` is another; `readable` says if the client may read one."""

    def __init__(
        self,
        wanted: Callable[[], Mapping[str, str]],
        changed: asyncio.Queue[str],
        following: Following,
        readable: Callable[[str], bool],
    ) -> None:
        self._wanted, self._changed, self._following, self._readable = wanted, changed, following, readable

    async def settled(self) -> None:
        """Wait until the systems of the resources tell of changes, or it is known that they do not."""
        await self._following.settled()

    async def changes(self) -> AsyncIterator[str]:
        """The URIs, each when its resource has changed."""
        while True:
            self._following.follow(self._wanted().keys())
            uri = await self._changed.get()
            written = self._wanted().get(uri)
            if written is not None and self._readable(uri):
                yield written


class Subscriptions:
    """Resources that sessions subscribed to, by their URIs as the client wrote them. Workers of one gateway know them all."""

    def __init__(self, context: ContextCalls) -> None:
        self._context = context
        self._sessions: OrderedDict[str, dict[str, str]] = OrderedDict()
        self._streams: dict[str, set[asyncio.Queue[str]]] = {}
        context.updates.shared("subscription", lambda said: self._put(said.key, said.name, said.value))

    def add(self, principal: Principal, session: str, uri: str) -> bool:
        """Subscribe a session. False if the principal may not read the resource, or the session has too many subscriptions."""
        canonical, key = canonical_uri(uri), _key(principal, session)
        if canonical is None or not self._context.may_read(principal, canonical):
            return False
        mine = self._sessions.get(key, {})
        if len(mine) >= _MAX_URIS and canonical not in mine:
            return False
        self._put(key, canonical, uri)
        self._context.updates.share(Relayed(topic="subscription", key=key, name=canonical, value=uri))
        return True

    def remove(self, principal: Principal, session: str, uri: str) -> None:
        """End a subscription, if there is one."""
        canonical, key = canonical_uri(uri), _key(principal, session)
        if canonical is not None and canonical in self._sessions.get(key, {}):
            self._put(key, canonical, "")
            self._context.updates.share(Relayed(topic="subscription", key=key, name=canonical))

    def _put(self, key: str, uri: str, written: str) -> None:
        """Note a subscription, or its end, and wake the streams of the session."""
        mine = self._sessions.setdefault(key, {})
        self._sessions.move_to_end(key)
        mine.pop(uri, None)
        if written and len(mine) < _MAX_URIS:
            mine[uri] = written
        if not mine:
            del self._sessions[key]
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        for stream in self._streams.get(key, ()):
            with suppress(asyncio.QueueFull):
                stream.put_nowait("")

    def of_session(self, principal: Principal, session: str) -> Mapping[str, str]:
        """The canonical URIs that a session subscribed to, each as it was written."""
        return self._sessions.get(_key(principal, session), {})

    def written(self, principal: Principal, session: str, uri: str) -> str | None:
        """A canonical URI as a session wrote it, if the session subscribed to it and the principal may read it; None otherwise."""
        written = self.of_session(principal, session).get(uri)
        return written if written is not None and self._context.may_read(principal, uri) else None

    def readable(self, principal: Principal, uris: Collection[str], uri: str) -> list[str]:
        """Return those of `uris` that are a canonical URI in some spelling, if the principal may read it."""
        meant = [one for one in uris if canonical_uri(one) == uri]
        return meant if meant and self._context.may_read(principal, uri) else []

    async def settled(self, principal: Principal, session: str, uri: str) -> None:
        """Wait until the system of a resource tells of its changes, where a stream of the session is open in this process."""
        canonical = canonical_uri(uri)
        if canonical is not None and _key(principal, session) in self._streams:
            with self._context.followed.following(principal) as following:
                following.follow((canonical,))
                await following.settled()

    @contextmanager
    def updates_of_session(self, principal: Principal, session: str) -> Iterator[Updates]:
        """Listen to changes of a session's resources within the block."""
        with self._updates(principal, lambda: self.of_session(principal, session), _key(principal, session)) as updates:
            yield updates

    @contextmanager
    def updates_of(self, principal: Principal, uris: Collection[str]) -> Iterator[Updates]:
        """Listen to changes of the resources of these URIs, as far as the principal may read them, within the block."""
        wanted = {canonical: uri for uri in uris if (canonical := canonical_uri(uri)) is not None}
        with self._updates(principal, lambda: wanted, "") as updates:
            yield updates

    @contextmanager
    def waking(self, principal: Principal, session: str, stream: asyncio.Queue[str]) -> Iterator[None]:
        """Have a stream told "" whenever the session subscribes to another resource, within the block."""
        with self._waking(_key(principal, session), stream):
            yield

    @contextmanager
    def _waking(self, key: str, stream: asyncio.Queue[str]) -> Iterator[None]:
        streams = self._streams.setdefault(key, set())
        streams.add(stream)
        try:
            yield
        finally:
            streams.discard(stream)
            if not streams:
                self._streams.pop(key, None)

    @contextmanager
    def _updates(self, principal: Principal, wanted: Callable[[], Mapping[str, str]], key: str) -> Iterator[Updates]:
        changed: asyncio.Queue[str] = asyncio.Queue(_MAX_URIS)
        with (
            self._context.updates.listening(changed),
            self._waking(key, changed),
            self._context.followed.following(principal) as following,
        ):
            following.follow(wanted().keys())
            yield Updates(wanted, changed, following, partial(self._context.may_read, principal))


def _key(principal: Principal, session: str) -> str:
    return session_key(parties(principal), session)
