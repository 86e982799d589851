"""Log of a gateway: entries are chained in order, made durable together, and acknowledged only afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from toolgen.audit.batch import AuditCounts, Batch, FullError, Position, Waiting, cannot_be_written
from toolgen.audit.config import AuditPlan
from toolgen.audit.entry import Entry, seal, shortened, timestamp
from toolgen.audit.files import MAX_LINE_LENGTH
from toolgen.audit.left_open import left_open
from toolgen.audit.maintenance import Maintenance
from toolgen.audit.reader import entries
from toolgen.audit.segment import ENDING_BYTES, BusyFileError, EndingRoom, NoRoomError, Segment, SegmentMark, StreamHead
from toolgen.audit.writer_thread import Writer
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, CanonicalError
from toolgen.core.key_file import kept_key

__all__ = ["AuditCounts", "AuditLog", "Position"]

_logger = logging.getLogger(__name__)
_STREAMS = 64
_WHO = ("call_id", "principal", "on_behalf_of", "tool", "session", "client", "parent")
_MAX_BATCH = 256
_RETRY_S, _MAX_WAIT_S = 1.0, 30.0
_BEGINNING_BYTES = 2 * ENDING_BYTES  # typical size of an intent, and the space that is reserved for its outcome


class AuditLog:
    """Appends entries to the first stream of a directory that no other process writes.

    An entry that waits alone is written in place, which costs less than a thread; several that wait share one sync in a thread, while the
    event loop continues. A failed write acknowledges nothing, and the next append continues from the last acknowledged entry; so does a
    timer, for a gateway that gets no calls while it is not ready. Each intent reserves space for its outcome, so that a full disk refuses
    a call before it is made, and never the record of its outcome.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        plan: AuditPlan | None = None,
        *,
        is_read: Callable[[str], bool] = lambda tool: False,
    ) -> None:
        """Create the log; `is_read` is true for the name of a tool that changes nothing."""
        self._directory = directory
        self._clock = clock
        self._plan = plan or AuditPlan()
        self._segment: Segment | None = None
        self._stream = ""
        self._writer: Writer[AuditError | None] | None = None
        self._maintenance: Maintenance | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[Waiting] = []
        self._acknowledged = SegmentMark(first=1, size=0, head=StreamHead())
        self._writing = False
        self._crowded = False
        self._idle: asyncio.Future[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._broken: str | None = "the audit log is not open"
        self._full = ""
        self._room = EndingRoom()
        self._entries: dict[str, int] = {}
        self._is_read = is_read
        self._left_open = {"read": 0, "write": 0}
        self._lost = 0
        self._writes, self._writing_s = 0, 0.0
        self.key = b""

    @property
    def directory(self) -> Path:
        """Return the folder of the log, with the streams of all workers."""
        return self._directory

    @property
    def stream(self) -> str:
        """Return the stream that this log writes; "" before it was opened."""
        return self._stream

    @property
    def size(self) -> int:
        """Return the number of the last acknowledged entry."""
        return self._acknowledged.head.seq

    @property
    def fault(self) -> str | None:
        """Return the reason why nothing can be recorded, or no call may begin; None if there is none."""
        return (
            self._broken or self._full or (self._maintenance.blocked() if self._maintenance is not None else "") or None
        )

    def warnings(self) -> tuple[str, ...]:
        """Return the faults of the log's maintenance: signing, delivering, compressing, removing."""
        return self._maintenance.faults() if self._maintenance is not None else ()

    def counts(self) -> AuditCounts:
        """Return the counts of entries that this process wrote and of those that wait."""
        made = AuditCounts(
            entries=dict(self._entries),
            lost=self._lost,
            left_open=self._left_open,
            writes=self._writes,
            writing_s=self._writing_s,
            waiting=len(self._waiting),
        )
        if self._maintenance is None:
            return made
        unsigned, undelivered_s = self._maintenance.behind(self.size)
        return replace(made, unsigned=unsigned, undelivered_s=undelivered_s)

    def probe(self) -> None:
        """Check whether a call could be recorded, if no write is in progress; `fault` has the result before a call is refused for it."""
        segment = self._segment
        if self._writing or segment is None or self._broken is not None or self._full:
            return
        try:
            if segment.changed():
                segment = self._open(self._acknowledged)
            segment.reserve(self._room.total + _BEGINNING_BYTES)
        except NoRoomError as error:
            self._full = cannot_be_written(error)
        except OSError as error:
            self._fail(error)
        except AuditError:
            pass  # `_open` has logged the reason
        self._try_later()

    def open(self) -> None:
        """Open a stream, and recover it after a crash. Raises `AuditError` if that is impossible."""
        with contextlib.suppress(RuntimeError):  # opened without an event loop: the first append sets it
            self._loop = asyncio.get_running_loop()
        self._open(None)

    async def end_abandoned(self, waits_as: Callable[[str], Awaitable[str | None]]) -> None:
        """Record the outcome of calls that the last writer of this stream had in flight when it died: `outcome_unknown`, and `cancelled`
        for reads. Nothing is read if the stream was closed cleanly.

        A call in the store ends later. `waits_as` returns the code with which it waits, which is recorded with the status `pending`, or ""
        to record nothing; None for a call that the store does not have. Raises `AuditError` if the log cannot be read.
        """
        segment = self._segment
        if segment is None or not segment.crashed:
            return
        segment.crashed = False
        begun: dict[str, Entry] = {}
        for entry in entries(self._directory, self._stream, max(1, segment.first - 1)):
            match entry.get("event"):
                case "intent":
                    begun[entry["call_id"]] = entry
                case "outcome":
                    begun.pop(entry["call_id"], None)
                case "decision" if "code" in entry:
                    begun.pop(entry["call_id"], None)
        outcomes = []
        codes = await asyncio.gather(*map(waits_as, begun))
        for intent, waits in zip(begun.values(), codes, strict=True):
            read = self._is_read(str(intent.get("tool")))
            status, code = ("cancelled", "cancelled") if read else ("error", "outcome_unknown")
            if waits is not None:
                status, code = "pending", waits
            if code:
                who = {name: intent[name] for name in _WHO if name in intent}
                outcomes.append({"event": "outcome", **who, "status": status, "code": code})
        with contextlib.suppress(AuditError):  # the log says so itself, and takes no calls
            await asyncio.gather(*map(self.append, outcomes))

    async def append(self, fields: Entry) -> Position:
        """Append an entry and return its place once it is durable.

        Raises `AuditError` if that fails, and `CanonicalError` if the fields are not JSON.
        """
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Position] = loop.create_future()
        self._waiting.append((fields, future))
        if not self._writing:
            self._writing = True
            loop.call_soon(self._begin)
        return await future

    async def close(self) -> None:
        """Write the waiting entries and close the stream cleanly."""
        await self._settled()
        if self._maintenance is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._maintenance.stop)
            self._maintenance = None
            await self._settled()
        if self._retry is not None:
            self._retry.cancel()
        if self._writer is not None:
            self._writer.stop()
            self._writer = None
        if self._segment is not None:
            self._segment.close()
            self._segment = None
        self._broken = "the audit log is not open"

    async def _settled(self) -> None:
        if self._writing:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def _open(self, mark: SegmentMark | None) -> Segment:
        try:
            self.key = _key(self._directory)
            held = self._held_stream(mark)
            segment, self._stream = held or self._free_stream()
            if mark is not None and self._segment is segment and segment.head.seq < mark.head.seq:
                # Entries are missing in the file. The next one still follows them by number and hash, so that `verify` reports the gap.
                segment.head = mark.head
                segment.first = segment.first if segment.size else mark.head.seq + 1
            self._segment = segment
            left = {} if held is not None or not segment.crashed else self._found_open()
            if segment.torn or left:
                said = {"bytes": segment.torn or None, "arguments": {"left_open": len(left)} if left else None}
                self._write_now({"event": "recovered", **said})
                segment.torn = 0
        except OSError as error:
            self._fail(error)
            raise AuditError(self._broken or "", where=str(self._directory)) from error
        except AuditError as error:
            self._broken = str(error)
            raise
        self._acknowledged = segment.mark
        self._broken = None
        self._look_after()
        return segment

    def _begin(self) -> None:
        batch, self._waiting = self._waiting[:_MAX_BATCH], self._waiting[_MAX_BATCH:]
        if self._segment is None or self._broken is not None or self._segment.changed():
            try:
                self._open(self._acknowledged)
            except Exception as error:  # noqa: BLE001 - every error is passed to the waiters
                known = (
                    error if isinstance(error, AuditError) else AuditError(f"the audit log cannot be opened: {error!r}")
                )
                self._broken = str(known)
                self._end(Batch(waiting=batch), known)
                return
        made = self._sealed(batch)
        if not made.waiting:
            self._end(made, None)
        elif len(made.waiting) == 1 and not self._crowded and not made.due:
            self._end(made, self._write(made))
        else:
            self._in_thread(made)
        self._crowded = len(made.waiting) > 1

    def _in_thread(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        if self._writer is None:
            self._writer = Writer()
        self._writer.put(lambda: self._write(batch), lambda error: loop.call_soon_threadsafe(self._end, batch, error))

    def _end(self, batch: Batch, error: AuditError | None) -> None:
        if isinstance(error, FullError):
            again = self._that_fit(batch)
            tried = {id(future) for _, future in again}
            self._waiting[:0] = again
            batch = Batch(waiting=[item for item in batch.waiting if id(item[1]) not in tried], begins=batch.begins)
        elif error is None and batch.begins:
            self._full = ""
        seq = batch.head.seq - len(batch.waiting)
        for entry, future in batch.waiting:
            seq += 1
            if error is None:  # counted here, because a separate function would be entered twice per call
                event = entry.get("event", "")
                self._entries[event] = self._entries.get(event, 0) + 1
                if event == "decision" and entry.get("code") == "outcome_unknown":
                    self._lost += 1
            if future.done():
                continue
            if error is not None:
                future.set_exception(AuditError(error.message, where=error.where, suggestion=error.suggestion))
            else:
                future.set_result((self._stream, seq))
        if error is not None:
            self._try_later()
            for entry, _ in batch.waiting:
                if entry.get("event") == "intent":
                    self._room.release(entry)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin)
        else:
            self._writing = False
            if self._idle is not None:
                self._idle.set_result(None)
                self._idle = None

    def _sealed(self, waiting: list[Waiting]) -> Batch:
        """Return the batch as lines, chained to the head; an entry that is not valid JSON fails alone."""
        segment = self._segment
        assert segment is not None  # noqa: S101 - _begin has just opened it
        now = self._clock.now()
        time, (seq, digest) = timestamp(now), (segment.head.seq, segment.head.hash)
        ready: list[Waiting] = []
        data = bytearray()
        hashes: list[str] = []
        room: list[tuple[int, bool]] = []
        begins = False
        for item in waiting:
            event = item[0].get("event")
            try:
                if event == "intent" and self._maintenance is not None and (why := self._maintenance.blocked()):
                    raise AuditError(why)  # noqa: TRY301 - passed to the waiters like every other error
                sealed, line = seal(item[0], seq=seq + 1, stream=self._stream, time=time, prev=digest)
                if len(line) > MAX_LINE_LENGTH:
                    raise AuditError("it would be longer than any entry may be")  # noqa: TRY301 - as above
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one entry must not hold up the others
                if not item[1].done():
                    expected = isinstance(error, CanonicalError | AuditError)
                    item[1].set_exception(error if expected else AuditError(f"an entry is malformed: {error!r}"))
                continue
            kept = self._room.add(item[0], len(line))
            fits = kept >= len(line)
            begins = begins or not fits
            room.append((kept, fits))
            seq, digest = seq + 1, sealed
            ready.append(item)
            hashes.append(digest)
            data += line
        head = StreamHead(seq=seq, hash=digest)
        old = segment.since is not None and now - segment.since >= self._plan.segment_s
        return Batch(
            waiting=ready,
            data=bytes(data),
            hashes=hashes,
            head=head,
            time=now,
            reserve=self._room.total,
            room=room,
            begins=begins,
            due=segment.size > 0 and (old or segment.size >= self._plan.segment_bytes),
        )

    def _that_fit(self, batch: Batch) -> list[Waiting]:
        """Return the part of a batch that is written although there is no room for all of it: entries with reserved room, and outcomes
        whose statement exceeds its reservation, with a digest in place of the statement."""
        found: list[Waiting] = []
        for (entry, future), (kept, fits) in zip(batch.waiting, batch.room, strict=True) if batch.begins else ():
            told = entry if fits else shortened(entry, self.key)
            if told is not None:
                self._room.restore(entry, kept)
                found.append((told, future))
        return found

    def _write(self, batch: Batch) -> AuditError | None:
        """Write a batch, in the thread or in place; nothing else uses the segment meanwhile."""
        segment, maintenance = self._segment, self._maintenance
        if segment is None:
            return AuditError("the audit log is not open")
        first = batch.head.seq - len(batch.hashes) + 1
        began = time.perf_counter()
        try:
            if batch.due:
                self._rotate(segment, first, len(batch.data) + batch.reserve)
            self._acknowledged = segment.write(
                batch.data, batch.head, batch.time, reserve=batch.reserve, begins=batch.begins
            )
        except NoRoomError as error:
            self._full = cannot_be_written(error)
            return FullError(self._full, where=str(self._directory))
        except (OSError, ValueError) as error:
            self._fail(error)
            return AuditError(self._broken or "", where=str(self._directory))
        self._writes, self._writing_s = self._writes + 1, self._writing_s + time.perf_counter() - began
        if maintenance is not None:
            maintenance.note(first, batch.hashes)
        return None

    def _rotate(self, segment: Segment, first: int, reserve: int) -> None:
        """Close the segment, unless there is no space to begin another, or a reader has it open on Windows."""
        try:
            segment.rotate(reserve)
        except (NoRoomError, BusyFileError):
            return
        self._acknowledged = segment.mark
        if self._maintenance is not None:
            self._maintenance.note(first, ())

    def _write_now(self, fields: Entry) -> None:
        segment = self._segment
        assert segment is not None  # noqa: S101 - _open has just set it
        now, head = self._clock.now(), segment.head
        digest, line = seal(fields, seq=head.seq + 1, stream=self._stream, time=timestamp(now), prev=head.hash)
        segment.write(line, StreamHead(seq=head.seq + 1, hash=digest), now)
        if self._maintenance is not None:
            self._maintenance.note(head.seq + 1, (digest,))

    def _held_stream(self, mark: SegmentMark | None) -> tuple[Segment, str] | None:
        """Return the stream that this process writes already, reopened after the last acknowledged entry; None if there is none or
        another process took it."""
        if self._segment is None:
            return None
        try:
            self._segment.open(mark)
        except BlockingIOError:
            self._segment = None
            return None
        return self._segment, self._stream

    def _found_open(self) -> dict[str, str]:
        """Return the calls that the last writer of the stream left open; they are logged and counted."""
        try:
            found = left_open(self._directory, self._stream)
        except AuditError as error:
            _logger.warning("the calls that %s left open cannot be read: %s", self._stream, error)
            return {}
        reads = sum(map(self._is_read, found.values()))
        self._left_open = {"read": reads, "write": len(found) - reads}
        if found:
            _logger.warning(
                "%s had left %d calls open, %d of them may have changed something: `toolgen audit reconcile` lists those",
                self._stream,
                len(found),
                len(found) - reads,
            )
        return found

    def _free_stream(self) -> tuple[Segment, str]:
        for number in range(1, _STREAMS + 1):
            stream = f"gateway-{number}"
            segment = Segment(self._directory, stream)
            try:
                segment.open()
            except BlockingIOError:
                continue
            return segment, stream
        raise AuditError(f"all {_STREAMS} audit streams are in use", where=str(self._directory))

    def _look_after(self) -> None:
        """Start the maintenance of this stream when it is first opened."""
        if self._maintenance is not None and self._maintenance.stream != self._stream:
            self._maintenance.leave()
            self._maintenance = None
        if self._maintenance is None:
            self._maintenance = Maintenance(self._directory, self._stream, self._plan, self._clock, self._record)
            self._maintenance.start(lambda: self._acknowledged.head)

    def _record(self, fields: Entry) -> None:
        """Append from the maintenance thread, and wait there."""
        if self._loop is None:
            raise AuditError("no call was recorded yet")
        task = asyncio.run_coroutine_threadsafe(self.append(fields), self._loop)
        try:
            task.result(_MAX_WAIT_S)
        except TimeoutError:
            task.cancel()
            raise AuditError("the entry was not recorded in time") from None

    def _try_later(self) -> None:
        """Check again after a while: a load balancer sends no requests to a gateway that is not ready."""
        if self._retry is None and (self._broken is not None or self._full):
            self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self._broken is not None and not self._writing:
            with contextlib.suppress(AuditError):
                self._open(self._acknowledged)
        elif self._full and not self._writing and self._segment is not None:
            with contextlib.suppress(OSError):
                self._segment.reserve(self._room.total + _BEGINNING_BYTES)
                self._full = ""
        self._try_later()

    def _fail(self, error: OSError | ValueError) -> None:
        self._broken = cannot_be_written(error)


def _key(directory: Path) -> bytes:
    """Return the key for digests of sensitive values; it is created once for a directory, and only its owner can read it."""
    path = directory / "hmac.key"
    try:
        return kept_key(path)
    except ValueError:
        raise AuditError("contains no key of 64 hex digits", where=str(path)) from None
