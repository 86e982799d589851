"""Notices that a directory of policies has changed, without reading it again and again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

__all__ = ["INTERVAL_S", "State", "state_of", "watch"]

INTERVAL_S = 0.2
"""A change is acted on once it has rested for this long, so within twice of it: a key that is revoked stops working within a second."""

State: TypeAlias = tuple[tuple[str, int, int, int, int], ...]
"""What `stat` says of every file of a directory. The time of its inode is among it, which no program can set back."""


def state_of(directory: Path) -> State:
    """Name, size, inode and both times of each file, in name order; nothing for what cannot be listed."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return ()
    return tuple(item for entry in entries if (item := _item(entry)) is not None)


async def watch(directory: Path, known: State, changed: Callable[[], Awaitable[object]]) -> None:
    """Calls `changed` after every change since `known`, until it is cancelled."""
    last = known
    while True:
        await asyncio.sleep(INTERVAL_S)
        state = state_of(directory)
        if state == last == known:
            continue
        if state == last:
            known = state
            await changed()
        last = state


def _item(entry: os.DirEntry[str]) -> tuple[str, int, int, int, int] | None:
    """A symbolic link is what it leads to: that is how a mounted ConfigMap changes."""
    try:
        status = entry.stat()
    except OSError:
        return None
    return entry.name, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
