"""One call of a function that runs in another thread, and how what became of it comes back to the gateway's loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable
from typing import Any

from toolgen.model.line import InputNeeded

__all__ = ["Crowded", "Escaped", "Job", "telling"]


class Crowded(Exception):  # noqa: N818 - a state of things, as `Unasked` is
    """Everything that could run this function is taken by functions that have not ended."""


class Escaped(Exception):  # noqa: N818 - wraps what is no error of its own
    """A function raised what would end the thread, loop or task that it runs in: `SystemExit`, say."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


class Job:
    """One function under way. `home` is the loop that waits for `done`; all but `work` and `told` happens there.

    `given_up`: nobody waits for it any more.
    """

    __slots__ = ("context", "done", "given_up", "home", "name", "who", "work")

    def __init__(self, *, name: str, who: str, work: Callable[[], Any]) -> None:
        self.name = name
        self.who = who
        self.work = work
        self.context = contextvars.copy_context()
        self.home = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self.home.create_future()
        self.given_up = False

    def told(self, then: Callable[[Any, BaseException | None], None], value: Any, error: BaseException | None) -> bool:
        """From the function's thread: has `then` called at home. False where there is no home any more."""
        try:
            self.home.call_soon_threadsafe(then, value, error)
        except RuntimeError:  # the gateway's loop is closed
            return False
        return True

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Whoever waits for the job has its answer."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(value)
        else:
            self.done.set_exception(error)

    async def ending(self, seconds: float) -> None:
        """Waits a little for a function that was told to end, and whose first `done` was cancelled with whoever waited for it."""
        self.given_up = True
        self.done = self.home.create_future()
        try:
            await asyncio.wait([self.done], timeout=seconds)
        finally:
            if not self.done.cancel():
                with contextlib.suppress(BaseException):
                    self.done.result()  # nobody else asks how it ended


def telling(error: BaseException) -> BaseException:
    """What can be carried from thread to thread and raised there without ending more than the call."""
    if isinstance(error, InputNeeded):
        return error
    if isinstance(error, BaseExceptionGroup) and error.subgroup(InputNeeded) is not None:
        return error
    if isinstance(error, StopIteration) or not isinstance(error, Exception):
        return Escaped(error)
    return error
