"""Thread that runs one job at a time: the futures and wake-ups of a thread pool cost more than the jobs here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

__all__ = ["Writer"]

T = TypeVar("T")
_Job = tuple[Callable[[], T], Callable[[T], object]]


class Writer(Generic[T]):
    """Thread that runs jobs in order and passes their results on."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    def put(self, work: Callable[[], T], then: Callable[[T], object]) -> None:
        """Run `work`, which must not raise, and then `then` with its result, both in the thread."""
        self._jobs.put((work, then))

    def stop(self) -> None:
        """Stop after all jobs were done."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, then = job
            result = work()
            with contextlib.suppress(RuntimeError):  # the event loop that waited was closed
                then(result)
