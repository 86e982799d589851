"""Engines that are libraries: statements run in a few separate processes, which are ended when they break their limits.

A thread or a library cannot be forced to stop; a process can. https://sqlite.org/c3ref/interrupt.html: an interrupt takes effect between
the steps of a statement, not inside of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import select
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import RLock
from typing import IO, Final, TypeVar

import msgspec

from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.engine_errors import failed, timed_out, unavailable
from toolgen.connectors.sql.execution.sandbox_process import ANSWER, COMMITTING, HEAD, LAST_ANSWER, READY, Order
from toolgen.core.clock import Clock
from toolgen.core.core_dumps import ALLOWED
from toolgen.core.pipe_buffer import POLLS_PIPES, PipeBuffer
from toolgen.model.call import Statement
from toolgen.model.result import Delivery, Error, Failed, Success

__all__ = ["FileEngine"]

_CHILDREN: Final = 4
_WAIT_S: Final = 3.0  # seconds to wait for a process while all are busy
_START_S: Final = 20.0
_GRACE_S: Final = 0.25  # seconds in addition to the statement's own limit, which the child enforces
_COMMIT_S: Final = 10.0  # seconds for a started commit: a file must not be left between two states
_RETRY_S: Final = 1.0
_OVERHEAD: Final = 4_000_000  # bytes of an answer besides rows: names and types of columns
_PIECE: Final = 1 << 18  # bytes read at once; a longer answer is parsed in a thread
_KEPT: Final = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "TZ",
    "TZDIR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "SYSTEMROOT",
    ALLOWED,
)
# The command line contains only this: the import path comes over the pipe.
_BEGIN: Final = (
    "import pickle, sys; module, sys.path[:] = pickle.load(sys.stdin.buffer.raw);"
    " from toolgen.connectors.sql.execution.sandbox_process import main; main(module)"
)

_T = TypeVar("_T")


class _BrokeError(Exception):
    """Ended child process, or one that sent an invalid message."""


class _Child:
    """Sandbox process. It runs one statement at a time, on the event loop of that statement; any thread may kill or end it."""

    def __init__(self, module: str, clock: Clock) -> None:
        """Start a process and wait until it is ready. Raises `OSError` when it cannot be started, `_BrokeError` when it does not get
        ready.
        """
        self._clock = clock
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own code
            [sys.executable, "-I", "-c", _BEGIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"MALLOC_ARENA_MAX": "2"},
            start_new_session=True,  # Ctrl-C is handled by the gateway, which lets statements end
        )
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._unread = bytearray()
        self._buffer = None if POLLS_PIPES else PipeBuffer(self._answers)
        try:
            self._get_ready(module)
        except BaseException:
            self.end()
            raise

    def _get_ready(self, module: str) -> None:
        self._orders.write(pickle.dumps((module, [os.path.abspath(path) for path in sys.path])))
        if self._buffer is not None:
            self._expect(self._buffer, HEAD.pack(READY, 0))
            return
        if not self._wait_for_data(_START_S) or self._answers.read(HEAD.size) != HEAD.pack(READY, 0):
            raise _BrokeError
        for pipe in (self._orders, self._answers):
            os.set_blocking(pipe.fileno(), False)

    def _expect(self, buffer: PipeBuffer, message: bytes) -> None:
        """Wait for the first message. Raises `_BrokeError` if it is another."""
        deadline = self._clock.monotonic() + _START_S
        while len(self._unread) < len(message):
            if not buffer.wait(deadline - self._clock.monotonic()) or not (piece := buffer.take()):
                raise _BrokeError
            self._unread += piece
        if self._unread != message:
            raise _BrokeError
        self._unread.clear()

    async def order(self, order: Order, deadline: float) -> None:
        """Send an order. Raises `_BrokeError` when the process has ended, `TimeoutError` when it has not read the order at `deadline`
        (of the loop).
        """
        if self._buffer is not None:
            await self._write_in_thread(order.packed(), deadline)
            return
        unsent = memoryview(order.packed())
        file, loop = self._orders.fileno(), asyncio.get_running_loop()
        while unsent:
            try:
                unsent = unsent[os.write(file, unsent) :]
            except BlockingIOError:
                if loop.time() >= deadline:
                    raise TimeoutError from None
                await _until(loop.add_writer, loop.remove_writer, file, deadline)
            except OSError as error:
                raise _BrokeError from error

    async def _write_in_thread(self, data: bytes, deadline: float) -> None:
        """Write in a thread, on platforms whose loop cannot wait for a pipe. After a timeout the process is ended, and the thread with
        it.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                await loop.run_in_executor(None, _write_all, self._orders, data)
        except TimeoutError:
            raise
        except OSError as error:
            raise _BrokeError from error

    async def message(self, longest: int, deadline: float) -> tuple[bytes, bytes]:
        """Return the next message. Raises `_BrokeError` when the process has ended or sends more than `longest` bytes, and
        `TimeoutError`.
        """
        await self._read_until(HEAD.size, deadline)
        kind, length = HEAD.unpack_from(self._unread)
        if length > longest:
            raise _BrokeError
        end = HEAD.size + length
        await self._read_until(end, deadline)
        data = bytes(self._unread[HEAD.size : end])
        del self._unread[:end]
        return kind, data

    def has_unread_data(self) -> bool:
        """Return True if the process has written data that was not read, or has ended."""
        return bool(self._unread) or self._wait_for_data(0)

    def kill(self) -> None:
        """Kill the process; a call that waits for its answer gets an error."""
        self._process.kill()

    def end(self, seconds: float = 0) -> bool:
        """End the process and wait for that. It has this many seconds to answer before.

        Return True if it wrote data that was not read.
        """
        deadline = self._clock.monotonic() + seconds
        while not self._answered() and (left := deadline - self._clock.monotonic()) > 0 and self._wait_for_data(left):
            if not (piece := self._piece()):
                break
            self._unread += piece
        self._process.kill()
        self._process.wait()
        if self._buffer is None:
            has_unread_data = bool(self._unread) or bool(self._answers.read(1))
            self._answers.close()
        else:  # its thread reads to the end and closes the pipe
            self._buffer.wait(_START_S)
            has_unread_data = bool(self._unread) or bool(self._buffer.take())
        with contextlib.suppress(OSError):
            self._orders.close()
        return has_unread_data

    def _piece(self) -> bytes:
        if self._buffer is not None:
            return self._buffer.take() or b""
        return os.read(self._answers.fileno(), _PIECE)

    def alive(self) -> bool:
        return self._process.poll() is None

    def _wait_for_data(self, seconds: float) -> bool:
        if self._buffer is not None:
            return self._buffer.wait(seconds)
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def _answered(self) -> bool:
        """Return True if the unread data contains an answer, not only the notice that the process commits."""
        at = 0
        while len(self._unread) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(self._unread, at)
            if kind != COMMITTING:
                return True
            at += HEAD.size + length
        return False

    async def _read_until(self, count: int, deadline: float) -> None:
        """Wait until so many bytes are unread. Data already in the pipe is read even after the deadline."""
        if self._buffer is not None:
            while len(self._unread) < count:
                await _wait_for_thread(self._buffer, deadline)
                piece = self._buffer.take()
                if piece is None:
                    raise TimeoutError
                if not piece:
                    raise _BrokeError
                self._unread += piece
            return
        file, loop = self._answers.fileno(), asyncio.get_running_loop()
        while len(self._unread) < count:
            await _until(loop.add_reader, loop.remove_reader, file, deadline)
            try:
                piece = os.read(file, _PIECE)
            except BlockingIOError:
                raise TimeoutError from None
            if not piece:
                raise _BrokeError
            self._unread += piece


