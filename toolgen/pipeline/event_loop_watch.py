"""Time limits for the project's own coroutines, and log messages about code that blocks an event loop, where it cannot be interrupted.

A thread checks four times a second what runs in each loop, while there is something to check.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any

__all__ = ["WATCH", "given_to", "in_time"]

_logger = logging.getLogger("toolgen.middleware")
_INTERVAL_S = 0.25
_IDLE_ROUNDS = 40


class _Watch:
    """Watch of event loops. `given_over` has, by thread, the code that its event loop runs now, and its deadline (monotonic). After an
    addition, set `used`, or call `wake` if that is not set."""

    def __init__(self) -> None:
        self.given_over: dict[int, tuple[str, float]] = {}
        self.used = False
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Start the watch, unless it runs."""
        self.used = True
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._look, name="watching event loops", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        told: set[tuple[int, float]] = set()
        idle, never = 0, threading.Event()
        while idle < _IDLE_ROUNDS:
            never.wait(_INTERVAL_S)
            idle = 0 if self.used else idle + 1
            self.used = False  # if this thread ends now, the next use starts another one
            late = [(thread, *one) for thread, one in list(self.given_over.items()) if monotonic() > one[1]]
            for thread, name, deadline in late:
                idle = 0
                if (thread, deadline) not in told:
                    text = (
                        "%s blocks the event loop, %.1f s after its deadline: nothing else runs here until it returns"
                    )
                    _logger.error(text, name, monotonic() - deadline)
            told = {(thread, deadline) for thread, _, deadline in late}


WATCH = _Watch()


@contextmanager
def given_to(name: str, deadline: float) -> Iterator[None]:
    """Mark this thread as running some code, which has to return by `deadline` (monotonic), for the length of the block."""
    me = threading.get_ident()
    WATCH.given_over[me] = (name, deadline)
    if not WATCH.used:
        WATCH.wake()
    try:
        yield
    finally:
        del WATCH.given_over[me]


async def in_time(work: Coroutine[Any, Any, Any], deadline: float, name: str) -> Any:
    """Run `work` until the deadline and return its result. Work that never waits, as most does, gets no timer."""
    me = threading.get_ident()
    WATCH.given_over[me] = (name, deadline)
    if not WATCH.used:
        WATCH.wake()
    try:
        waiting = work.send(None)
    except StopIteration as end:
        return end.value
    finally:
        del WATCH.given_over[me]
    async with asyncio.timeout(max(0.0, deadline - monotonic())):
        return await _Resumed(work, waiting, deadline, name)


class _Resumed:
    """Coroutine that has begun, in the same task. After its deadline it is stopped, even if it catches the cancellation."""

    def __init__(self, work: Coroutine[Any, Any, Any], waiting: Any, deadline: float, name: str) -> None:
        self._work, self._waiting, self._deadline, self._name = work, waiting, deadline, name

    def __await__(self) -> Generator[Any, Any, Any]:
        work, waiting = self._work, self._waiting
        while True:
            step: Callable[[], Any]
            try:
                sent = yield waiting
                step = partial(work.send, sent)
            except BaseException as error:
                if monotonic() >= self._deadline:
                    _ended(work, error)
                    raise
                step = partial(work.throw, error)
            try:
                with given_to(self._name, self._deadline):
                    waiting = step()
            except StopIteration as end:
                return end.value


def _ended(work: Coroutine[Any, Any, Any], error: BaseException) -> None:
    """End a coroutine after its deadline."""
    try:
        work.throw(error)
        work.close()
    except BaseException as caught:  # noqa: BLE001 - whatever it makes of its end
        _logger.debug("a middleware ended with %s", type(caught).__name__)
