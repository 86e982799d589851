"""Safe reading of a file whose path is untrusted: only a regular file, up to a size, and without waiting for another process."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolgen.core.descriptors import Flag, is_link, open_descriptor

__all__ = ["digest_of", "open_file", "open_inside", "read_file"]

_STEP = 64 * 1024
_CAREFUL: tuple[Flag, ...] = ("RDONLY", "NONBLOCK", "NOCTTY")


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
    """Return `sha256:…` of the content that `read_file` returns, without keeping it in memory. Raises `OSError` as that does."""
    total, left = hashlib.sha256(), most + 1
    with open_file(path) as (descriptor, _):
        while left > 0 and (chunk := os.read(descriptor, min(left, _STEP))):
            total.update(chunk)
            left -= len(chunk)
    return f"sha256:{total.hexdigest()}"


@contextmanager
def open_file(path: str | Path) -> Iterator[tuple[int, int]]:
    """Return the descriptor of a regular file, and its size. Raises `OSError` as `read_file` does."""
    try:
        descriptor = open_descriptor(path, *_CAREFUL)
    except ValueError as error:  # a NUL in the name, or a lone surrogate
        raise OSError(errno.EINVAL, "it is not a file name") from error
    with _regular(descriptor) as opened:
        yield opened


@contextmanager
def open_inside(root: Path, path: Path) -> Iterator[tuple[int, int]]:
    """Return the descriptor of a regular file below a folder, and its size. No step of `path` may be a link, even one created meanwhile.

    Raises `OSError` as `read_file` does.
    """
    *folders, name = path.parts
    if os.open not in os.supports_dir_fd:
        descriptor = _open_below(root, folders, name)
        with _regular(descriptor) as opened:
            yield opened
        return
    parent = open_descriptor(root, "RDONLY", "DIRECTORY")
    try:
        for folder in folders:
            inner = open_descriptor(folder, "RDONLY", "DIRECTORY", "NOFOLLOW", dir_fd=parent)
            os.close(parent)
            parent = inner
        descriptor = open_descriptor(name, *_CAREFUL, "NOFOLLOW", dir_fd=parent)
    finally:
        os.close(parent)
    with _regular(descriptor) as opened:
        yield opened


def _open_below(root: Path, folders: list[str], name: str) -> int:
    """Open a file by its path on a system without opens relative to a folder: no step may be a link before, or after it was opened."""
    steps = [root.joinpath(*folders[:count]) for count in range(1, len(folders) + 1)]
    before = [_not_linked(step) for step in steps]
    descriptor = open_descriptor(root.joinpath(*folders, name), *_CAREFUL, "NOFOLLOW")
    try:
        for step, status in zip(steps, before, strict=True):
            if not os.path.samestat(status, _not_linked(step)):
                raise OSError(errno.ELOOP, "a folder on the way was replaced")  # noqa: TRY301 - it is closed first
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _not_linked(path: Path) -> os.stat_result:
    status = os.lstat(path)
    if is_link(status):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return status


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
