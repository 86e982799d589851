"""One file of a stream: preallocated, appended to, made durable, and recovered after a crash."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from toolgen.audit.entry import FIRST, Entry, hashed
from toolgen.errors import AuditError, CanonicalError

__all__ = ["Head", "Segment", "lines"]

_STEP = 1024 * 1024
_WINDOW = 8 * 1024 * 1024
_PUT_ASIDE = "run `toolgen audit verify`, put the file aside and start again"
_fdatasync = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last entry of a stream: its number and hash. A new stream's is 0 and nothing."""

    seq: int = 0
    hash: str = FIRST


class Segment:
    """The file a stream is written to. One process holds its lock at a time.

    Blocks of zeros are written ahead, because a file whose size does not change is synced ten times faster; a clean close cuts them off,
    and whoever reads the file stops at the first zero byte.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head = Head()
        self.torn = 0
        self._fd = -1
        self._size = 0
        self._allocated = 0

    def open(self) -> None:
        """Takes the lock, finds the end and checks the last entries.

        What a crash left behind the last whole line is put into a file of its own, then cut off, and its size left in `torn`. Raises
        `BlockingIOError` when another process holds the stream, and `AuditError` when an entry near the end is not what was written,
        because nothing may be built on that.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        created = not self.path.exists()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._recover()
            if created:
                _sync_directory(self.path.parent)
        except BaseException:
            self.abandon()
            raise

    def write(self, data: bytes, head: Head) -> None:
        """Appends lines and returns once they are on the disk. After an `OSError` the end is where it was before."""
        end = self._size + len(data)
        if end > self._allocated:
            self._allocate(end)
        written = 0
        while written < len(data):
            written += os.pwrite(self._fd, data[written:], self._size + written)
        _fdatasync(self._fd)
        self._size, self.head = end, head

    def changed(self) -> bool:
        """Whether somebody moved, deleted or cut the file while it was written to."""
        try:
            there, here = os.stat(self.path), os.fstat(self._fd)
        except OSError:
            return True
        moved = (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)
        return moved or here.st_size != self._allocated

    def close(self) -> None:
        """Cuts the preallocated zeros off, syncs and lets the lock go."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
                os.fsync(self._fd)
            self.abandon()

    def abandon(self) -> None:
        """Lets the file go as it is."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _allocate(self, end: int) -> None:
        target = (end // _STEP + 1) * _STEP
        zeros = bytes(64 * 1024)
        offset = self._allocated
        while offset < target:
            chunk = zeros[: target - offset]
            written = os.pwrite(self._fd, chunk, offset)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            offset += written
        os.fsync(self._fd)
        self._allocated = target

    def _recover(self) -> None:
        start, data = self._tail()
        good, head = self._walk(data, whole=start == 0)
        rest = data[good:].rstrip(b"\0")
        if any(_is_whole(_parse(line)) for line in rest.lstrip(b"\0").split(b"\n")[:-1]):
            raise AuditError(
                f"whole entries follow bytes that are none, after number {head.seq}",
                where=self.path.name,
                suggestion=_PUT_ASIDE,
            )
        self._size, self.head, self.torn = start + good, head, len(rest)
        if rest:
            self._keep(rest)
        if len(data) > good:
            os.ftruncate(self._fd, self._size)
            os.fsync(self._fd)
        self._allocated = self._size

    def _tail(self) -> tuple[int, bytes]:
        """The last lines of the file and where they start: enough of them to hold at least one whole line, unless there is none."""
        total = os.fstat(self._fd).st_size
        window = _WINDOW + _STEP
        while True:
            start = max(0, total - window)
            data = os.pread(self._fd, total - start, start)
            cut = data.find(b"\n") + 1 if start else 0
            if start == 0 or data.find(b"\n", cut) >= 0:
                return start + cut, data[cut:]
            window *= 4

    def _keep(self, rest: bytes) -> None:
        """Puts torn bytes where a reviewer finds them."""
        path = self.path.with_name(f"{self.path.stem}.torn-{self.head.seq}")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, rest)
            os.fsync(fd)
        finally:
            os.close(fd)

    def _walk(self, data: bytes, *, whole: bool) -> tuple[int, Head]:
        """Checks the chain over the lines read; returns where the last whole one ends, and the head it leaves."""
        good, head, first = 0, Head(), not whole
        while (end := data.find(b"\n", good)) >= 0:
            line = data[good:end]
            if b"\0" in line:
                break  # part of a batch that never reached the disk whole, and so was never acknowledged
            entry = _parse(line)
            chained = entry is not None and (first or (entry["prev"] == head.hash and entry["seq"] == head.seq + 1))
            if entry is None or not chained or not _is_whole(entry):
                raise AuditError(
                    f"the entry after number {head.seq} is not what was written",
                    where=self.path.name,
                    suggestion=_PUT_ASIDE,
                )
            head, first, good = Head(seq=entry["seq"], hash=entry["hash"]), False, end + 1
        return good, head


def lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """The lines of a segment without their line ends, and whether each was written whole.

    A last line without an end is not whole, and neither is anything that stands behind a zero byte: only zeros belong there.
    """
    with path.open("rb") as file:
        zeros = False
        for line in file:
            if zeros or b"\0" in line:
                head, _, rest = line.partition(b"\0") if not zeros else (b"", b"", line)
                zeros = True
                if head:
                    yield head, False
                if rest.strip(b"\0"):
                    yield rest.strip(b"\0").removesuffix(b"\n"), False
            else:
                yield line.removesuffix(b"\n"), line.endswith(b"\n")


def _parse(line: bytes) -> Entry | None:
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    complete = (
        isinstance(entry.get("seq"), int) and isinstance(entry.get("prev"), str) and isinstance(entry.get("hash"), str)
    )
    return entry if complete else None


def _is_whole(entry: Entry | None) -> bool:
    """Whether an entry is what its hash was made of."""
    try:
        return entry is not None and hashed(entry, entry["prev"]) == entry["hash"]
    except (CanonicalError, UnicodeEncodeError):
        return False


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
