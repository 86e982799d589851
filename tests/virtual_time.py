"""An event loop whose time passes only when nothing else is left to do, and then at once: waiting costs nothing and is never late."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

_STUCK = "nothing is left that could happen"


class _Selector(selectors.DefaultSelector):
    """Never sleeps: the time it was to wait has passed."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError(_STUCK)
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Event loop that counts time from 0, in steps that end where a timer does. A test that would wait for ever fails.

    A test runs on it by a fixture `loop_factory` that returns this class."""

    def __init__(self) -> None:
        self._skipping = _Selector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now
