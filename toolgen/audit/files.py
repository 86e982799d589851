"""Files of a log: the segment that a stream is written to, and the closed ones, in the order of their entries.

A closed segment is compressed into a second file, so a complete one exists at every moment.
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

# gateway-1.jsonl is being written, gateway-1.000000000001.jsonl begins with entry 1 and was closed, .gz is its compressed form.
_NAME = re.compile(r"(?P<stream>[^.]+)(?:\.(?P<first>\d{12,}))?\.jsonl(?P<packed>\.gz)?\Z")
_TRIES = 100
_BLOCK = 128 * 1024
MAX_LINE_LENGTH = 64 * 1024 * 1024
"""Maximum bytes of an entry: readers of a log that others can write to hold no longer line in memory."""


class DamagedError(AuditError):
    """Raised for a file of the log that no gateway wrote: not a regular file, an incomplete archive, or a line that is too long."""


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
    """Return the file that a stream is written to."""
    return directory / f"{stream}.jsonl"


def closed_name(stream: str, first: int) -> str:
    """Return the file name of a closed segment. The number has twelve digits, so that names sort in the order of entries."""
    return f"{stream}.{first:012d}.jsonl"


def stream_names(directory: Path) -> list[str]:
    """Return the streams of a log in the order of their numbers. Raises `AuditError` if the directory cannot be read."""
    found = {match["stream"] for match in map(_NAME.match, _listed(directory)) if match}
    return sorted(found, key=lambda name: (len(name), name))


def closed_segments(directory: Path, stream: str) -> list[SegmentFile]:
    """Return the closed segments of a stream, oldest first. If a segment is there plain and packed, packing was not finished: the plain
    file counts."""
    found: dict[int, SegmentFile] = {}
    for name in sorted(_listed(directory), reverse=True):  # x.jsonl.gz before x.jsonl, which replaces it
        match = _NAME.match(name)
        if match and match["stream"] == stream and match["first"]:
            first = int(match["first"])
            found[first] = SegmentFile(path=directory / name, stream=stream, first=first)
    return [found[first] for first in sorted(found)]


@contextmanager
def segments(directory: Path, stream: str) -> Iterator[list[tuple[SegmentFile, BinaryIO | None]]]:
    """Return the segments of a stream at one moment; the last may come with its opened file.

    A gateway may close a segment at any time by renaming it. So the current file is opened first and checked again after the others were
    listed: if it was closed meanwhile, it would be read twice, or its successor missed.
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
    """Open the plain bytes of a segment, which may have been packed since it was listed. Raises `AuditError`; readers get `DamagedError`
    for a damaged file."""
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
        raise DamagedError("is not a complete archive", where=segment.path.name) from error
    except DamagedError as error:
        raise DamagedError(error.message, where=error.where or segment.path.name) from None
    raise AuditError("was removed before it was read", where=segment.path.name, suggestion="try again")


def regular(path: Path) -> BinaryIO:
    """Open a file for reading that others may have created. Raises `FileNotFoundError`, and `AuditError`.

    Links, pipes and devices are refused: a link leads elsewhere, a pipe may wait for a writer for ever, and a device has no end.
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
        raise DamagedError("is not a regular file", where=str(path))
    return os.fdopen(descriptor, "rb")


def bounded(file: BinaryIO, longest: int = MAX_LINE_LENGTH) -> Iterator[bytes]:
    """Return the lines of a file with their ends. Raises `DamagedError` for a line that is too long, because the file must not fill the
    memory."""
    return chain.from_iterable(blocks(file, longest))


def blocks(file: BinaryIO, longest: int = MAX_LINE_LENGTH) -> Iterator[list[bytes]]:
    """Yield lines as `bounded` does, in lists of the lines of one read: work per line is most of the cost of reading a log."""
    begun: list[bytes] = []  # parts of an incomplete line
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
        raise DamagedError("is not a complete archive") from error
    if begun:
        yield [b"".join(begun)]


def lines(file: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a segment without their line ends, and whether each is complete.

    A last line without an end is incomplete, and so is any content after a zero byte: only zeros are valid there.
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
    """Compress a closed segment and remove the plain file after the packed one was read back and compared.

    If the process is killed, the plain segment remains, perhaps beside a packed one, which the next attempt replaces. Raises `OSError`, and
    `AuditError` if the bytes differ.
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
        raise AuditError("has other content after compression", where=part.name)
    replace_file(part, packed)
    sync_folder(packed.parent)
    segment.path.unlink()
    sync_folder(packed.parent)
