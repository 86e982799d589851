"""Which files a log is made of: the segment a stream is written to, and those that were closed, in the order of their entries.

Closed segments are compressed such that at every moment one of them is whole.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from toolgen.core.descriptors import open_descriptor, replace_file, sync, sync_folder
from toolgen.core.errors import AuditError

__all__ = [
    "MAX_LINE_LENGTH",
    "DamagedError",
    "SegmentFile",
    "Tail",
    "active_path",
    "blocks",
    "bounded",
    "closed_name",
    "closed_segments",
    "lines",
    "opened",
    "pack",
    "regular",
    "segments",
    "stream_names",
    "tail_of",
]

# gateway-1.jsonl is being written, gateway-1.000000000001.jsonl begins with entry 1 and was closed, .gz is the same, compressed.
_NAME = re.compile(r"(?P<stream>[^.]+)(?:\.(?P<first>\d{12,}))?\.jsonl(?P<packed>\.gz)?\Z")
_TRIES = 100
_BLOCK = 128 * 1024
MAX_LINE_LENGTH = 64 * 1024 * 1024
"""No entry is longer, in bytes: anyone who reads a log that somebody else could write to holds no more of it at once."""


class DamagedError(AuditError):
    """A file of the log that is not what a gateway writes: no regular file, no whole archive, or without an end to its lines."""


class SegmentFile(Struct, frozen=True, kw_only=True):
    """A file of a stream. `first` is the number of its first entry, 0 if only its content shows it."""

    path: Path
    stream: str
    first: int = 0

    @property
    def packed(self) -> bool:
        """True if the file is compressed."""
        return self.path.suffix == ".gz"


def active_path(directory: Path, stream: str) -> Path:
    """The file a stream is written to."""
    return directory / f"{stream}.jsonl"


def closed_name(stream: str, first: int) -> str:
    """Return the file name of a closed segment. The number has twelve digits, so that names sort in the order of entries."""
    return f"{stream}.{first:012d}.jsonl"


def stream_names(directory: Path) -> list[str]:
    """The streams of a log in the order of their numbers. Raises `AuditError` when the directory cannot be read."""
    found = {match["stream"] for match in map(_NAME.match, _listed(directory)) if match}
    return sorted(found, key=lambda name: (len(name), name))


def closed_segments(directory: Path, stream: str) -> list[SegmentFile]:
    """The closed segments of a stream, oldest first. Where one is there plain and packed, the packing was not finished: plain counts."""
    found: dict[int, SegmentFile] = {}
    for name in sorted(_listed(directory), reverse=True):  # x.jsonl.gz before x.jsonl, which takes its place
        match = _NAME.match(name)
        if match and match["stream"] == stream and match["first"]:
            first = int(match["first"])
            found[first] = SegmentFile(path=directory / name, stream=stream, first=first)
    return [found[first] for first in sorted(found)]


@contextmanager
def segments(directory: Path, stream: str) -> Iterator[list[tuple[SegmentFile, BinaryIO | None]]]:
    """The segments of a stream as they stand together at one moment; the last may come with its file, opened already.

    A gateway may close a segment at any time by giving it another name. The file being written is opened first and looked at again after
    the others were listed: had it been closed meanwhile, it would be read twice, or what was begun after it missed.
    """
    path = active_path(directory, stream)
    for _ in range(_TRIES):
        try:
            file: BinaryIO | None = regular(path)
        except FileNotFoundError:
            file = None
        try:
            closed = closed_segments(directory, stream)
            if _same(path, file):
                yield [
                    *((segment, None) for segment in closed),
                    *([(SegmentFile(path=path, stream=stream), file)] if file is not None else []),
                ]
                return
        finally:
            if file is not None:
                file.close()
    raise AuditError("changes faster than it can be read", where=str(path))


@contextmanager
def opened(segment: SegmentFile, file: BinaryIO | None = None) -> Iterator[BinaryIO]:
    """The plain bytes of a segment, which may have been packed since it was listed. Raises `AuditError`; `DamagedError` too where
    their readers find that they are none."""
    try:
        if file is not None:
            yield file
            return
        packed = segment.path if segment.packed else segment.path.with_name(segment.path.name + ".gz")
        for path in (segment.path, packed):
            try:
                found = regular(path)
            except FileNotFoundError:
                continue
            with found:
                if path == packed:
                    with gzip.open(found) as plain:
                        yield io.BufferedReader(plain, _BLOCK)
                else:
                    yield found
                return
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedError("is no whole archive", where=segment.path.name) from error
    except DamagedError as error:
        raise DamagedError(error.message, where=error.where or segment.path.name) from None
    raise AuditError("was removed while it was to be read", where=segment.path.name, suggestion="try again")


def regular(path: Path) -> BinaryIO:
    """A file that somebody else may have put there, opened to be read. Raises `FileNotFoundError`, and `AuditError`.

    A link leads elsewhere, a pipe waits for a writer for ever, a device has no end: none is followed, waited for or read.
    """
    try:
        descriptor = open_descriptor(path, "RDONLY", "NOFOLLOW", "NONBLOCK", "NOCTTY")
    except FileNotFoundError:
        raise
    except OSError as error:
        kind = DamagedError if error.errno in {errno.ELOOP, errno.ENXIO} else AuditError
        raise kind(f"cannot be read: {error.strerror or type(error).__name__}", where=str(path)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DamagedError("is no regular file", where=str(path))
    return os.fdopen(descriptor, "rb")


def bounded(file: BinaryIO, longest: int = MAX_LINE_LENGTH) -> Iterator[bytes]:
    """The lines of a file with their ends. Raises `DamagedError` where one does not end: nobody holds all of such a file."""
    return chain.from_iterable(blocks(file, longest))


def blocks(file: BinaryIO, longest: int = MAX_LINE_LENGTH) -> Iterator[list[bytes]]:
    """Yield lines as `bounded` does, in lists of the lines of one read: work per line is most of the cost of reading a log."""
    begun: list[bytes] = []  # the parts of a line whose end is still to come
    size = 0
    try:
        while block := file.read(_BLOCK):
            if b"\n" in block:
                found = BytesIO(b"".join((*begun, block))).readlines()
                begun = [] if found[-1].endswith(b"\n") else [found.pop()]
                size = sum(map(len, begun))
                if len(found[0]) > longest:
                    raise DamagedError("has a line that is longer than any entry")
                yield found
            else:
                begun.append(block)
                size += len(block)
            if size >= longest:
                raise DamagedError("has a line that is longer than any entry")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedError("is no whole archive") from error
    if begun:
        yield [b"".join(begun)]


def lines(file: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The lines of a segment without their line ends, and whether each was written whole.

    A last line without an end is not whole, and neither is anything that stands behind a zero byte: only zeros belong there.
    """
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


