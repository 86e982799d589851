"""How many connections there may be, from one address and in all, and which of them give way."""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from typing import Protocol

from toolgen.gateway.addresses import counted_as
from toolgen.settings_gateway import Networks, contains

__all__ = ["Connection", "Connections", "Crowded", "InFlight"]

MOST = 4_096
MOST_PER_ADDRESS = 512
RESERVE = 256


class Crowded(Enum):
    """What there are too many of."""

    ADDRESS = "this address has too many connections or requests"
    ALL = "there are too many connections"


class Connection(Protocol):
    """What is counted here. `places` belongs to `Connections`; `proven` says that an accepted credential came over it."""

    peer: str
    proven: bool
    places: tuple[_Place, ...]

    def expendable(self) -> bool:
        """Whether nobody who has shown a credential waits for an answer on it."""

    def give_way(self) -> None:
        """Closes it, with an answer where a request had begun."""


class _Place:
    """Connections that are counted together, and those of them that rest, the longest first."""

    __slots__ = ("count", "known", "unknown")

    def __init__(self) -> None:
        self.count = 0
        self.unknown: OrderedDict[Connection, None] = OrderedDict()
        self.known: OrderedDict[Connection, None] = OrderedDict()

    def rest(self, connection: Connection) -> None:
        self.unknown.pop(connection, None)
        self.known.pop(connection, None)
        (self.known if connection.proven else self.unknown)[connection] = None

    def remove(self, connection: Connection) -> None:
        self.count -= 1
        self.unknown.pop(connection, None)
        self.known.pop(connection, None)

    def expendable(self) -> Connection | None:
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
        most: int = MOST,
        most_per_address: int = MOST_PER_ADDRESS,
        reserve: int = RESERVE,
    ) -> None:
        self._proxies = proxies
        self._most = most
        self._most_per_address = most_per_address
        self._most_reserved = reserve
        self._all = _Place()
        self._reserve = _Place()
        self._addresses: dict[str, _Place] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return self._all.count + self._reserve.count

    def enter(self, connection: Connection) -> Crowded | None:
        """Counts a new connection; what there are too many of, where it is let into the reserve."""
        address = None if contains(self._proxies, connection.peer) else counted_as(connection.peer)
        place = _Place() if address is None else self._addresses.setdefault(address, _Place())
        crowded = None
        if address is not None and not self._room(place, self._most_per_address):
            crowded = Crowded.ADDRESS
        elif not self._room(self._all, self._most):
            crowded = Crowded.ALL
        if crowded is None:
            if address is not None:
                self._addresses[address] = place  # the only other connection may have given way
            self._count(connection, (self._all, place))
        elif self._room(self._reserve, self._most_reserved):
            self._count(connection, (self._reserve,))
        else:
            connection.give_way()
        return crowded

    def rested(self, connection: Connection) -> None:
        """It has been answered, or is new: from now on it rests."""
        for place in connection.places:
            place.rest(connection)

    def leave(self, connection: Connection) -> None:
        """It is closed."""
        places, connection.places = connection.places, ()
        for place in places:
            place.remove(connection)
        self._forget(connection)

    def _room(self, place: _Place, most: int) -> bool:
        if place.count < most:
            return True
        found = place.expendable()
        if found is None:
            return False
        self.leave(found)
        found.give_way()
        return True

    def _count(self, connection: Connection, places: tuple[_Place, ...]) -> None:
        connection.places = places
        for place in places:
            place.count += 1
        self.rested(connection)

    def _forget(self, connection: Connection) -> None:
        address = counted_as(connection.peer)
        place = self._addresses.get(address)
        if place is not None and not place.count:
            del self._addresses[address]


class InFlight:
    """How many requests of each client are being answered, of those that come through trusted proxies."""

    def __init__(self, most: int = MOST_PER_ADDRESS) -> None:
        self._most = most
        self._counts: dict[str, int] = {}

    def enter(self, client: str) -> Crowded | None:
        """Counts one; whether there are too many."""
        name = counted_as(client)
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return Crowded.ADDRESS if count > self._most else None

    def leave(self, client: str) -> None:
        """It is answered."""
        name = counted_as(client)
        self._counts[name] -= 1
        if not self._counts[name]:
            del self._counts[name]
