"""Process for statements on a file: one at a time, in limited memory, ended with the gateway or by it.

Orders arrive as pickles and answers are sent as JSON: the process trusts the gateway, and the gateway never executes data from the process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from threading import Condition, Thread
from typing import ClassVar, Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.engine_errors import failed
from toolgen.connectors.sql.execution.statement_watch import StatementWatch
from toolgen.core.clock import SystemClock
from toolgen.core.core_dumps import forbid_core_dumps
from toolgen.core.pipe_buffer import POLLS_PIPES, PipeBuffer
from toolgen.core.system_modules import system_module
from toolgen.model.call import Statement
from toolgen.model.result import Delivery, Failed, Success

__all__ = ["ANSWER", "COMMITTING", "HEAD", "LAST_ANSWER", "OUT_OF_MEMORY", "READY", "Order", "main"]

_HAS_ALARM: Final = hasattr(signal, "setitimer") and hasattr(signal, "sigwait") and POLLS_PIPES
_resource = system_module("resource")

HEAD: Final = struct.Struct("<cI")
"""Header of each message of a child: its kind, and the number of bytes of JSON that follow."""
READY: Final = b"r"
COMMITTING: Final = b"c"
ANSWER: Final = b"a"
LAST_ANSWER: Final = b"l"
"""Last answer of a child: it holds more memory than allowed, and ends."""
OUT_OF_MEMORY: Final = ("the statement exceeds its memory limit", "reduce the result: filter, or aggregate")

_NAG_S: Final = 0.05
_REST_S: Final = 1.0
_LENGTH: Final = struct.Struct("<I")


class Order(Struct, frozen=True, kw_only=True):
    """Order for a sandbox process: a statement and the operation to perform (query, explain or change)."""

    statement: Statement
    operation: str
    path: Path

    def packed(self) -> bytes:
        """Serialize the order. Only the values are sent, which is faster than pickling an object."""
        data = pickle.dumps((self.operation, str(self.path), astuple(self.statement)))
        return _LENGTH.pack(len(data)) + data

    @classmethod
    def read(cls) -> Order:
        """Read the next order from the gateway."""
        operation, path, values = pickle.loads(_read(_LENGTH.unpack(_read(_LENGTH.size))[0]))  # noqa: S301 - the gateway's own
        statement = Statement(**dict(zip(Statement.__struct_fields__, values, strict=True)))
        return cls(statement=statement, operation=operation, path=_path(path))


_path = lru_cache(maxsize=16)(Path)  # path of the engine's one file, parsed once


class FileModule(Protocol):
    """Module that runs statements on files of one engine. `EXPLAIN` is the prefix of a plan, and `MEMORY` the bytes of memory for
    statements.
    """

    EXPLAIN: str
    MEMORY: int

    def rest(self) -> None: ...

    def query(self, path: Path, statement: Statement, prefix: str, watch: StatementWatch) -> Success | Failed: ...

    def change(
        self, path: Path, change: CommitState, watch: StatementWatch, committing: Callable[[], None]
    ) -> Success | Failed: ...


def main(module: str) -> None:
    """Execute orders until the gateway closes its end. The engine's library is loaded first, so that its memory does not count."""
    forbid_core_dumps()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # printed text must not come between answers
    engine: FileModule = import_module(module)
    alarm = _Alarm()
    memory = _memory_reader()
    roof = _bound_memory(engine.MEMORY, memory())
    _send(answers.fileno(), READY, b"")
    waits = _orders_by_poll() if POLLS_PIPES else _orders_by_thread()
    while True:
        if not waits(_REST_S):
            engine.rest()
        order = Order.read()
        with alarm.set(order.statement.timeout_s) as watch:
            try:
                result = _execute(engine, order, watch, answers.fileno())
            except (MemoryError, RecursionError):
                result = failed("response_too_large", *OUT_OF_MEMORY, Delivery(sql=order.statement.sql))
        last = bool(roof) and memory() > roof
        _send(answers.fileno(), LAST_ANSWER if last else ANSWER, _written(result, order))
        if last:
            os._exit(0)


def _orders_by_poll() -> Callable[[float], bool]:
    poll = select.poll()
    poll.register(0, select.POLLIN)
    return lambda seconds: bool(poll.poll(1000 * seconds))


def _orders_by_thread() -> Callable[[float], bool]:
    """Return the function that waits for an order, which a thread reads. The thread also ends the process when the gateway has ended."""
    _Input.buffer = PipeBuffer(os.fdopen(0, "rb", buffering=0, closefd=False), at_end=lambda: os._exit(0))
    return _Input.buffer.wait


