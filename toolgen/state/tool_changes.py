"""Tools added and removed while gateways run: a small file that is replaced atomically, or an encrypted box in Redis."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.encryption import Seal
from toolgen.state.redis_connection import RedisLink
from toolgen.state.versioned_box import VersionedBox
from toolgen.state.whole_file import locked, write_whole

__all__ = ["AddedTool", "Edit", "FileChanges", "RedisChanges", "RemovedTool", "ToolChanges", "ToolChangesStore"]


class AddedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Function that became a tool, by its import path. `digest` is the tool's: a function with another digest is refused. `effect` and
    the texts replace the function's own; `since` is in seconds since the epoch.
    """

    name: str
    module: str
    function: str
    digest: str
    effect: str = ""
    title: str = ""
    description: str = ""
    since: float


class RemovedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Removed tool of a build, which stays removed after later builds. `digest` is the one it had."""

    name: str
    digest: str
    since: float


class ToolChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences from the built catalog."""

    added: tuple[AddedTool, ...] = ()
    removed: tuple[RemovedTool, ...] = ()


Edit = Callable[[ToolChanges], ToolChanges]


class ToolChangesStore(Protocol):
    """Storage of tool changes for all that share a project's state."""

    async def read(self) -> ToolChanges:
        """Return the current changes. Raises `StateError`."""

    async def change(self, edit: Edit) -> ToolChanges:
        """Store the changes that `edit` returns, and return them. Concurrent changes are made one after the other. Raises `StateError`,
        and the errors of `edit`.
        """

    async def close(self) -> None:
        """Close the storage."""


class FileChanges:
    """File of a project on this machine, for all its processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, ...] | None = None
        self._found = ToolChanges()

    async def read(self) -> ToolChanges:
        """Return the changes. The file is read again when it has changed."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._state, self._found = None, ToolChanges()
            return self._found
        except OSError as error:
            raise self._unreadable(error.strerror or type(error).__name__, StateUnavailableError) from error
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if state != self._state:
            self._found, self._state = await asyncio.to_thread(self._read), state
        return self._found

    async def change(self, edit: Edit) -> ToolChanges:
        """Apply an edit to the file; see `ToolChangesStore.change`."""
        return await asyncio.to_thread(self._change, edit)

    async def close(self) -> None:
        """Do nothing, because no resource is open."""

    def _change(self, edit: Edit) -> ToolChanges:
        try:
            with locked(self._path):
                changed = edit(self._read())
                write_whole(self._path, msgspec.json.encode(changed))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StateUnavailableError(
                f"which tools were added and removed cannot be written: {reason}", where=str(self._path)
            ) from error
        return changed

    def _read(self) -> ToolChanges:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=ToolChanges)
        except FileNotFoundError:
            return ToolChanges()
        except OSError as error:
            raise self._unreadable(error.strerror or type(error).__name__, StateUnavailableError) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._unreadable("it was not written by a gateway") from error

    def _unreadable(self, reason: str, kind: type[StateError] = StateError) -> StateError:
        return kind(
            f"which tools were added and removed cannot be read: {reason}",
            where=str(self._path),
            suggestion="correct the file, or remove it: then the catalog is the built one",
        )


class RedisChanges:
    """Tool changes shared through Redis. A gateway restores changes that Redis forgot."""

    def __init__(self, link: RedisLink, seal: Callable[[], Seal]) -> None:
        what = "which tools were added and removed"
        self._box = VersionedBox(link, seal, "tools", ToolChanges, ToolChanges(), what)

    async def read(self) -> ToolChanges:
        """Return the current changes; see `ToolChangesStore.read`."""
        return await self._box.follow()

    async def change(self, edit: Edit) -> ToolChanges:
        """Apply an edit in Redis; see `ToolChangesStore.change`."""
        return await self._box.change(edit)

    async def close(self) -> None:
        """Close its connection."""
        await self._box.close()
