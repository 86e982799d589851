"""Files that a gateway stores for callers: limits of size and time, and metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

__all__ = ["DEFAULT_SHOWN", "INLINE_UPLOAD", "FileBudget", "FileInfo", "FileTooLargeError", "OpenFile"]

DEFAULT_SHOWN = 1024 * 1024
"""Maximum bytes of a picture or a recording for a model."""


INLINE_UPLOAD = 64 * 1024
"""Maximum bytes of a file that an argument contains in base64, before the encoding."""


class FileTooLargeError(Exception):
    """File longer than `most` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the file is longer than {most} bytes")
        self.most = most


class FileBudget(Struct, frozen=True, kw_only=True):
    """Maximum bytes of one file, of the files of one principal and of all files, and the seconds that a file is stored."""

    largest: int = 100 * 1024 * 1024
    each: int = 512 * 1024 * 1024
    total: int = 2 * 1024 * 1024 * 1024
    expires_s: float = 3_600.0


class FileInfo(Struct, frozen=True, kw_only=True):
    """Metadata of a file. `sha256` is its digest in hexadecimal, `call_id` the call that answered with it, "" for an upload."""

    size: int
    media_type: str
    sha256: str
    filename: str = ""
    call_id: str = ""


class OpenFile(Protocol):
    """File that can be read repeatedly."""

    @property
    def info(self) -> FileInfo:
        """Metadata of the file."""

    def parts(self, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Return its bytes, in parts of at most 512 KiB. Raises `StateError` if they cannot be read."""

    async def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return its bytes from `start` up to `end`. Raises `StateError`."""
