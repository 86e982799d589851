"""Segment of a stream that is being written: preallocated, appended to, made durable, recovered after a crash, and closed."""

from __future__ import annotations

import contextlib
import errno
import os
from datetime import datetime
from pathlib import Path

import msgspec

from toolgen.audit.entry import FIRST, Entry, is_whole, parsed
from toolgen.audit.files import active_path, bounded, closed_name, closed_segments, lines, opened
from toolgen.core.descriptors import (
    RENAMES_OPEN_FILES,
    open_descriptor,
    read_at,
    sync,
    sync_content,
    sync_folder,
    write_at,
)
from toolgen.core.errors import AuditError
from toolgen.core.file_lock import lock

__all__ = [
    "ENDING_BYTES",
    "BusyFileError",
    "EndingRoom",
    "NoRoomError",
    "Segment",
    "SegmentMark",
    "StreamHead",
    "last_of",
]

ENDING_BYTES = 8 * 1024
"""Bytes reserved for the outcome of a call, in addition to twice the size of its intent, because the outcome repeats the statement."""

_STEP = 1024 * 1024
_WINDOW = 8 * 1024 * 1024
_PUT_ASIDE = "run `toolgen audit verify`, move the file to another folder and start again"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_sync_content = sync_content


class NoRoomError(OSError):
    """There is no space for the data. Nothing was written, and the segment is unchanged."""


class BusyFileError(OSError):
    """Raised if a file cannot be renamed now, because another process has it open. The segment is unchanged."""


class StreamHead(msgspec.Struct, frozen=True, kw_only=True):
    """Last entry of a stream: its number and hash. For a new stream they are 0 and empty."""

    seq: int = 0
    hash: str = FIRST


class SegmentMark(msgspec.Struct, frozen=True, kw_only=True):
    """Acknowledged part of a segment: its first entry's number, its bytes, and the last entry in them."""

    first: int
    size: int
    head: StreamHead


class EndingRoom:
    """Disk space reserved for outcomes when their calls begin: a full disk refuses calls, and never loses an outcome.

    An entry may use only the reservation of its own call.
    """

    def __init__(self) -> None:
        self._kept: dict[str, int] = {}
        self.total = 0
        """Total bytes of all reservations."""

    def add(self, entry: Entry, size: int) -> int:
        """Count an entry of so many bytes, which is written next; returns the bytes that were reserved for it and that it may use."""
        call, event = entry.get("call_id", ""), entry.get("event")
        taken = self._kept.get(call, 0)
        if event == "intent":
            self._kept[call] = ENDING_BYTES + 2 * size
            self.total += self._kept[call] - taken
            return 0
        if event != "outcome":  # an attempt, for example: the outcome follows
            taken = min(size, taken)
            self.restore(entry, -taken)
            return taken
        self.total -= self._kept.pop(call, 0)
        return taken

    def restore(self, entry: Entry, size: int) -> None:
        """Reserve so many more bytes for an entry's call."""
        if size:
            call = entry.get("call_id", "")
            self._kept[call] = self._kept.get(call, 0) + size
            self.total += size

    def release(self, entry: Entry) -> None:
        """Release the reservation for the outcome of a call."""
        self.total -= self._kept.pop(entry.get("call_id", ""), 0)


