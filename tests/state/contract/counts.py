"""Places of counts: the memory of one process, the process above the workers of a machine, and Redis."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from tests.redis_server import RedisServer
from tests.state.contract.stores import KEY
from toolgen.core.clock import FixedClock
from toolgen.state.count_connection import Link
from toolgen.state.encryption import Seal
from toolgen.state.history import Histories
from toolgen.state.rate_limits import Buckets, MemoryBuckets
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.shared_buckets import SharedBuckets
from toolgen.state.shared_counts import CountClient, CountServer
from toolgen.state.shared_histories import SharedHistories
from toolgen.state.turn_counter import MemoryTurns, SharedTurns, TurnCounter

__all__ = ["Counts", "counts_in"]

TURNS = 2


class _Closable(Protocol):
    async def close(self) -> None: ...


class Counts:
    """Counts of one place. Each object is another process's; in memory there is one process."""

    def __init__(self, clock: FixedClock, link: Callable[[], Link] | None) -> None:
        self.clock, self._link = clock, link
        self._memory = (MemoryBuckets(clock), MemoryTurns(TURNS, clock), Histories(clock))
        self._opened: list[_Closable] = []

    def buckets(self) -> Buckets:
        if self._link is None:
            return self._memory[0]
        buckets = SharedBuckets(self._link(), self.clock)
        self._opened.append(buckets)
        return buckets

    def turns(self) -> TurnCounter:
        if self._link is None:
            return self._memory[1]
        turns = SharedTurns(TURNS, self._link(), self.clock)
        self._opened.append(turns)
        return turns

    def histories(self) -> Histories | SharedHistories:
        if self._link is None:
            return self._memory[2]
        histories = SharedHistories(self._link(), lambda: Seal(KEY), self.clock)
        self._opened.append(histories)
        return histories

    async def close(self) -> None:
        for one in self._opened:
            await one.close()


@asynccontextmanager
async def counts_in(place: str, redis: Callable[[], RedisServer]) -> AsyncIterator[Counts]:
    """Give the counts of a place, and close them."""
    clock = FixedClock()
    if place == "memory":
        yield Counts(clock, None)
    elif place == "redis":
        location = RedisLocation(host="127.0.0.1", port=redis().port, prefix=secrets.token_hex(6))
        counts = Counts(clock, lambda: RedisLink(location, lambda: ""))
        try:
            yield counts
        finally:
            await counts.close()
    else:
        above = CountServer(clock)
        links = [CountClient((await above.connect()).detach()) for _ in range(8)]
        free = [*links]
        counts = Counts(clock, free.pop)
        try:
            yield counts
        finally:
            await counts.close()
            for link in links:
                link.end()
            await above.close()
