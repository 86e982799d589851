"""How many long answers of one origin are read at once: the others wait, unread, at their servers, so that memory stays what it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["ORDINARY", "Places"]

ORDINARY = 131_072
"""Bytes of a body, after decompression, from which on it takes a place."""

_MOST = 4


class Places:
    """Given out in the order they were asked for."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, most: int = _MOST) -> None:
        self._free = most
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, later: Callable[[], None]) -> bool:
        """Whether a place was free; otherwise `later` is called once it has one."""
        if self._free:
            self._free -= 1
            return True
        self._waiting.append(later)
        return False

    def leave(self) -> None:
        """Gives a place back, to whoever waits the longest."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1

    def forget(self, later: Callable[[], None]) -> None:
        """Waits no longer."""
        self._waiting.remove(later)
