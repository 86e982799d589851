"""Files that a gateway keeps for callers: how many bytes, for how long, and what is known of each."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["DEFAULT_SHOWN", "FileBudget", "FileInfo"]

DEFAULT_SHOWN = 1024 * 1024
"""The most bytes of a picture or a recording that a model is given."""


class FileBudget(Struct, frozen=True, kw_only=True):
    """Bytes of one file, of the files of one principal and of all files, and for how many seconds a file is kept."""

    largest: int = 100 * 1024 * 1024
    each: int = 512 * 1024 * 1024
    total: int = 2 * 1024 * 1024 * 1024
    expires_s: float = 3_600.0


class FileInfo(Struct, frozen=True, kw_only=True):
    """What is known of a file. `sha256` is its digest in hexadecimal, `call_id` the call that answered with it, "" for an upload."""

    size: int
    media_type: str
    sha256: str
    filename: str = ""
    call_id: str = ""
