"""Subscriptions of MCP sessions to resources (2025-11-25, server/resources), and what becomes of them when a resource changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection

from toolgen.gateway.calls.context_calls import ContextCalls
from toolgen.model.call import Principal, parties
from toolgen.model.uri_template import canonical_uri

__all__ = ["UPDATED", "Subscriptions"]

UPDATED = "notifications/resources/updated"
_MAX_SESSIONS = 4096
_MAX_URIS = 256
_Session = tuple[tuple[str, ...], str]


class Subscriptions:
    """Resources that sessions of this process subscribed to, by their URIs as the client wrote them."""

    def __init__(self, context: ContextCalls) -> None:
        self._context = context
        self._sessions: OrderedDict[_Session, dict[str, str]] = OrderedDict()

    def add(self, principal: Principal, session: str, uri: str) -> bool:
        """Subscribe a session. False if the principal may not read the resource, or the session has too many subscriptions."""
        canonical = canonical_uri(uri)
        if canonical is None or not self._context.may_read(principal, canonical):
            return False
        mine = self._sessions.setdefault((parties(principal), session), {})
        self._sessions.move_to_end((parties(principal), session))
        if len(mine) >= _MAX_URIS and canonical not in mine:
            return False
        mine[canonical] = uri
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return True

    def remove(self, principal: Principal, session: str, uri: str) -> None:
        """End a subscription, if there is one."""
        self._sessions.get((parties(principal), session), {}).pop(canonical_uri(uri) or "", None)

    def written(self, principal: Principal, session: str, uri: str) -> str | None:
        """A canonical URI as a session wrote it, if the session subscribed to it and the principal may read it; None otherwise."""
        written = self._sessions.get((parties(principal), session), {}).get(uri)
        return written if written is not None and self._context.may_read(principal, uri) else None

    def readable(self, principal: Principal, uris: Collection[str], uri: str) -> list[str]:
        """Return those of `uris` that are a canonical URI in some spelling, if the principal may read it."""
        meant = [one for one in uris if canonical_uri(one) == uri]
        return meant if meant and self._context.may_read(principal, uri) else []

    def updates_of_session(self, principal: Principal, session: str) -> AsyncIterator[str]:
        """The URIs of a session's resources, each when it has changed."""
        return self._updates(principal, lambda: self._sessions.get((parties(principal), session), {}))

    def updates_of(self, principal: Principal, uris: Collection[str]) -> AsyncIterator[str]:
        """These URIs, as far as the principal may read them, each when its resource has changed."""
        wanted = {canonical: uri for uri in uris if (canonical := canonical_uri(uri)) is not None}
        return self._updates(principal, lambda: wanted)

    async def _updates(self, principal: Principal, wanted: Callable[[], dict[str, str]]) -> AsyncIterator[str]:
        changed: asyncio.Queue[str] = asyncio.Queue(_MAX_URIS)
        with self._context.updates.listening(changed):
            while True:
                uri = await changed.get()
                written = wanted().get(uri)
                if written is not None and self._context.may_read(principal, uri):
                    yield written
