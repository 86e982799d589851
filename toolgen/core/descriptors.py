"""File descriptors: flags to open them, reads and writes at an offset, and durable content, for each operating system.

Windows has no O_NOFOLLOW, opens files in text mode unless O_BINARY is given, has no reads and writes at an offset, and opens no folders.
macOS keeps written data in the cache of the drive after fsync(2); only F_FULLFSYNC of fcntl(2) writes it to the medium.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from functools import cache
from pathlib import Path
from typing import Literal

from toolgen.core.system_modules import system_module

__all__ = [
    "RENAMES_OPEN_FILES",
    "Flag",
    "is_link",
    "open_descriptor",
    "open_flags",
    "read_at",
    "replace_file",
    "sync",
    "sync_content",
    "sync_folder",
    "write_at",
]

Flag = Literal[
    "RDONLY", "WRONLY", "RDWR", "CREAT", "EXCL", "TRUNC", "APPEND", "NOFOLLOW", "DIRECTORY", "NONBLOCK", "NOCTTY"
]
_REQUIRED = frozenset({"RDONLY", "WRONLY", "RDWR", "CREAT", "EXCL", "TRUNC", "APPEND"})
_ALWAYS = ("O_CLOEXEC", "O_NOINHERIT", "O_BINARY")
RENAMES_OPEN_FILES = os.name != "nt"
"""False on Windows, where a file cannot be renamed or removed while a process has it open in the usual way."""
_REPLACE_TRIES = 100
_REPLACE_PAUSE_S = 0.02
_FULL_SYNC_UNSUPPORTED = frozenset({errno.ENOTSUP, errno.EINVAL, errno.ENOTTY})

_HAS_OFFSETS = hasattr(os, "pread")
_fcntl = system_module("fcntl")
_F_FULLFSYNC: int | None = getattr(_fcntl, "F_FULLFSYNC", None)


@cache
def open_flags(*names: Flag) -> int:
    """Flags of os.open for these names, as far as the system has them; files are binary and not inherited by child processes."""
    flags = 0
    for name in names:
        flags |= getattr(os, f"O_{name}") if name in _REQUIRED else getattr(os, f"O_{name}", 0)
    for always in _ALWAYS:
        flags |= getattr(os, always, 0)
    return flags


def open_descriptor(path: str | Path, *names: Flag, mode: int = 0o600, dir_fd: int | None = None) -> int:
    """Open a file and return its descriptor. `mode` is that of a new file.

    With NOFOLLOW a symbolic link is refused with ELOOP, also on a system without that flag. Raises `OSError`.
    """
    if dir_fd is not None:
        return os.open(path, open_flags(*names), mode, dir_fd=dir_fd)
    if "NOFOLLOW" in names and not hasattr(os, "O_NOFOLLOW"):
        return _open_unless_link(path, open_flags(*names), mode)
    return os.open(path, open_flags(*names), mode)


def _open_unless_link(path: str | Path, flags: int, mode: int) -> int:
    """Open a file whose name is not a link before and after. A new file is created exclusively, which follows no link."""
    while True:
        try:
            before = os.lstat(path)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            try:
                return os.open(path, flags | os.O_EXCL, mode)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
                continue
        if is_link(before):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        descriptor = os.open(path, flags & ~os.O_TRUNC, mode)
        if not os.path.samestat(before, os.fstat(descriptor)):
            os.close(descriptor)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
        return descriptor


def is_link(status: os.stat_result) -> bool:
    """Return True for a symbolic link, and on Windows for a junction and every other reparse point."""
    attributes: int = getattr(status, "st_file_attributes", 0)
    return stat.S_ISLNK(status.st_mode) or bool(attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT)


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Read up to `size` bytes at an offset. The position of the descriptor may change. Raises `OSError`."""
    if _HAS_OFFSETS:
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def write_at(descriptor: int, data: bytes, offset: int) -> int:
    """Write at an offset; returns how many bytes were written. The position of the descriptor may change. Raises `OSError`."""
    if _HAS_OFFSETS:
        return os.pwrite(descriptor, data, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


def replace_file(source: str | Path, target: str | Path) -> None:
    """Rename a file, replacing the target. Raises `OSError`.

    Windows refuses this while another process has one of the two open, as a reader may: it is tried again for a moment.
    """
    for _ in range(0 if RENAMES_OPEN_FILES else _REPLACE_TRIES):
        try:
            os.replace(source, target)
        except PermissionError:
            time.sleep(_REPLACE_PAUSE_S)
        else:
            return
    os.replace(source, target)


def sync(descriptor: int) -> None:
    """Write content and metadata of a file to the medium. Raises `OSError`."""
    if _F_FULLFSYNC is not None:
        try:
            _fcntl.fcntl(descriptor, _F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _FULL_SYNC_UNSUPPORTED:
                raise
        else:
            return
    os.fsync(descriptor)


sync_content = sync if _F_FULLFSYNC is not None else getattr(os, "fdatasync", os.fsync)
"""Write the content of a file to the medium, with only that of its metadata that is needed to read it. Raises `OSError`."""


def sync_folder(path: str | Path) -> None:
    """Make changes of names in a folder durable. Windows opens no folders: NTFS keeps names in its journal."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, open_flags("RDONLY", "DIRECTORY"))
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
