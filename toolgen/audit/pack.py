"""Closed segments are compressed such that at every moment one of them is whole."""

from __future__ import annotations

import gzip
import hashlib
import os

from toolgen.audit.files import SegmentFile, regular, sync_directory
from toolgen.errors import AuditError

__all__ = ["pack"]

_CHUNK = 1024 * 1024
_LEVEL = 4


def pack(segment: SegmentFile) -> None:
    """Compresses a closed segment and removes the plain one, once what was written reads back as the same bytes.

    Killed at any point it leaves the plain segment, perhaps beside a packed one, which the next attempt replaces. Raises `OSError`,
    and `AuditError` when the bytes differ.
    """
    packed = segment.path.with_name(segment.path.name + ".gz")
    part = packed.with_name(packed.name + ".part")
    written = hashlib.sha256()
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with regular(segment.path) as plain, os.fdopen(fd, "wb") as file:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as stream:
            while chunk := plain.read(_CHUNK):
                written.update(chunk)
                stream.write(chunk)
        file.flush()
        os.fsync(fd)
    read = hashlib.sha256()
    with gzip.open(part) as back:
        while chunk := back.read(_CHUNK):
            read.update(chunk)
    if read.digest() != written.digest():
        raise AuditError("does not read back as it was written", where=part.name)
    os.replace(part, packed)
    sync_directory(packed.parent)
    segment.path.unlink()
    sync_directory(packed.parent)
