"""Limits of connections from one address and in all, which of them give way, and their end with their server.

Which address a request comes from, and what counts as one address.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from email.utils import formatdate
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Protocol

from toolgen.config.gateway import Networks, contains
from toolgen.frontends.http.request import Handlers, LimitedResource

__all__ = ["Connections", "CountedConnection", "HttpServer", "InFlight", "client_of", "counted_as"]

log = logging.getLogger("toolgen.gateway")

_MAX_HOPS = 32
_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE = rf'(?:{_WORD}|"(?:[^"\\\x00-\x1f\x7f]|\\[\t\x20-\x7e])*")'
_PAIR = re.compile(rf"({_WORD})=({_VALUE})")
_NODE = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?|([0-9.]+)(?::[0-9]{1,5})?")


def counted_as(peer: str) -> str:
    """The address that a peer is counted as. An IPv6 network of /64 is one, since a client with one address there has them all."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((int(address) >> 64 << 64, 64)))
    return peer


def client_of(peer: str, headers: Iterable[tuple[bytes, bytes]], proxies: Networks) -> str:
    """Client of a connection: `peer`, unless that is a trusted proxy. Then the rightmost address in `X-Forwarded-For` or `Forwarded`
    (RFC 7239) that is no trusted proxy's; what stands left of it is the client's own word.

    A proxy sets one of the two and may pass the other on as its client wrote it, so both have to say the same. Where they do not, or one
    is malformed before that address is found, the proxy itself is who asks.
    """
    if not proxies or not contains(proxies, peer):
        return peer
    lines = [(name, value.decode("latin-1")) for name, value in headers if name in {b"x-forwarded-for", b"forwarded"}]
    said = []
    if plain := [value for name, value in lines if name == b"x-forwarded-for"]:
        said.append(_rightmost(_plain_hops(",".join(plain)), proxies))
    if standard := [value for name, value in lines if name == b"forwarded"]:
        said.append(_rightmost(_standard_hops(",".join(standard)), proxies))
    found = said[0] if said else None
    return peer if found is None or any(one != found for one in said) else found


def _rightmost(hops: Iterator[str | None], proxies: Networks) -> str | None:
    """The first address from the right that is not a proxy's, the leftmost where all are; None where one of them is no address."""
    last = None
    for count, hop in enumerate(hops):
        if hop is None or count == _MAX_HOPS:
            return None
        last = hop
        if not contains(proxies, hop):
            break
    return last


def _plain_hops(text: str) -> Iterator[str | None]:
    """The addresses of `X-Forwarded-For`, from the right."""
    while text:
        text, _, hop = text.rpartition(",")
        yield _address(hop.strip(" \t"), bare_ipv6=True)


def _standard_hops(text: str) -> Iterator[str | None]:
    """The `for` of each element of `Forwarded`, from the right. One quote left open would swallow what a proxy added, so all is read."""
    hops: list[str | None] = []
    for element in _elements(text):
        pairs = [_PAIR.fullmatch(pair) for pair in element]
        values = [pair[2] for pair in pairs if pair is not None and pair[1].lower() == "for"]
        good = None not in pairs and len(values) == 1
        hops.append(_address(_unquoted(values[0]), bare_ipv6=False) if good else None)
    yield from reversed(hops)


def _elements(text: str) -> Iterator[list[str]]:
    """The parameters of each element, split where neither `,` nor `;` is within quotes."""
    element, start, quoted, escaped = list[str](), 0, False, False
    for at, character in enumerate(text + ","):
        if escaped or (quoted and character == "\\"):
            escaped = not escaped
        elif character == '"':
            quoted = not quoted
        elif character in ",;" and (not quoted or at == len(text)):
            element.append(text[start:at].strip(" \t"))
            start = at + 1
            if character == ",":
                yield element
                element = []


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _address(text: str, *, bare_ipv6: bool) -> str | None:
    """An address without its port; None for a name, `unknown`, `_hidden` and whatever else is none."""
    found = _NODE.fullmatch(text)
    if found is not None:
        text = found[1] or found[2]
    elif not bare_ipv6 or ":" not in text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if found is not None and (address.version == 6) != (found[1] is not None):
        return None
    return None if "%" in text else str(getattr(address, "ipv4_mapped", None) or address)


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
        """True if no authenticated client waits for an answer on it."""

    def give_way(self) -> None:
        """Closes it, with an answer where a request had begun."""

    def end_after_answer(self) -> None:
        """The answer in hand is the last one."""

    def abort(self) -> None:
        """Ends it at once."""


class _PeerConnections:
    """Connections that are counted together, and those of them that rest, the longest first."""

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
        """The connection that gives way: first those nobody is known on. One that is busy is asked again when it has rested."""
        for line in (self.unknown, self.known):
            while line:
                connection, _ = line.popitem(last=False)
                if connection.expendable():
                    return connection
        return None


class Connections:
    """The connections of one process. Where there are too many, one that rests gives way to one that comes, of the same address if that
    has too many itself. Where none rests, what comes is let into a small reserve, in which health and callers that were accepted before
    are answered, and everybody else is told to come later.

    A trusted proxy's connections are not those of one address; what it says of its clients is counted request by request (`InFlight`).
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
        """Counts a new connection; what there are too many of, where it is let into the reserve."""
        address = None if contains(self._proxies, connection.peer) else counted_as(connection.peer)
        place = _PeerConnections() if address is None else self._addresses.setdefault(address, _PeerConnections())
        crowded = None
        if address is not None and not self._room(place, self._most_per_address):
            crowded = LimitedResource.ADDRESS
        elif not self._room(self._all, self._most):
            crowded = LimitedResource.ALL
        if crowded is None:
            if address is not None:
                self._addresses[address] = place  # the only other connection may have given way
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
    """Number of requests of each client that are being answered, of those that come through trusted proxies."""

    def __init__(self, most: int = MAX_PER_ADDRESS) -> None:
        self._most = most
        self._counts: dict[str, int] = {}

    def enter(self, client: str) -> LimitedResource | None:
        """Counts one; whether there are too many."""
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
        """Lets every connection end with the answer in hand. What has not ended in so many seconds is broken off."""
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
        """Ends what has not ended. A call that `cut_off` ends is still answered: that its outcome is unknown."""
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
        """A connection or a request has ended."""
        if self.ended is not None and not self.open and not self.tasks:
            self.ended.set()

    def date(self) -> bytes:
        """The header that says when an answer was made (RFC 9110, section 6.6.1), written once a second."""
        now = int(time.time())
        if now != self._second:
            self._second, self._date = now, b"date: " + formatdate(now, usegmt=True).encode("ascii") + b"\r\n"
        return self._date
