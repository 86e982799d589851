"""Limits of connections per address and in total, the connections that are closed for others, and the shutdown of their server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from email.utils import formatdate
from typing import Protocol

from toolgen.config.gateway import Networks, contains
from toolgen.frontends.http.client_address import counted_as
from toolgen.frontends.http.request import Handlers, LimitedResource

__all__ = ["Connections", "CountedConnection", "HttpServer", "InFlight"]

log = logging.getLogger("toolgen.gateway")


MAX_COUNT = 4_096
MAX_PER_ADDRESS = 512
RESERVE = 256
_ENDING_S = 1.0


class CountedConnection(Protocol):
    """Connection that counts against limits. `places` belongs to `Connections`; `proven` is True after an accepted credential."""

    peer: str
    proven: bool
    places: tuple[_PeerConnections, ...]

    def expendable(self) -> bool:
        """Return True if no authenticated client waits for an answer on it."""

    def give_way(self) -> None:
        """Close it, with an answer if a request had begun."""

    def end_after_answer(self) -> None:
        """End the connection after the current answer."""

    def abort(self) -> None:
        """End the connection at once."""


class _PeerConnections:
    """Connections that are counted together, and the idle ones among them, the longest idle first."""

    __slots__ = ("count", "known", "unknown")

    def __init__(self) -> None:
        self.count = 0
        self.unknown: OrderedDict[CountedConnection, None] = OrderedDict()
        self.known: OrderedDict[CountedConnection, None] = OrderedDict()

    def remove(self, connection: CountedConnection) -> None:
        self.count -= 1
        self.unknown.pop(connection, None)
        self.known.pop(connection, None)

    def expendable(self) -> CountedConnection | None:
        """Return the connection to close for another: unauthenticated clients first. A busy connection is considered again when idle."""
        for line in (self.unknown, self.known):
            while line:
                connection, _ = line.popitem(last=False)
                if connection.expendable():
                    return connection
        return None


class Connections:
    """Connections of one process. At the limit, an idle connection is closed for a new one, of the same address if that address is at its
    own limit. If none is idle, the new connection uses a small reserve: there, only health checks and callers that were accepted before
    are answered, and all others get a retry answer.

    Connections of a trusted proxy are not counted as one address; the clients that it names are counted by request (`InFlight`).
    """

    def __init__(
        self,
        *,
        proxies: Networks = (),
        most: int = MAX_COUNT,
        most_per_address: int = MAX_PER_ADDRESS,
        reserve: int = RESERVE,
    ) -> None:
        self._proxies = proxies
        self._most = most
        self._most_per_address = most_per_address
        self._most_reserved = reserve
        self._all = _PeerConnections()
        self._reserve = _PeerConnections()
        self._addresses: dict[str, _PeerConnections] = {}

    @property
    def count(self) -> int:
        """Number of connections."""
        return self._all.count + self._reserve.count

    def enter(self, connection: CountedConnection) -> LimitedResource | None:
        """Count a new connection; return the exceeded limit if it uses the reserve."""
        address = None if contains(self._proxies, connection.peer) else counted_as(connection.peer)
        place = _PeerConnections() if address is None else self._addresses.setdefault(address, _PeerConnections())
        crowded = None
        if address is not None and not self._room(place, self._most_per_address):
            crowded = LimitedResource.ADDRESS
        elif not self._room(self._all, self._most):
            crowded = LimitedResource.ALL
        if crowded is None:
            if address is not None:
                self._addresses[address] = place  # the only other connection may have been closed
            self._count(connection, (self._all, place))
        elif self._room(self._reserve, self._most_reserved):
            self._count(connection, (self._reserve,))
        else:
            connection.give_way()
        return crowded

    def rested(self, connection: CountedConnection) -> None:
        """Mark a connection as idle: it is new, or its request has been answered."""
        for place in connection.places:
            known, unknown = place.known, place.unknown
            if not connection.proven:
                unknown[connection] = None
                unknown.move_to_end(connection)
                continue
            if unknown:
                unknown.pop(connection, None)
            known[connection] = None
            known.move_to_end(connection)

    def leave(self, connection: CountedConnection) -> None:
        """Remove a closed connection."""
        places, connection.places = connection.places, ()
        for place in places:
            place.remove(connection)
        self._forget(connection)

    def _room(self, place: _PeerConnections, most: int) -> bool:
        if place.count < most:
            return True
        found = place.expendable()
        if found is None:
            return False
        self.leave(found)
        found.give_way()
        return True

    def _count(self, connection: CountedConnection, places: tuple[_PeerConnections, ...]) -> None:
        connection.places = places
        for place in places:
            place.count += 1
        self.rested(connection)

    def _forget(self, connection: CountedConnection) -> None:
        address = counted_as(connection.peer)
        place = self._addresses.get(address)
        if place is not None and not place.count:
            del self._addresses[address]


class InFlight:
    """Number of requests in progress of each client, for clients behind trusted proxies."""

    def __init__(self, most: int = MAX_PER_ADDRESS) -> None:
        self._most = most
        self._counts: dict[str, int] = {}

    def enter(self, client: str) -> LimitedResource | None:
        """Count a request; returns True if there are too many."""
        name = counted_as(client)
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return LimitedResource.ADDRESS if count > self._most else None

    def leave(self, client: str) -> None:
        """Remove an answered request from the count of its client."""
        name = counted_as(client)
        self._counts[name] -= 1
        if not self._counts[name]:
            del self._counts[name]


class HttpServer:
    """State shared by all connections (`HttpConnection`): the request handlers, the connection limits, and the open connections."""

    def __init__(self, handlers: Handlers, connections: Connections) -> None:
        self.handlers = handlers
        self.connections = connections
        self.open: set[CountedConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.ended: asyncio.Event | None = None
        self._second = 0
        self._date = b""

    async def drain(self, seconds: float, cut_off: Callable[[], None] = lambda: None) -> None:
        """Let every connection end after its current answer. The rest is aborted after so many seconds."""
        self.ended = asyncio.Event()
        for connection in list(self.open):
            connection.end_after_answer()
        self.left()
        try:
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        except TimeoutError:
            log.warning("%d requests had no answer when the time to drain was over", len(self.tasks))
            await self.break_off(cut_off)

    async def break_off(self, cut_off: Callable[[], None]) -> None:
        """Cancel the remaining requests. A call that `cut_off` ends is still answered, with an unknown outcome."""
        cut_off()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_ENDING_S)
        for task in list(self.tasks):
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_ENDING_S)
        for connection in list(self.open):
            connection.abort()

    def left(self) -> None:
        """Note that a connection or a request has ended."""
        if self.ended is not None and not self.open and not self.tasks:
            self.ended.set()

    def date(self) -> bytes:
        """Return the header with the time of an answer (RFC 9110, section 6.6.1), computed once a second."""
        now = int(time.time())
        if now != self._second:
            self._second, self._date = now, b"date: " + formatdate(now, usegmt=True).encode("ascii") + b"\r\n"
        return self._date
