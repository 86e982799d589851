"""Engines that are libraries: statements run in a few processes of their own, which are ended when they break their limits.

Neither a thread nor a library can be made to stop; a process can. https://sqlite.org/c3ref/interrupt.html: it takes effect between the
steps of a statement, not inside of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import select
import struct
import subprocess
import sys
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
import orjson
from msgspec import Struct, field

from toolgen.clock import Clock
from toolgen.core_dumps import ALLOWED
from toolgen.execute.sql.engine import Change
from toolgen.execute.sql.result_rows import failed, timed_out, unavailable
from toolgen.execute.sql.sandbox_process import ANSWER, COMMITTING, HEAD, LAST_ANSWER, Order
from toolgen.model.call import Statement
from toolgen.model.result import Delivery, Error, Failed, Success

__all__ = ["FileEngine"]

_CHILDREN: Final = 4
_WAIT_S: Final = 3.0  # for a child while all are busy
_START_S: Final = 20.0
_GRACE_S: Final = 0.25  # beyond the statement's own time, which the child keeps
_COMMIT_S: Final = 10.0  # a commit that was begun is given this long: a file is not left between two states
_RETRY_S: Final = 1.0
_OVERHEAD: Final = 4_000_000  # bytes of an answer that are not rows: names and types of columns
_KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ", "TZDIR", "LANG", "LC_ALL", "LC_CTYPE", ALLOWED)
# Nothing on its command line but this: where to find the code comes over the pipe.
_BEGIN: Final = (
    "import pickle, sys; dialect, sys.path[:] = pickle.load(sys.stdin.buffer.raw);"
    " from toolgen.execute.sql.sandbox_process import main; main(dialect)"
)


class _BrokeError(Exception):
    """The child is gone, or will not answer in time."""


class _Child:
    """One process. Used by one thread at a time; killed by any."""

    def __init__(self, dialect: str, clock: Clock) -> None:
        """Raises `OSError` when no process can be started, `_BrokeError` when it does not get ready."""
        self._clock = clock
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own code
            [sys.executable, "-I", "-c", _BEGIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"MALLOC_ARENA_MAX": "2"},
            start_new_session=True,  # Ctrl-C is for the gateway, which lets statements end
        )
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        try:
            self._send(pickle.dumps((dialect, [os.path.abspath(path) for path in sys.path])))
            self.message(clock.monotonic() + _START_S, 0)  # READY, as nothing else was asked
        except BaseException:
            self.end()
            raise

    def order(self, order: Order) -> None:
        data = pickle.dumps(order)
        self._send(struct.pack("<I", len(data)) + data)

    def message(self, deadline: float, longest: int) -> tuple[bytes, bytes]:
        """The next thing it says. Raises `_BrokeError` when it says nothing until `deadline`, or more than `longest` bytes."""
        kind, length = HEAD.unpack(self._read(HEAD.size, deadline))
        if length > longest:
            raise _BrokeError
        return kind, self._read(length, deadline)

    def kill(self) -> None:
        """Ends it now; a call that waits for its answer learns that it is gone."""
        self._process.kill()

    def end(self) -> None:
        """Ends it and waits until it is gone."""
        self._process.kill()
        with contextlib.suppress(OSError):
            self._orders.close()
        self._answers.close()
        self._process.wait()

    def alive(self) -> bool:
        return self._process.poll() is None

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._orders.write(view) or 0 :]
        except OSError as error:
            raise _BrokeError from error

    def _read(self, count: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < count:
            left = deadline - self._clock.monotonic()
            if left <= 0 or not self._poll.poll(1000 * left):
                raise _BrokeError
            piece = self._answers.read(min(count - len(data), 1 << 20))
            if not piece:
                raise _BrokeError
            data += piece
        return bytes(data)


class _Run(Struct):
    """One statement on its way through a thread and a child, and whether anybody still waits for it."""

    order: Order
    change: Change | None
    child: _Child | None = None
    stopped: bool = False
    _lock: Lock = field(default_factory=Lock)

    def took(self, child: _Child | None) -> bool:
        """False when nobody waits any more."""
        with self._lock:
            self.child = None if self.stopped else child
            return not self.stopped

    def stop(self) -> None:
        """Nobody waits any more: the child is ended, unless it commits."""
        with self._lock:
            self.stopped = True
            if self.child is not None and not (self.change is not None and self.change.committing):
                self.child.kill()


class FileEngine:
    """Runs statements on the file at `path`, each on a connection of its own, in one of a few processes."""

    def __init__(self, dialect: str, path: Path, clock: Clock) -> None:
        self._dialect = dialect
        self._path = path.absolute()
        self._clock = clock
        self._threads = ThreadPoolExecutor(max_workers=_CHILDREN, thread_name_prefix="sql")
        self._lock = Lock()
        self._idle: list[_Child] = []
        self._closed = False
        weakref.finalize(self, _end, self._idle)  # for those who forget to close, and when the interpreter ends

    async def run(self, statement: Statement) -> Success | Failed:
        return await self._run(_Run(self._order(statement, "query"), None))

    async def change(self, statement: Statement) -> Success | Failed:
        change = Change(statement)
        return change.ended(await self._run(_Run(self._order(statement, "change"), change)))

    async def explain(self, statement: Statement) -> Success | Failed:
        return await self._run(_Run(self._order(statement, "explain"), None))

    async def close(self) -> None:
        """Takes no more statements; those that run end at their own deadline, and their processes with them."""
        with self._lock:
            self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        _end(self._idle)

    def _order(self, statement: Statement, operation: str) -> Order:
        return Order(statement=statement, operation=operation, path=self._path)

    async def _run(self, run: _Run) -> Success | Failed:
        try:
            running = self._threads.submit(self._work, run)
        except RuntimeError:
            return unavailable("the gateway is shutting down", "call again later", retry_after_s=_RETRY_S)
        running.add_done_callback(_looked_at)
        answer = asyncio.wrap_future(running)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_S):
                    return await asyncio.shield(answer)
            if running.cancel():
                return unavailable(
                    f"{_CHILDREN} statements run on this database, and no more may at once",
                    "wait, then call again",
                    retry_after_s=_RETRY_S,
                )
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if not running.cancelled():
                run.stop()
            running.cancel()
            raise

    def _work(self, run: _Run) -> Success | Failed:
        """In a thread, which waits for the child. Never longer than the statement's time and a grace."""
        statement = run.order.statement
        try:
            child = self._taken()
        except (OSError, _BrokeError):
            return unavailable("no process for the statement could be started", "call again", retry_after_s=_RETRY_S)
        if not run.took(child):
            self._give_back(child)
            return timed_out(statement)
        began = self._clock.monotonic()
        try:
            result, last = self._asked(run, child, began)
        except _BrokeError:
            child.end()
            if run.stopped or self._clock.monotonic() - began >= statement.timeout_s:
                return timed_out(statement)
            return failed(
                "response_too_large",
                "the statement was ended: it needs more memory than it may use",
                "ask for less: filter, or aggregate",
                Delivery(sql=statement.sql),
            )
        except BaseException:
            child.end()
            raise
        if last or not run.took(None):
            child.end()
        else:
            self._give_back(child)
        return result

    def _asked(self, run: _Run, child: _Child, began: float) -> tuple[Success | Failed, bool]:
        statement = run.order.statement
        deadline = began + statement.timeout_s + _GRACE_S
        longest = 2 * statement.max_bytes + _OVERHEAD
        child.order(run.order)
        while True:
            kind, data = child.message(deadline, longest)
            if kind == COMMITTING and run.change is not None:
                run.change.committing = True
                deadline += _COMMIT_S
            elif kind in {ANSWER, LAST_ANSWER}:
                result = _read(data)
                if run.change is not None:
                    run.change.committing = False  # whatever became of it, the child knows
                return result, kind == LAST_ANSWER
            else:
                raise _BrokeError

    def _taken(self) -> _Child:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                return _Child(self._dialect, self._clock)
            if child.alive():
                return child
            child.end()

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(child)
                return
        child.end()


def _end(idle: list[_Child]) -> None:
    while idle:
        idle.pop().end()


def _read(data: bytes) -> Success | Failed:
    """What a child wrote. Raises `_BrokeError` for what is no answer."""
    try:
        told = orjson.loads(data)
        if "error" in told:
            return Failed(
                error=msgspec.convert(told["error"], Error), delivery=msgspec.convert(told["delivery"], Delivery)
            )
        return Success(
            data=told["data"],
            truncated=told["truncated"],
            next_cursor=told["next_cursor"],
            delivery=msgspec.convert(told["delivery"], Delivery),
        )
    except (orjson.JSONDecodeError, msgspec.ValidationError, KeyError, TypeError) as error:
        raise _BrokeError from error


def _looked_at(running: Future[Success | Failed]) -> None:
    """Looks at the outcome nobody may be waiting for any more, so that it is not reported as lost."""
    if not running.cancelled():
        running.exception()
