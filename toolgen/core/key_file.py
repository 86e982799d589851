"""Key of a project in a file: created once, atomically, by the first of several processes."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from toolgen.core.descriptors import open_descriptor, sync
from toolgen.core.files import read_file

__all__ = ["kept_key", "read_key"]

_BYTES = 32


def kept_key(path: Path) -> bytes:
    """Return the 32 bytes of a key file. A missing file is created, readable only by its owner. Raises `OSError`, and `ValueError` as
    `read_key`.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            _make(path)
    return read_key(path)


def read_key(path: Path) -> bytes:
    """Return the 32 bytes of an existing key file. Raises `ValueError` if it does not hold a key of 64 lower-case hex digits."""
    text = read_file(path, 4 * _BYTES).decode("ascii").strip()
    if len(text) != 2 * _BYTES or set(text) - set("0123456789abcdef"):
        raise ValueError("does not contain a key of 64 hex digits")
    return bytes.fromhex(text)


def _make(path: Path) -> None:
    """Create the file by a link, which appears with its complete content, so that a half-written key is never read."""
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(open_descriptor(staged, "WRONLY", "CREAT", "EXCL"), "w", encoding="ascii", newline="\n") as file:
            file.write(secrets.token_hex(_BYTES) + "\n")
            file.flush()
            sync(file.fileno())
        os.link(staged, path)
    finally:
        staged.unlink(missing_ok=True)
