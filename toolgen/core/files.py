"""Safe reading of a file whose path is untrusted: only a regular file, up to a size, and without waiting for another process."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["digest_of", "open_file", "open_inside", "read_file"]

_STEP = 64 * 1024
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_file(path: str | Path, most: int) -> bytes:
    """Return the bytes of a file, or its first `most` + 1 if there are more, so that the caller notices.

    Raises `OSError`, with a readable `strerror`, if the file is not regular: a FIFO would wait for a writer and a device has no end. The
    opened file itself is checked, so it cannot be replaced in between.
    """
    with open_file(path) as (descriptor, size):
        chunks: list[bytes] = []
        left, step = most + 1, size + 1
        while left > 0 and (chunk := os.read(descriptor, min(left, step))):
            chunks.append(chunk)
            left, step = left - len(chunk), _STEP
        return b"".join(chunks)


def digest_of(path: str | Path, most: int) -> str:
    """`sha256:…` of what `read_file` gives, without holding it. Raises `OSError` as that does."""
    total, left = hashlib.sha256(), most + 1
    with open_file(path) as (descriptor, _):
        while left > 0 and (chunk := os.read(descriptor, min(left, _STEP))):
            total.update(chunk)
            left -= len(chunk)
    return f"sha256:{total.hexdigest()}"


@contextmanager
def open_file(path: str | Path) -> Iterator[tuple[int, int]]:
    """The descriptor of a regular file, and its size. Raises `OSError` as `read_file` does."""
    try:
        descriptor = os.open(path, _FLAGS)
    except ValueError as error:  # a NUL in the name, or a lone surrogate
        raise OSError(errno.EINVAL, "it is no file name") from error
    with _regular(descriptor) as opened:
        yield opened


@contextmanager
def open_inside(root: Path, path: Path) -> Iterator[tuple[int, int]]:
    """The descriptor of a regular file below a folder, and its size. No step of `path` may be a link, also one that is put there meanwhile.

    Raises `OSError` as `read_file` does.
    """
    *folders, name = path.parts
    parent = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            os.close(parent)
            parent = inner
        descriptor = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)
    with _regular(descriptor) as opened:
        yield opened


@contextmanager
def _regular(descriptor: int) -> Iterator[tuple[int, int]]:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"it is {_kind(status.st_mode)}, not a file")
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")
