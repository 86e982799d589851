"""An event loop whose time passes only when nothing else is left to do, and then at once: waiting costs nothing and is never late."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
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


class _Loop(asyncio.SelectorEventLoop):
    """Counts time from 0, in steps that end where a timer does."""

    def __init__(self) -> None:
        self._skipping = _Selector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs a test, in which `asyncio.get_running_loop().time()` begins at 0. One that would wait for ever fails."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(main)
