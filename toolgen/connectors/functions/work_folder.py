"""Work folders of calls of functions: one per call, limited in size, and removed when the call ends.

Each process has its own parent folder, which a later process removes if this one was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from toolgen.core.descriptors import open_descriptor
from toolgen.core.file_lock import lock

__all__ = ["MAX_FILES", "MAX_SIZE", "CallFolder", "WorkFolders"]

MAX_SIZE = 64 * 1024 * 1024
MAX_FILES = 10_000
_LOOK_S = 0.2
_LOCK = "lock"


class WorkFolders:
    """Root of the work folders of one process: below `root`, or among the system's temporary ones."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._own: Path | None = None
        self._lock = threading.Lock()
        self._held: int | None = None

    def make(self) -> Path:
        """Return a new folder that only this user can read. Raises `OSError`."""
        with self._lock:
            if self._own is None:
                self._own = self._opened()
        return Path(tempfile.mkdtemp(prefix="call-", dir=self._own))

    def close(self) -> None:
        """Remove the remaining folders."""
        with self._lock:
            if self._own is not None:
                shutil.rmtree(self._own, ignore_errors=True)
            if self._held is not None:
                os.close(self._held)
            self._own = self._held = None

    def _opened(self) -> Path:
        if self._root is None:
            return self._made()
        self._root.mkdir(parents=True, exist_ok=True)
        turn = open_descriptor(self._root / _LOCK, "RDWR", "CREAT")
        try:
            lock(turn, wait=True)  # prevents another process from removing a folder during its creation
            for left in self._root.glob("process-*"):
                if not _is_held(left):
                    shutil.rmtree(left, ignore_errors=True)
            return self._made()
        finally:
            os.close(turn)

    def _made(self) -> Path:
        own = Path(tempfile.mkdtemp(prefix="process-" if self._root else "toolgen-calls-", dir=self._root))
        self._held = open_descriptor(own / _LOCK, "RDWR", "CREAT")
        lock(self._held, wait=False)
        return own


class CallFolder:
    """Folder of one call, created when the function first uses it. `full` is called, on the gateway's loop, when it is too large."""

    __slots__ = ("_folders", "_full", "_loop", "_making", "_path", "_watching", "overfull")

    def __init__(self, folders: WorkFolders, loop: asyncio.AbstractEventLoop) -> None:
        self._folders = folders
        self._loop = loop
        self._full: Callable[[], None] | None = None
        self._path: Path | None = None
        self._making = threading.Lock()
        self._watching: asyncio.Task[None] | None = None
        self.overfull = False

    def path(self) -> Path:
        """Return the path; called from the function's thread. Raises `OSError`."""
        with self._making:
            if self._path is None:
                self._path = self._folders.make()
                self._loop.call_soon_threadsafe(self._watch)
            return self._path

    def set_full_callback(self, full: Callable[[], None]) -> None:
        """Set the callback that ends the call when the folder is too large."""
        self._full = full

    async def close(self) -> None:
        """Check the size once more, and remove the folder."""
        self._full = None
        if self._watching is not None:
            self._watching.cancel()
        if (path := self._path) is not None:
            self.overfull = self.overfull or await asyncio.to_thread(_closed, path)

    def _watch(self) -> None:
        if self._full is not None:
            self._watching = self._loop.create_task(self._check_size())

    async def _check_size(self) -> None:
        while self._path is not None and not self.overfull:
            await asyncio.sleep(_LOOK_S)
            self.overfull = await asyncio.to_thread(_is_full, self._path)
        if self._full is not None:
            self._full()


def _closed(path: Path) -> bool:
    full = _is_full(path)
    shutil.rmtree(path, ignore_errors=True)
    return full


def _is_full(path: Path) -> bool:
    """Return True if the folder exceeds its limit of bytes or files. Links are not followed; a file that vanishes has no bytes."""
    size = files = 0
    for folder, _, names in os.walk(path):
        files += len(names) + 1
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(folder, name))
                size += status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size
        if size > MAX_SIZE or files > MAX_FILES:
            return True
    return False


def _is_held(folder: Path) -> bool:
    """Return True if the process that made the folder still runs."""
    try:
        found = open_descriptor(folder / _LOCK, "RDWR")
    except OSError:
        return False
    try:
        lock(found, wait=False)
    except OSError:
        return True
    finally:
        os.close(found)
    return False
