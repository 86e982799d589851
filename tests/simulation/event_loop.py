"""Event loop with virtual time that runs several simulated processes, each of which can be stopped or killed at any moment.

A process is a context variable: every callback of a task belongs to the process in whose context it was scheduled. Callbacks of a stopped
process are kept until it continues, those of a killed one are dropped, so that its tasks vanish without cleanup as after kill -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import selectors
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from enum import Enum
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
_DISK_S = 0.002
"""Longest time that work in a thread takes."""


class State(Enum):
    """State of a simulated process."""

    RUNNING = "running"
    STOPPED = "stopped"
    DEAD = "dead"


class Process:
    """Simulated process. `context` is the one that its tasks run in."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.RUNNING
        self.at_death: list[Callable[[], object]] = []
        self._parked: list[Callable[[], object]] = []
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)

    def run(self, callback: Callable[..., object], arguments: tuple[object, ...]) -> None:
        """Call back now, after the process continues, or never."""
        if self.state is State.RUNNING:
            callback(*arguments)
        elif self.state is State.STOPPED:
            context = contextvars.copy_context()
            self._parked.append(lambda: asyncio.get_running_loop().call_soon(callback, *arguments, context=context))

    def stop(self) -> None:
        """SIGSTOP."""
        if self.state is State.RUNNING:
            self.state = State.STOPPED

    def carry_on(self) -> None:
        """SIGCONT."""
        if self.state is State.STOPPED:
            self.state = State.RUNNING
            parked, self._parked = self._parked, []
            for one in parked:
                one()

    def kill(self) -> None:
        """SIGKILL: no callback of the process runs from now on."""
        if self.state is not State.DEAD:
            self.state = State.DEAD
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimulatedLoop)
            loop.keep_tasks()
            self._parked.clear()
            for one in self.at_death:
                one()


_PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process | None:
    """Process whose code runs now; None for the world around the processes."""
    return _PROCESS.get()


class _NoFiles(selectors.DefaultSelector):
    """Selector that waits for nothing: the time it was to wait has passed."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("nothing is left that could happen")
        self.now += timeout
        return ()


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Event loop that begins at 0 and jumps to the next timer; work for threads is done in place and takes a random moment."""

    def __init__(self, random: Random) -> None:
        self._files = _NoFiles()
        super().__init__(self._files)
        self._random = random
        self._kept: list[asyncio.Task[Any]] = []
        self._over = False

    def time(self) -> float:
        return self._files.now

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        if context is None:
            context = contextvars.copy_context()
        process = context.get(_PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(process.run, callback, args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:  # type: ignore[override]
        if context is None:
            context = contextvars.copy_context()
        process = context.get(_PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, process.run, callback, args, context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            result = func(*args)
        except Exception as error:
            self.call_later(self._random.uniform(0, _DISK_S), _tell, future.set_exception, future, error)
        else:
            self.call_later(self._random.uniform(0, _DISK_S), _tell, future.set_result, future, result)
        return future

    def keep_tasks(self) -> None:
        """Hold on to all tasks, so that no coroutine of a killed process is closed by the garbage collector, which runs its cleanup."""
        self._kept = [task for task in self._kept if not task.done()]
        self._kept += asyncio.all_tasks(self)

    def drop(self) -> None:
        """Close whatever is left, without a word, and the loop."""
        self._over = True
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            closed: set[asyncio.Task[Any]] = set()
            while left := {*self._kept, *asyncio.all_tasks(self)} - closed:
                self._kept = []
                for task in left:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with contextlib.suppress(BaseException):
                        task.get_coro().close()  # type: ignore[union-attr]
                closed |= left
            self._ready.clear()  # type: ignore[attr-defined]
            self._scheduled.clear()  # type: ignore[attr-defined]
            self.close()


def _tell(setter: Callable[[Any], None], future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        setter(value)


class InlineExecutor:
    """Stand-in for `ThreadPoolExecutor` that does its work at once."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, *_: object, **__: object) -> None: ...


def simulate(main: Callable[[], Coroutine[Any, Any, T]], random: Random) -> T:
    """Run `main` on a loop of its own. What is left when it returns is dropped."""
    loop = SimulatedLoop(random)
    try:
        return loop.run_until_complete(main())
    finally:
        loop.drop()
