"""The log a gateway writes: entries chained in order, made durable together, acknowledged only then."""

from __future__ import annotations

import asyncio
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolgen.audit.entry import Entry, seal
from toolgen.audit.segment import Head, Segment
from toolgen.clock import Clock, timestamp
from toolgen.errors import AuditError, CanonicalError

__all__ = ["AuditLog", "Position"]

_STREAMS = 64
_LARGEST_BATCH = 256

Position = tuple[str, int]
"""Stream and sequence number: where an entry stands."""


class AuditLog:
    """Appends entries to the first stream of a directory that no other process is writing.

    A call that is alone in flight is written in place, which costs less than handing it to a thread; when several wait they share one
    sync in a thread, and the loop goes on. A failed write acknowledges nothing, and the next append tries to open the stream again.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._segment: Segment | None = None
        self._stream = ""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audit")
        self._waiting: list[tuple[Entry, asyncio.Future[Position]]] = []
        self._acknowledged = Head()
        self._writing = False
        self._crowded = False
        self._idle: asyncio.Future[None] | None = None
        self.key = b""
        self.fault: str | None = "the audit log is not open"

    @property
    def stream(self) -> str:
        """The stream this log writes; "" before it was opened."""
        return self._stream

    def open(self) -> None:
        """Opens a stream, recovering it where a crash tore it. Raises `AuditError` when that cannot be done."""
        self._open()

    def _open(self) -> Segment:
        try:
            self.key = _key(self._directory)
            segment, self._stream = self._free_stream()
            self._segment = segment
            if segment.torn:
                self._write_now([{"event": "recovered", "bytes": segment.torn}])
                segment.torn = 0
        except OSError as error:
            self._fail(error)
            raise AuditError(self.fault or "", where=str(self._directory)) from error
        except AuditError as error:
            self.fault = str(error)
            raise
        self.fault = None
        return segment

    async def append(self, fields: Entry) -> Position:
        """Adds an entry and returns its place once it is durable.

        Raises `AuditError` when it could not be made so, and `CanonicalError` when the fields are not JSON.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Position] = loop.create_future()
        self._waiting.append((fields, future))
        if not self._writing:
            self._writing = True
            loop.call_soon(self._begin)
        return await future

    async def close(self) -> None:
        """Writes what still waits and closes the stream cleanly."""
        if self._writing:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        self._thread.shutdown(wait=True)
        if self._segment is not None:
            self._segment.close()
            self._segment = None
        self.fault = "the audit log is not open"

    def _begin(self) -> None:
        batch, self._waiting = self._waiting[:_LARGEST_BATCH], self._waiting[_LARGEST_BATCH:]
        if self._segment is None or self.fault is not None or self._segment.changed():
            try:
                self._reopen()
            except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits is told
                known = (
                    error if isinstance(error, AuditError) else AuditError(f"the audit log cannot be opened: {error!r}")
                )
                self.fault = str(known)
                self._end(batch, [], known)
                return
        ready, data, head = self._sealed(batch)
        if not ready:
            self._end(ready, [], None)
            return
        positions = [(self._stream, number) for number in range(head.seq - len(ready) + 1, head.seq + 1)]
        if len(ready) == 1 and not self._crowded:
            self._end(ready, positions, self._write(data, head))
        else:
            loop = asyncio.get_running_loop()
            task = loop.run_in_executor(self._thread, self._write, data, head)
            task.add_done_callback(lambda done: self._end(ready, positions, done.result()))
        self._crowded = len(ready) > 1

    def _end(
        self,
        batch: list[tuple[Entry, asyncio.Future[Position]]],
        positions: list[Position],
        error: AuditError | None,
    ) -> None:
        for number, (_, future) in enumerate(batch):
            if future.done():
                continue
            if error is not None:
                future.set_exception(AuditError(error.message, where=error.where, suggestion=error.suggestion))
            else:
                future.set_result(positions[number])
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin)
        else:
            self._writing = False
            if self._idle is not None:
                self._idle.set_result(None)
                self._idle = None

    def _sealed(
        self, batch: list[tuple[Entry, asyncio.Future[Position]]]
    ) -> tuple[list[tuple[Entry, asyncio.Future[Position]]], bytes, Head]:
        """The batch chained behind the head as lines; what is no JSON fails alone."""
        assert self._segment is not None  # noqa: S101 - _begin has just opened it
        head, ready, data = self._segment.head, [], bytearray()
        for fields, future in batch:
            try:
                head, line = self._line(fields, head)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one entry must not hold up the others
                if not future.done():
                    expected = isinstance(error, CanonicalError)
                    future.set_exception(error if expected else AuditError(f"an entry is malformed: {error!r}"))
                continue
            ready.append((fields, future))
            data += line
        return ready, bytes(data), head

    def _line(self, fields: Entry, head: Head) -> tuple[Head, bytes]:
        time = timestamp(self._clock.now())
        digest, line = seal(fields, seq=head.seq + 1, stream=self._stream, time=time, prev=head.hash)
        return Head(seq=head.seq + 1, hash=digest), line

    def _write(self, data: bytes, head: Head) -> AuditError | None:
        """Runs in the thread or in place; nothing else touches the segment meanwhile."""
        segment = self._segment
        if segment is None:
            return AuditError("the audit log is not open")
        try:
            segment.write(data, head)
            self._acknowledged = head
        except (OSError, ValueError) as error:
            self._fail(error)
            return AuditError(self.fault or "", where=str(self._directory))
        return None

    def _write_now(self, entries: list[Entry]) -> None:
        assert self._segment is not None  # noqa: S101 - open has just set it
        for fields in entries:
            head, line = self._line(fields, self._segment.head)
            self._segment.write(line, head)

    def _reopen(self) -> None:
        """After a failure: the stream again, going on from the last entry that was acknowledged.

        Where entries are gone from the file, the next one still follows them by number and hash, so that `verify` says they are missing.
        """
        before, stream = self._acknowledged, self._stream
        if self._segment is not None:
            self._segment.abandon()
            self._segment = None
        segment = self._open()
        if self._stream == stream and segment.head.seq < before.seq:
            segment.head = before

    def _fail(self, error: OSError | ValueError) -> None:
        reason = getattr(error, "strerror", None) or type(error).__name__
        self.fault = f"the audit log cannot be written: {reason}"

    def _free_stream(self) -> tuple[Segment, str]:
        for number in range(1, _STREAMS + 1):
            stream = f"gateway-{number}"
            segment = Segment(self._directory / f"{stream}.jsonl")
            try:
                segment.open()
            except BlockingIOError:
                continue
            return segment, stream
        raise AuditError(f"all {_STREAMS} audit streams are in use", where=str(self._directory))


def _key(directory: Path) -> bytes:
    """The key of the digests that stand for sensitive values; made once for a directory and readable by its owner alone."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / "hmac.key"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        key = path.read_text(encoding="ascii").strip()
        if len(key) != 64:
            raise AuditError("holds no key of 64 hex digits", where=str(path)) from None
        return bytes.fromhex(key)
    made = secrets.token_hex(32)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(made + "\n")
        file.flush()
        os.fsync(file.fileno())
    return bytes.fromhex(made)
