"""Small file that several processes change: one after the other, durably, and read completely."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolgen.core.descriptors import open_descriptor, replace_file, sync, sync_folder
from toolgen.core.file_lock import lock

__all__ = ["locked", "write_whole"]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file against changes by other processes. Creates its folder. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = open_descriptor(f"{path}.lock", "RDWR", "CREAT", "NOFOLLOW")
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes) -> None:
    """Write the content atomically, readable only by the owner. Raises `OSError`; the previous content stays then."""
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = open_descriptor(staged, "WRONLY", "CREAT", "EXCL")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
        replace_file(staged, path)
    finally:
        staged.unlink(missing_ok=True)
    sync_folder(path.parent)
