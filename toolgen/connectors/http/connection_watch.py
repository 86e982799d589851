"""Shared timeouts of the connections to one address: few timers for all limits, and polling for data that a connection has received."""

from __future__ import annotations

import asyncio
import math
from typing import Protocol

from toolgen.core.socket_poll import SocketPoll

__all__ = ["ConnectionWatch", "WatchedConnection"]

_STEP_S = 1 / 64
"""Maximum delay of a check. Checks of one step share a timer, because one timer for each would cost more than the checks."""


class WatchedConnection(Protocol):
    """Connection that is checked when one of its limits may have been reached."""

    def look(self) -> None:
        """Check the connection."""


class ConnectionWatch:
    """Watch of the connections of one event loop. With `poll` a connection asks the system whether its socket has received data."""

    __slots__ = ("_steps", "poll")

    def __init__(self) -> None:
        self.poll = SocketPoll()
        self._steps: dict[int, set[WatchedConnection]] = {}

    def add(self, one: WatchedConnection, at: float) -> int:
        """Schedule a check at this time of the loop, or a little later. Returns its step, for `drop`."""
        step = math.ceil(at / _STEP_S)
        watched = self._steps.get(step)
        if watched is None:
            watched = self._steps[step] = set()
            asyncio.get_running_loop().call_at(step * _STEP_S, self._reach, step)
        watched.add(one)
        return step

    def drop(self, one: WatchedConnection, step: int) -> None:
        """Cancel a check."""
        if (watched := self._steps.get(step)) is not None:
            watched.discard(one)

    def _reach(self, step: int) -> None:
        for one in self._steps.pop(step):
            one.look()
