"""Signals that stop a gateway: the first one stops it in order, the second one at once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from functools import partial

from toolgen.core.background import cancel

__all__ = ["SAME_S", "Stop", "hear_signal", "hears_signals", "ignore_signal"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HANGS_S = 10.0
SAME_S = 0.25
"""Time in which a repeated signal is ignored: `timeout` and some shells signal both a process and its group."""


def hears_signals() -> bool:
    """Return True in the thread that receives the signals of the process (the main thread)."""
    return threading.current_thread() is threading.main_thread()


def hear_signal(loop: asyncio.AbstractEventLoop, number: int, callback: Callable[[], object]) -> None:
    """Call back in a loop on a signal, also with loops that do not support signals, as on Windows. For the main thread."""
    try:
        loop.add_signal_handler(number, callback)
    except (NotImplementedError, AttributeError):
        signal.signal(number, lambda number, frame: loop.call_soon_threadsafe(callback))


def ignore_signal(loop: asyncio.AbstractEventLoop, number: int) -> None:
    """Restore the default action of a signal."""
    try:
        loop.remove_signal_handler(number)
    except (NotImplementedError, AttributeError):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


class Stop:
    """Stop request for the process by a signal or another reason, and a repeated one, which cancels an orderly stop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._again = asyncio.Event()
        self._since = 0.0
        self._signals = _SIGNALS if hears_signals() else ()
        self.first: asyncio.Future[str] = self._loop.create_future()

    def because(self, reason: str) -> None:
        """Request an orderly stop, if none is requested yet."""
        if not self.first.done():
            self.first.set_result(reason)

    def hear(self, number: signal.Signals) -> None:
        """Handle a signal."""
        now = self._loop.time()
        if not self.first.done():
            self.because(number.name)
            self._since = now
        elif not self._again.is_set():
            if now - self._since >= SAME_S:
                self._again.set()
                self._since = now
        elif now - self._since > _HANGS_S:  # repeated signal: something does not end
            os._exit(1)

    async def unless_told_again(self, work: Coroutine[object, object, object]) -> bool:
        """Run some work to its end, or until a repeated signal cancels it; returns True if it ended."""
        if self._again.is_set():
            work.close()
            return False
        tasks = (asyncio.ensure_future(work), asyncio.ensure_future(self._again.wait()))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await cancel(*tasks)
        return not self._again.is_set()

    def said(self) -> str:
        """Return the reason of the stop, for the log."""
        return self.first.result() + (", told twice" if self._again.is_set() else "")

    def listen(self) -> None:
        """Handle SIGINT and SIGTERM until `close`; in other threads than the main one there are no signals."""
        for number in self._signals:
            hear_signal(self._loop, number, partial(self.hear, number))

    def close(self) -> None:
        """Restore the default actions of the signals."""
        for number in self._signals:
            ignore_signal(self._loop, number)
