"""Locks on open files that other processes respect, until they are closed: flock if the system has it, a lock on one byte on Windows."""

from __future__ import annotations

import os
import time

from toolgen.core.system_modules import system_module

__all__ = ["lock"]

_PLACE = 2**31 - 1
"""Locked byte on Windows, where others may not read locked bytes: far beyond all content."""
_LOOK_S = 0.05


_fcntl, _msvcrt = system_module("fcntl"), system_module("msvcrt")


def lock(descriptor: int, *, wait: bool) -> None:
    """Lock an open file for this process. Raises `BlockingIOError` if another process holds it and `wait` is False, and `OSError`."""
    if _fcntl is not None:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX if wait else _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        return
    if _msvcrt is None:
        raise OSError("this system has no locks on files")
    while True:
        try:
            _lock_byte(descriptor)
        except OSError as error:
            if not wait:
                raise BlockingIOError(error.errno, "another process holds the file") from error
            time.sleep(_LOOK_S)
        else:
            return


def _lock_byte(descriptor: int) -> None:
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        os.lseek(descriptor, _PLACE, os.SEEK_SET)
        _msvcrt.locking(descriptor, _msvcrt.LK_NBLCK, 1)
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)