class _Input:
    """Standard input read by a thread, with its unused bytes."""

    buffer: ClassVar[PipeBuffer | None] = None
    unread: ClassVar[bytearray] = bytearray()


class _Alarm:
    """Timer that interrupts a statement at its time limit, and a watch that ends the process when the gateway has ended.

    Two sleeping threads: a statement has no overhead, because the kernel counts its time.
    """

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._watch: StatementWatch | None = None
        self._change = Condition()
        if not _HAS_ALARM:
            Thread(target=self._nag_by_thread, daemon=True).start()
            return
        # Blocked in all later threads too, those of the library included: the alarm only wakes the thread that waits for it, and interrupts
        # no system call.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        for work in (self._nag, _end_with_the_gateway):
            Thread(target=work, daemon=True).start()

    @contextlib.contextmanager
    def set(self, seconds: float) -> Iterator[StatementWatch]:
        """Set the timer for one statement with this limit."""
        self._watch = watch = StatementWatch(clock=self._clock, deadline=self._clock.monotonic() + seconds)
        if _HAS_ALARM:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, _NAG_S), _NAG_S)
        else:
            with self._change:
                self._change.notify()
        try:
            yield watch
        finally:
            if _HAS_ALARM:
                signal.setitimer(signal.ITIMER_REAL, 0)
            self._watch = None

    def _nag(self) -> None:
        while True:
            signal.sigwait({signal.SIGALRM})
            if (watch := self._watch) is not None:
                watch.nag()

    def _nag_by_thread(self) -> None:
        """Check the time from a thread while a statement runs, on kernels without timers for processes."""
        while True:
            with self._change:
                watch = self._watch
                if watch is None:
                    self._change.wait()
                    continue
                self._change.wait(max(watch.deadline - self._clock.monotonic(), _NAG_S))
            if self._watch is watch and self._clock.monotonic() >= watch.deadline:
                watch.nag()


def _end_with_the_gateway() -> None:
    poll = select.poll()
    poll.register(0, select.POLLHUP)
    poll.poll()
    os._exit(0)


def _execute(engine: FileModule, order: Order, watch: StatementWatch, answers: int) -> Success | Failed:
    statement = order.statement
    result: Success | Failed
    if order.operation == "change":
        change = CommitState(statement)
        result = engine.change(order.path, change, watch, partial(_send, answers, COMMITTING, b""))
        return change.ended(result)
    prefix = engine.EXPLAIN if order.operation == "explain" else ""
    result = engine.query(order.path, statement, prefix, watch)
    return result


def _read(count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = (
            os.read(0, count - len(data)) if _Input.buffer is None else _from_thread(_Input.buffer, count - len(data))
        )
        if not piece:
            os._exit(0)
        data += piece
    return data


def _from_thread(buffer: PipeBuffer, count: int) -> bytes:
    while not _Input.unread:
        buffer.wait(_REST_S)
        _Input.unread += buffer.take() or b""
    piece = bytes(_Input.unread[:count])
    del _Input.unread[:count]
    return piece


def _send(file: int, kind: bytes, data: bytes) -> None:
    message = memoryview(HEAD.pack(kind, len(data)) + data)
    try:
        while message:
            message = message[os.write(file, message) :]
    except OSError:
        os._exit(0)


def _written(result: Success | Failed, order: Order) -> bytes:
    match result:
        case Success():
            shown: dict[str, object] = {
                "data": result.data,
                "truncated": result.truncated,
                "next_cursor": result.next_cursor,
                "delivery": msgspec.to_builtins(result.delivery),
            }
        case Failed():
            error = result.error
            shown = {
                "error": {name: getattr(error, name) for name in error.__struct_fields__},
                "delivery": msgspec.to_builtins(result.delivery),
            }
    try:
        return msgspec.json.encode(shown)
    except (TypeError, ValueError, RecursionError, MemoryError):
        return _written(failed("response_too_large", *OUT_OF_MEMORY), order)


def _bound_memory(more: int, used: int) -> int:
    """Allow at most `more` bytes of address space besides those in use. Return the size at which the process should end, or 0 if
    unknown.
    """
    if not used or _resource is None:
        return 0
    with contextlib.suppress(OSError, ValueError):
        _resource.setrlimit(_resource.RLIMIT_AS, (used + more, used + more))
    return used + more // 2


def _memory_reader() -> Callable[[], int]:
    """Return a function for the bytes of address space in use (Linux: proc(5), statm), which returns 0 if the system has no such number."""
    try:
        statm, page = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC), os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return lambda: 0
    return lambda: int(os.pread(statm, 40, 0).split()[0]) * page