class FileEngine:
    """Engine for statements on the file at `path`, each in its own session in one of a few processes."""

    def __init__(self, module: str, path: Path, clock: Clock) -> None:
        self._module = module
        self._path = path.absolute()
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(_CHILDREN)  # belongs to that loop
        # Threads that start and end processes.
        self._threads = ThreadPoolExecutor(max_workers=_CHILDREN, thread_name_prefix="sql")
        self._lock = RLock()
        self._idle: list[_Child] = []
        self._unclaimed: list[Future[_Child]] = []  # processes that start for cancelled statements
        self._closed = False
        weakref.finalize(self, _end, self._idle)  # cleanup without close(), and at the end of the interpreter

    async def run(self, statement: Statement) -> Success | Failed:
        return await self._run(self._order(statement, "query"))

    async def change(self, statement: Statement) -> Success | Failed:
        change = CommitState(statement)
        return change.ended(await self._run(self._order(statement, "change"), change))

    async def explain(self, statement: Statement) -> Success | Failed:
        return await self._run(self._order(statement, "explain"))

    async def close(self) -> None:
        """Accept no more statements; running statements end at their own deadline, and their processes with them."""
        with self._lock:
            self._closed = True
        _end(self._idle)

    def _order(self, statement: Statement, operation: str) -> Order:
        return Order(statement=statement, operation=operation, path=self._path)

    async def _run(self, order: Order, change: CommitState | None = None) -> Success | Failed:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._places = loop, asyncio.Semaphore(_CHILDREN)
        places = self._places
        if places.locked():
            try:
                async with asyncio.timeout(_WAIT_S):
                    await places.acquire()
            except TimeoutError:
                return unavailable(
                    f"{_CHILDREN} statements run on this database, which is the limit",
                    retry_after_s=_RETRY_S,
                )
        else:
            await places.acquire()
        try:
            return await self._placed(order, change)
        finally:
            places.release()

    async def _placed(self, order: Order, change: CommitState | None) -> Success | Failed:
        """Run an order within the statement's time, a grace period, and the start of a process."""
        try:
            child = await self._taken()
        except (OSError, _BrokeError):
            return unavailable("no process for the statement could be started", retry_after_s=_RETRY_S)
        if self._closed:
            self._give_back(child)
            return unavailable("the gateway is shutting down", retry_after_s=_RETRY_S)
        statement = order.statement
        began = self._clock.monotonic()
        try:
            result, last = await self._asked(child, order, change)
        except (_BrokeError, TimeoutError):
            if await self._ended(child) and change is not None:
                change.committing = True  # the commit started while the process was being ended
            if self._clock.monotonic() - began >= statement.timeout_s:
                return timed_out(statement)
            return failed(
                "response_too_large",
                "the statement was ended: it exceeds its memory limit",
                "ask for less: filter, or aggregate",
                Delivery(sql=statement.sql),
            )
        except BaseException:
            # The caller gave up: the process is ended, unless it commits.
            if change is not None and (change.committing or child.has_unread_data()):
                self._threads.submit(child.end, _COMMIT_S)
            else:
                child.kill()
                self._threads.submit(child.end)
            raise
        if last:
            await self._ended(child)
        else:
            self._give_back(child)
        return result

    async def _asked(self, child: _Child, order: Order, change: CommitState | None) -> tuple[Success | Failed, bool]:
        """Return the answer, and True if it was the last one of the process. Raises `_BrokeError` and `TimeoutError`."""
        statement = order.statement
        longest = 2 * statement.max_bytes + _OVERHEAD
        deadline = asyncio.get_running_loop().time() + statement.timeout_s + _GRACE_S
        await child.order(order, deadline)
        kind, data = await child.message(longest, deadline)
        if kind == COMMITTING and change is not None:
            change.committing = True
            kind, data = await child.message(longest, deadline + _COMMIT_S)
        if kind not in {ANSWER, LAST_ANSWER}:
            raise _BrokeError
        result = _read(data) if len(data) <= _PIECE else await self._in_thread(_read, data)
        if change is not None:
            change.committing = False  # the child knows the outcome
        return result, kind == LAST_ANSWER

    async def _taken(self) -> _Child:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                break
            if child.alive():
                return child
            child.end()
        with self._lock:
            starting = (
                self._unclaimed.pop() if self._unclaimed else self._threads.submit(_Child, self._module, self._clock)
            )
        try:
            return await asyncio.shield(asyncio.wrap_future(starting))
        except asyncio.CancelledError:
            # Kept for the next statement: callers that often cancel must not start processes each time.
            with self._lock:
                self._unclaimed.append(starting)
            starting.add_done_callback(self._started)
            raise

    def _started(self, starting: Future[_Child]) -> None:
        with self._lock:
            if starting not in self._unclaimed:
                return
            self._unclaimed.remove(starting)
            if starting.exception() is None:
                self._give_back(starting.result())

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(child)
                return
        child.end()

    async def _ended(self, child: _Child) -> bool:
        """Wait until the process has ended and its file is free. Return True if it wrote data that was not read."""
        child.kill()
        return await self._in_thread(child.end)

    async def _in_thread(self, work: Callable[..., _T], *given: object) -> _T:
        """Run `work` in a thread and return its result. The thread continues if the caller is cancelled."""
        return await asyncio.shield(asyncio.wrap_future(self._threads.submit(work, *given)))


async def _until(add: Callable[..., object], remove: Callable[[int], object], file: int, deadline: float) -> None:
    """Wait until a pipe can be written to or read from, or until `deadline` (of the loop). The caller then tries again.

    Uses a loop's `add_writer` and `remove_writer`, or `add_reader` and `remove_reader`.
    """
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    add(file, _set, ready)
    timer = loop.call_at(deadline, _set, ready)
    try:
        await ready
    finally:
        timer.cancel()
        remove(file)


async def _wait_for_thread(buffer: PipeBuffer, deadline: float) -> None:
    """Wait until a thread has read data, or until `deadline` (of the loop)."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def notify() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_set, ready)

    if buffer.listen(notify):
        _set(ready)
    timer = loop.call_at(deadline, _set, ready)
    try:
        await ready
    finally:
        timer.cancel()
        buffer.listen(None)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _write_all(pipe: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(pipe.fileno(), left) :]


def _end(idle: list[_Child]) -> None:
    while idle:
        idle.pop().end()


def _read(data: bytes) -> Success | Failed:
    """Parse the answer of a child process. Raises `_BrokeError` if the data is not an answer."""
    try:
        told = msgspec.json.decode(data)
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
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise _BrokeError from error
