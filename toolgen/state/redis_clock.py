"""The time of a Redis that several gateways share, for whoever cannot wait to be told it: their own clocks may differ."""

from __future__ import annotations

import asyncio
import contextlib

from toolgen.clock import Clock
from toolgen.state.link import RedisLink, UnreachableError

__all__ = ["RedisClock"]

_EVERY_S = 10.0


class RedisClock:
    """This machine's clock, set by Redis's every ten seconds. Until Redis was heard it is this machine's own."""

    def __init__(self, link: RedisLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._ahead = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        """Seconds that never go back: this machine's."""
        return self._clock.monotonic()

    async def set(self) -> None:
        """Sets it by what Redis says. While that cannot be reached, it goes on from when it was."""
        with contextlib.suppress(UnreachableError):
            self._ahead = await self._link.now() - self._clock.now()

    async def run(self) -> None:
        """Sets it again and again."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.set()

    async def close(self) -> None:
        """Lets go of the connection."""
        await self._link.close()
