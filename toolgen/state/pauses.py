"""What is paused: a small file that every worker looks at before each call, and that is replaced whole."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from toolgen.errors import StateError

__all__ = ["Pause", "Pauses"]


class Pause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that is paused: exactly one of principal, source and tool (a glob) is set. `since` is in seconds since the epoch."""

    principal: str = ""
    source: str = ""
    tool: str = ""
    reason: str = ""
    since: float

    @property
    def target(self) -> tuple[str, str, str]:
        """What it is about: two with the same target are one pause."""
        return self.principal, self.source, self.tool

    def covers(self, parties: Collection[str], source: str, tool: str) -> bool:
        """Whether a call by these principals to this tool is paused."""
        if self.principal:
            return self.principal in parties
        return self.source == source if self.source else fnmatchcase(tool, self.tool)


_UNREADABLE = Pause(tool="*", reason="the file that says what is paused cannot be read", since=0.0)


class Pauses:
    """The pauses of a project. No file means that nothing is paused; one that cannot be read pauses everything."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: tuple[int, ...] | None = None
        self._found: tuple[Pause, ...] = ()

    stale, known = False, True
    """What a file says is never old."""

    async def refresh(self) -> bool:
        """There is nothing to ask for."""
        return True

    async def start(self) -> None:
        """There is nothing to begin."""

    async def close(self) -> None:
        """There is nothing to close."""

    def all(self) -> tuple[Pause, ...]:
        """Everything that is paused now, the oldest first. The file is read when it is another than before: one `stat` a call."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._state, self._found = None, ()
            return ()
        except OSError:
            return (_UNREADABLE,)
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if state != self._state:
            try:
                self._found = self.read()
            except StateError:
                return (_UNREADABLE,)
            self._state = state
        return self._found

    def covering(self, parties: Collection[str], source: str, tool: str) -> Pause | None:
        """The pause that holds back a call by these principals to this tool, if any does."""
        found = self.all()
        return next((pause for pause in found if pause.covers(parties, source, tool)), None) if found else None

    def read(self) -> tuple[Pause, ...]:
        """What the file says. Raises `StateError` when it cannot be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=tuple[Pause, ...])
        except FileNotFoundError:
            return ()
        except OSError as error:
            reason = error.strerror or type(error).__name__
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            reason = "it is not what `toolgen pause` writes"
        raise StateError(
            f"what is paused cannot be read: {reason}",
            where=str(self._path),
            suggestion="remove the file to resume all",
        )

    def change(self, edit: Callable[[tuple[Pause, ...]], tuple[Pause, ...]]) -> tuple[Pause, ...]:
        """Writes what `edit` makes of the pauses, durably and whole, and returns it. Two at once do it one after the other."""
        try:
            with self._locked():
                changed = edit(self.read())
                self._write(msgspec.json.encode(changed))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StateError(f"what is paused cannot be written: {reason}", where=str(self._path)) from error
        return changed

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, content: bytes) -> None:
        staged = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(self._path)
        finally:
            staged.unlink(missing_ok=True)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