class Tail(Enum):
    """Content after the last whole line: only zeros, an incomplete line before zeros, or something else."""

    ZEROS = "zeros"
    TORN = "torn"
    CHANGED = "changed"


def tail_of(found: Iterable[Sequence[bytes]]) -> Tail:
    """Classify the bytes after the last whole line of a segment, given as `blocks` reads them."""
    begun, zeros = False, False
    for line in chain.from_iterable(found):
        text, _, rest = line.partition(b"\0")
        if rest.strip(b"\0") or (text and (zeros or begun or text.endswith(b"\n") or not text.startswith(b"{"))):
            return Tail.CHANGED
        begun, zeros = begun or bool(text), zeros or text != line
    return Tail.TORN if begun else Tail.ZEROS


def _listed(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError as error:
        raise AuditError(
            f"there is no audit log to read: {error.strerror or type(error).__name__}", where=str(directory)
        ) from error


def _same(path: Path, file: BinaryIO | None) -> bool:
    try:
        there = os.stat(path)
    except OSError:
        return file is None
    return file is not None and os.path.samestat(there, os.fstat(file.fileno()))


_CHUNK = 1024 * 1024
_LEVEL = 1  # 4.0 us of CPU a call; level 4 takes 7.4 for files that are 8 % smaller


def pack(segment: SegmentFile) -> None:
    """Compresses a closed segment and removes the plain one, once what was written reads back as the same bytes.

    Killed at any point it leaves the plain segment, perhaps beside a packed one, which the next attempt replaces. Raises `OSError`,
    and `AuditError` when the bytes differ.
    """
    packed = segment.path.with_name(segment.path.name + ".gz")
    part = packed.with_name(packed.name + ".part")
    written = hashlib.sha256()
    fd = open_descriptor(part, "WRONLY", "CREAT", "TRUNC", "NOFOLLOW")
    with regular(segment.path) as plain, os.fdopen(fd, "wb") as file:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as stream:
            while chunk := plain.read(_CHUNK):
                written.update(chunk)
                stream.write(chunk)
        file.flush()
        sync(fd)
    read = hashlib.sha256()
    with gzip.open(part) as back:
        while chunk := back.read(_CHUNK):
            read.update(chunk)
    if read.digest() != written.digest():
        raise AuditError("does not read back as it was written", where=part.name)
    replace_file(part, packed)
    sync_folder(packed.parent)
    segment.path.unlink()
    sync_folder(packed.parent)
