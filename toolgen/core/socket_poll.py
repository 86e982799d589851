"""Poll of sockets for received data, without waiting: by poll(2), or by select if the system has no poll (Windows)."""

from __future__ import annotations

import select

__all__ = ["HangUpPoll", "SocketPoll"]

_HAS_POLL = hasattr(select, "poll")


class SocketPoll:
    """Poll object for many sockets, which is empty between calls."""

    __slots__ = ("_poll",)

    def __init__(self) -> None:
        self._poll = select.poll() if _HAS_POLL else None

    def readable(self, descriptor: int) -> bool:
        """Return True if the system has received data or the end of the connection."""
        poll = self._poll
        if poll is None:
            return bool(select.select([descriptor], [], [], 0)[0])
        poll.register(descriptor, select.POLLIN)
        try:
            return bool(poll.poll(0))
        finally:
            poll.unregister(descriptor)


class HangUpPoll:
    """Poll object for the end of one connection. Without poll(2), or without POLLRDHUP, the event loop reports it a moment later."""

    def __init__(self) -> None:
        self._poll = select.poll() if _HAS_POLL else None

    def register(self, descriptor: int) -> None:
        """Watch this socket."""
        if self._poll is not None:
            self._poll.register(descriptor, getattr(select, "POLLRDHUP", select.POLLHUP))

    def ended(self) -> bool:
        """Return True if the system knows that the other end closed the connection."""
        return self._poll is not None and bool(self._poll.poll(0))
