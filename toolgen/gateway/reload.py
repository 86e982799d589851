"""Notices that a directory of policies has changed, without reading it again and again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

__all__ = ["INTERVAL_S", "State", "state_of", "watch"]

INTERVAL_S = 0.2
"""A change is acted on once it has rested for this long: a key that is revoked stops working within a second."""

_RESTLESS = 3  # looks at which a change is acted on though files keep changing: whoever writes on and on holds back no revocation

State: TypeAlias = tuple[tuple[str, int, int, int, int], ...]
"""What `stat` says of every file of a directory. The time of its inode is among it, which no program can set back."""


def state_of(directory: Path) -> State:
    """Name, size, inode and both times of each file, in name order; nothing for what cannot be listed.

    Hidden files are no part of a policy, and an editor's swap file changes all the time.
    """
    try:
        with os.scandir(directory) as found:
            entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError:
        return ()
    return tuple(item for entry in entries if (item := _item(entry)) is not None)


async def watch(directory: Path, known: State, changed: Callable[[], Awaitable[object]]) -> None:
    """Calls `changed` after every change since `known`, until it is cancelled."""
    last, looks = known, 0
    while True:
        await asyncio.sleep(INTERVAL_S)
        state = state_of(directory)
        looks = 0 if state == known else looks + 1
        if looks and (state == last or looks >= _RESTLESS):
            known, looks = state, 0
            await changed()
        last = state


def _item(entry: os.DirEntry[str]) -> tuple[str, int, int, int, int] | None:
    """A symbolic link is what it leads to: that is how a mounted ConfigMap changes."""
    try:
        status = entry.stat()
    except OSError:
        return None
    return entry.name, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
