"""Files that a gateway keeps for callers: how many bytes, for how long, and what is known of each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

__all__ = ["DEFAULT_SHOWN", "INLINE_UPLOAD", "FileBudget", "FileInfo", "FileTooLargeError", "OpenFile"]

DEFAULT_SHOWN = 1024 * 1024
"""The most bytes of a picture or a recording that a model is given."""


INLINE_UPLOAD = 64 * 1024
"""The most bytes of a file that an argument has in base64."""


class FileTooLargeError(Exception):
    """A file is longer than `most` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the file is longer than {most} bytes")
        self.most = most


class FileBudget(Struct, frozen=True, kw_only=True):
    """Bytes of one file, of the files of one principal and of all files, and for how many seconds a file is kept."""

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
    """A file that can be read, more than once."""

    @property
    def info(self) -> FileInfo:
        """Metadata of the file."""

    def parts(self, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Its bytes, in parts of at most 512 KiB. Raises `StateError` where they cannot be read."""

    async def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Its bytes from `start` up to `end`. Raises `StateError`."""
