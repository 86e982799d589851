"""A small file that several processes change: one after the other, durably, and read whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolgen.core.file_lock import lock

__all__ = ["locked", "write_whole"]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file against changes by other processes. Creates its folder. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes) -> None:
    """Puts the content there, for its owner alone. Raises `OSError`: what was there stays then."""
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
