"""Runs the project's own coroutines within their time, and says which of its code holds up an event loop: nothing can break it off there.

A thread looks four times a second at what each loop is given over to, for as long as there is something to look at.
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
    """`given_over` has by thread what runs in its event loop now, and until when it should have come back (monotonic). Who adds to it
    says so: sets `used`, or calls `wake` where that is not set."""

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
            self.used = False  # the next use begins another thread, should this one end now
            late = [(thread, *one) for thread, one in list(self.given_over.items()) if monotonic() > one[1]]
            for thread, name, deadline in late:
                idle = 0
                if (thread, deadline) not in told:
                    text = (
                        "%s holds up the event loop, %.1f s over its time: nothing else goes on here until it returns"
                    )
                    _logger.error(text, name, monotonic() - deadline)
            told = {(thread, deadline) for thread, _, deadline in late}


WATCH = _Watch()


@contextmanager
def given_to(name: str, deadline: float) -> Iterator[None]:
    """For the length of the block this thread is given over to some code, which is to come back by `deadline` (monotonic)."""
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
    """A coroutine that has begun, in the same task. When its time is over it goes no further, whatever it does about that."""

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
    """Ends a coroutine whose time is over."""
    try:
        work.throw(error)
        work.close()
    except BaseException as caught:  # noqa: BLE001 - whatever it makes of its end
        _logger.debug("a middleware ended with %s", type(caught).__name__)
