"""Copy of an audit log, made while gateways write it: the beginning of each stream, without a gap, and the statements that were signed
about it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from toolgen.audit.checkpoint import checkpoint_path, removal_path
from toolgen.audit.files import SegmentFile, bounded, lines, opened, regular, segments, stream_names
from toolgen.audit.reader import hashes_from
from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import AuditError
from toolgen.core.file_lock import lock

__all__ = ["copy_log", "goes_on_from", "is_written", "key_files"]

_TRIES = 10
_PRIVATE = ".key"


def copy_log(source: Path, target: Path) -> None:
    """Copy every stream, with its checkpoints, removals and public keys, into an empty folder; private keys are not copied.

    Raises `AuditError` if there is no log, or if entries are removed faster than they can be read.
    """
    names = stream_names(source)
    if not names:
        raise AuditError("contains no audit log", where=str(source))
    for name in names:
        # Statements are copied before the entries that they are about, and a removal after the entries that it leaves.
        _copy_whole_lines(checkpoint_path(source, name), target)
        _copy_stream(source, target, name)
        _copy_whole_lines(removal_path(source, name), target)
    for key in sorted(source.glob("*.pub")):
        _copy_whole_lines(key, target)


def _copy_stream(source: Path, target: Path, name: str) -> None:
    for attempt in range(_TRIES):
        written: list[Path] = []
        try:
            with segments(source, name) as found:
                for segment, file in found:
                    written.append(target / segment.path.name.removesuffix(".gz"))
                    _copy_segment(segment, file, written[-1])
        except AuditError:  # policy removed a segment meanwhile
            if attempt == _TRIES - 1:
                raise
            for path in written:
                path.unlink(missing_ok=True)
        else:
            return


def _copy_segment(segment: SegmentFile, file: BinaryIO | None, path: Path) -> None:
    """Copy the complete entries of a segment. The segment that is being written may end with zeros and an incomplete line."""
    with opened(segment, file) as plain, _new(path) as copy:
        for line, whole in lines(bounded(plain)):
            if not whole:
                break
            copy.write(line + b"\n")


def _copy_whole_lines(path: Path, target: Path) -> None:
    try:
        file = regular(path)
    except FileNotFoundError:
        return
    with file, _new(target / path.name) as copy:
        data = file.read()
        copy.write(data[: data.rfind(b"\n") + 1])


def _new(path: Path) -> BinaryIO:
    return os.fdopen(open_descriptor(path, "WRONLY", "CREAT", "EXCL"), "wb")


def key_files(directory: Path) -> list[Path]:
    """Return the private keys in the folder of a log."""
    return sorted(directory.glob(f"*{_PRIVATE}"))


def goes_on_from(directory: Path, earlier: Path) -> bool:
    """Return True if a log has every stream of an earlier one, including its last entry. Raises `AuditError`."""
    names = stream_names(earlier)
    return bool(names) and all(_has_last_of(directory, earlier, name) for name in names)


def _has_last_of(directory: Path, earlier: Path, name: str) -> bool:
    last = deque(hashes_from(earlier, name, 1), maxlen=1)
    if not last:
        return True
    seq, digest = last[0]
    return next((found for found in hashes_from(directory, name, seq)), None) == (seq, digest)


def is_written(directory: Path) -> bool:
    """Return True if a process is writing a log in this folder."""
    return any(_held(path) for path in _locks(directory))


def _locks(directory: Path) -> Iterator[Path]:
    yield from directory.glob("*.lock")


def _held(path: Path) -> bool:
    try:
        descriptor = open_descriptor(path, "RDWR", "NOFOLLOW")
    except OSError:
        return False
    try:
        lock(descriptor, wait=False)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