class Segment:
    """File that a stream is written to. One process holds the stream's lock at a time.

    Blocks of zeros are written ahead, because a file of constant size is synced ten times faster, and because an outcome must have space;
    a clean close truncates them, and a reader of the file stops at the first zero byte.
    """

    def __init__(self, directory: Path, stream: str) -> None:
        self.stream = stream
        self.path = active_path(directory, stream)
        self._name = str(self.path)
        self._inode = (0, 0)
        self.head = StreamHead()
        self.torn = 0
        self.crashed = False
        """True if the last writer of this segment did not close it."""
        self.first = 1
        self.since: float | None = None
        self._fd = -1
        self._lock = -1
        self.size = 0
        """Bytes of entries written so far."""
        self._allocated = 0

    @property
    def mark(self) -> SegmentMark:
        """Written and durable part of this segment."""
        return SegmentMark(first=self.first, size=self.size, head=self.head)

    def open(self, mark: SegmentMark | None = None) -> None:
        """Take the lock, unless it is held, find the end and check the last entries.

        With the `mark` that this process acknowledged before a write failed, all data after it is cut off, even valid lines: after a
        failed sync a file may return data that never reached the disk. Data of a crash after the last complete line, or of a failed write
        after the mark, is copied to a file of its own, then cut off, and its size is put into `torn`. Raises `BlockingIOError` if another
        process holds the stream, and `AuditError` if an entry near the end is not what was written, because nothing may be built on it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = self._is_held()
        try:
            if not held:
                self.abandon()
                self._lock = open_descriptor(self._lock_path, "RDWR", "CREAT", "NOFOLLOW")
                lock(self._lock, wait=False)
            self._close_file()
            created = not self.path.exists()
            self._use(open_descriptor(self.path, "RDWR", "CREAT", "NOFOLLOW"))
            lock(self._fd, wait=False)  # earlier versions lock the segment itself, and no lock file
            if mark is None or not held or not self._go_on(mark):
                self._recover()
            if created:
                sync_folder(self.path.parent)
            self._allocate(self.size)  # a full or failing disk is detected here, before an entry is acknowledged
        except BaseException:
            self._close_file()
            if not held:  # a stream that this process held before stays with it
                self.abandon()
            raise

    def write(
        self, data: bytes, head: StreamHead, time: float, *, reserve: int = 0, begins: bool = False
    ) -> SegmentMark:
        """Append lines and return the end of the durable data.

        After them, `reserve` bytes are reserved for later outcomes. Without space, lines that begin no call are still written if they fit
        into earlier reservations. Raises `NoRoomError`; after another `OSError` only `open` with `mark` makes the file usable again.
        """
        end = self.size + len(data)
        if end + reserve > self._allocated:
            try:
                self._allocate(end + reserve)
            except NoRoomError:
                if begins or end > self._allocated:
                    raise
        written = 0
        while written < len(data):
            written += write_at(self._fd, data[written:], self.size + written)
        _sync_content(self._fd)
        if self.since is None:
            self.since = time
        self.size, self.head = end, head
        return SegmentMark(first=self.first, size=end, head=head)

    def rotate(self, reserve: int = 0) -> None:
        """Close the segment under the name of its first entry, and begin the next, with `reserve` bytes reserved.

        If the process is killed in between, there is a closed segment and no current one: `open` begins it. Raises `NoRoomError` if the
        next cannot be begun, and `BusyFileError` if a reader has the file open so that it cannot be renamed (Windows); then this one
        continues.
        """
        closed = self.path.with_name(closed_name(self.stream, self.first))
        if closed.exists():
            raise FileExistsError(errno.EEXIST, "a segment of this number is closed already", closed.name)
        begun = self.path.with_suffix(".next")
        begun.unlink(missing_ok=True)
        fd = open_descriptor(begun, "RDWR", "CREAT", "EXCL", "NOFOLLOW")
        try:
            allocated = _zeros(fd, 0, reserve)
            os.ftruncate(self._fd, self.size)
            sync(self._fd)
            if RENAMES_OPEN_FILES:
                os.rename(self.path, closed)
                os.rename(begun, self.path)
            else:
                fd = self._rename_closed(closed, begun, fd)
        except BusyFileError:
            begun.unlink(missing_ok=True)
            raise
        except BaseException:
            os.close(fd)
            begun.unlink(missing_ok=True)
            raise
        self._close_file()
        self._use(fd)
        self.size, self._allocated = 0, allocated
        self.first, self.since = self.head.seq + 1, None
        lock(fd, wait=False)
        sync_folder(self.path.parent)

    def _rename_closed(self, closed: Path, begun: Path, fd: int) -> int:
        """Rename both files on a system that renames no open file; returns the descriptor of the new segment. The lock file is held
        meanwhile, so that no other process writes. Raises `BusyFileError`."""
        os.close(fd)
        self._close_file()
        try:
            os.rename(self.path, closed)
            os.rename(begun, self.path)
        except OSError as error:
            if not self.path.exists():
                os.rename(closed, self.path)
            self._use(open_descriptor(self.path, "RDWR", "NOFOLLOW"))
            self._allocated = self.size
            raise BusyFileError(error.errno, "a reader has the segment open", str(self.path)) from error
        return open_descriptor(self.path, "RDWR", "NOFOLLOW")

    def reserve(self, size: int) -> None:
        """Reserve that many bytes after the written data. Raises `NoRoomError`."""
        if self.size + size > self._allocated:
            self._allocate(self.size + size)

    def changed(self) -> bool:
        """Return True if the file was moved, deleted or truncated while it was open."""
        try:
            there = os.stat(self._name)
        except OSError:
            return True
        # No other file has the inode number of an open file, so comparing it with that of the name is sufficient.
        return (there.st_dev, there.st_ino, there.st_size) != (*self._inode, self._allocated)

    def close(self) -> None:
        """Cut the preallocated zeros off, sync and release the lock."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.size)
                sync(self._fd)
            self.abandon()

    def abandon(self) -> None:
        """Close the file and release the lock without changing the file."""
        self._close_file()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def _lock_path(self) -> Path:
        return self.path.with_suffix(".lock")

    def _is_held(self) -> bool:
        """Return True if this process holds the lock, and the lock file is still the one that others would open."""
        try:
            return self._lock >= 0 and os.path.samestat(os.stat(self._lock_path), os.fstat(self._lock))
        except OSError:
            return False

    def _use(self, fd: int) -> None:
        status = os.fstat(fd)
        self._fd, self._inode = fd, (status.st_dev, status.st_ino)

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd, self._inode = -1, (0, 0)

    def _put(self, data: bytes, offset: int) -> None:
        written = 0
        while written < len(data):
            written += write_at(self._fd, data[written:], offset + written)

    def _allocate(self, end: int) -> None:
        try:
            self._allocated = _zeros(self._fd, self._allocated, end)
        except NoRoomError:
            self._allocated = os.fstat(self._fd).st_size  # a part may have been written
            raise

    def _go_on(self, mark: SegmentMark) -> bool:
        """Continue after the acknowledged data, if the file still has it; bytes after it count as torn."""
        total = os.fstat(self._fd).st_size
        start = max(0, mark.size - _WINDOW)
        data = read_at(self._fd, mark.size - start, start)
        rest = read_at(self._fd, max(0, total - mark.size), mark.size).rstrip(b"\0")
        if mark.size:
            entry = parsed(data[data.rfind(b"\n", 0, -1) + 1 : -1]) if len(data) == mark.size - start else None
            known = entry is not None and entry["hash"] == mark.head.hash and is_whole(entry)
        else:  # nothing of this segment was acknowledged: it must contain what this process tried to write
            entry = parsed(rest.partition(b"\n")[0])
            known = entry is None or (entry["prev"] == mark.head.hash and entry["seq"] == mark.head.seq + 1)
        if known:
            self.head, self.first, self.size, self.torn = mark.head, mark.first, mark.size, len(rest)
            self._end_at(mark.size, rest)
            self._look_at_first()
        return known

    def _recover(self) -> None:
        start, data = self._tail()
        good, head = self._walk(data)
        rest = data[good:].rstrip(b"\0")
        if any(is_whole(parsed(line)) for line in rest.lstrip(b"\0").split(b"\n")[:-1]):
            raise AuditError(
                f"complete entries follow invalid bytes, after number {head.seq}",
                where=self.path.name,
                suggestion=_PUT_ASIDE,
            )
        if start + good == 0:
            head = last_of(self.path.parent, self.stream)
            self.first = head.seq + 1
        self.size, self.head, self.torn = start + good, head, len(rest)
        self.crashed = len(data) > good
        if self.crashed:
            # The writer did not close the file, and perhaps could not sync it. Data that is read here may never have reached the disk, and
            # a later sync would not write it; so it is written once more.
            self._put(data[:good], start)
            self._end_at(start + good, rest)
        self._allocated = self.size
        self._look_at_first()

    def _end_at(self, size: int, rest: bytes) -> None:
        if rest:
            self._keep(rest)
        os.ftruncate(self._fd, size)
        sync(self._fd)
        self._allocated = size

    def _look_at_first(self) -> None:
        """Read the first number and the time of the segment from its first line."""
        if not self.size:
            return
        with os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(0)
            entry = parsed(file.readline().removesuffix(b"\n"))
        if entry is not None:
            self.first = entry["seq"]
            with contextlib.suppress(ValueError, TypeError):
                self.since = datetime.fromisoformat(entry["time"]).timestamp()

    def _tail(self) -> tuple[int, bytes]:
        """Return the last lines of the file and their start: at least one complete line, unless there is none."""
        total = os.fstat(self._fd).st_size
        window = _WINDOW + _STEP
        while True:
            start = max(0, total - window)
            data = read_at(self._fd, total - start, start)
            cut = data.find(b"\n") + 1 if start else 0
            if start == 0 or data.find(b"\n", cut) >= 0:
                return start + cut, data[cut:]
            window *= 4

    def _keep(self, rest: bytes) -> None:
        """Copy torn bytes to a file for reviewers."""
        path = self.path.with_name(f"{self.stream}.torn-{self.head.seq}")
        fd = open_descriptor(path, "WRONLY", "CREAT", "TRUNC", "NOFOLLOW")
        try:
            view = memoryview(rest)
            while view:
                view = view[os.write(fd, view) :]
            sync(fd)
        finally:
            os.close(fd)

    def _walk(self, data: bytes) -> tuple[int, StreamHead]:
        """Check the chain of the lines; return the end of the last complete one, and its head.

        The first line is trusted: its predecessor was not read, and `verify` checks it.
        """
        good, head, first = 0, StreamHead(), True
        while (end := data.find(b"\n", good)) >= 0:
            line = data[good:end]
            if b"\0" in line:
                break  # part of a batch that did not reach the disk completely, and so was never acknowledged
            entry = parsed(line)
            behind = (head.hash, head.seq + 1)
            if entry is None or not is_whole(entry) or not (first or (entry["prev"], entry["seq"]) == behind):
                raise AuditError(
                    f"the entry after number {head.seq} is not what was written",
                    where=self.path.name,
                    suggestion=_PUT_ASIDE,
                )
            head, first, good = StreamHead(seq=entry["seq"], hash=entry["hash"]), False, end + 1
        return good, head


def _zeros(fd: int, offset: int, end: int) -> int:
    """Write zeros from `offset` to `end` or later, durably; return their end. Raises `NoRoomError`."""
    target = (end // _STEP + 1) * _STEP
    zeros = bytes(64 * 1024)
    try:
        while offset < target:
            written = write_at(fd, zeros[: target - offset], offset)
            if written == 0:
                raise NoRoomError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            offset += written
        sync(fd)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise NoRoomError(*error.args) from error
        raise
    return target


def last_of(directory: Path, stream: str) -> StreamHead:
    """Return the last entry of the newest closed segment; a new stream's head if there is none."""
    closed = closed_segments(directory, stream)
    if not closed:
        return StreamHead()
    last = b""
    with opened(closed[-1]) as file:
        for line, _ in lines(bounded(file)):
            last = line
    entry = parsed(last)
    if entry is None or not is_whole(entry):
        raise AuditError("its last entry is not what was written", where=closed[-1].path.name, suggestion=_PUT_ASIDE)
    return StreamHead(seq=entry["seq"], hash=entry["hash"])
