"""What is paused: a small file that every worker looks at before each call and that is replaced whole, and beside it what Redis says."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from toolgen.background import Background, FaultLog
from toolgen.clock import Clock
from toolgen.errors import StateError
from toolgen.state.count_connection import Script, UnreachableError
from toolgen.state.encryption import Seal
from toolgen.state.redis_connection import RedisLink

__all__ = ["FRESH_S", "POLL_S", "UNREADABLE", "Pause", "Pauses", "SharedPauses"]


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


UNREADABLE = Pause(tool="*", reason="the file that says what is paused cannot be read", since=0.0)


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
            return (UNREADABLE,)
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if state != self._state:
            try:
                self._found = self.read()
            except StateError:
                return (UNREADABLE,)
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


_logger = logging.getLogger(__name__)
_SCRIPT = Script.named("pauses")
POLL_S = 0.2
"""How often a worker looks, whether anybody calls or not."""
FRESH_S = 0.8
"""How old an answer may be that a call goes by. An older one is asked for again before the call goes on."""
_RETRY_S = 0.5
_TRIES = 20


class SharedPauses:
    """What is paused by the word of Redis, read every 0.2 s, and by this machine's file, looked at before each call.

    Redis may forget (it was emptied, or failed over to a copy that was behind): a pause ends when somebody resumes it and never so.
    A gateway that knows a later version than Redis has puts it back.
    """

    def __init__(
        self,
        link: RedisLink,
        seal: Callable[[], Seal],
        clock: Clock,
        local: Pauses,
        background: Background | None = None,
    ) -> None:
        self._background = background or Background()
        self._link = link
        self._seal = cache(seal)
        self._key = f"{link.prefix}:pauses"
        self._clock = clock
        self._local = local
        self._version = 0
        self._shared: tuple[Pause, ...] = ()
        self._heard = -1e9
        self._failed = -1e9
        self._reading: asyncio.Task[bool] | None = None
        self._polling: asyncio.Task[None] | None = None
        self.trouble = FaultLog(clock, "what is paused cannot be read")

    @property
    def stale(self) -> bool:
        """Whether what is known is too old to go by."""
        return self._clock.monotonic() - self._heard > FRESH_S

    @property
    def known(self) -> bool:
        """Whether Redis was ever heard."""
        return self._heard >= 0

    def all(self) -> tuple[Pause, ...]:
        """Everything that is paused, as far as it is known."""
        local = self._local.all()
        return (*local, *self._shared) if self._shared else local

    def covering(self, parties: Collection[str], source: str, tool: str) -> Pause | None:
        """The pause that holds back a call by these principals to this tool, if any does."""
        found = self.all()
        return next((pause for pause in found if pause.covers(parties, source, tool)), None) if found else None

    async def refresh(self) -> bool:
        """Reads them now, once for all who wait for it; False where they cannot be read. After a fault nothing is asked for a moment."""
        if self._clock.monotonic() - self._failed < _RETRY_S:
            return False
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(self._reading)

    async def start(self) -> None:
        """Reads them, and goes on to."""
        await self.refresh()
        self._polling = self._background.start("reading what is paused", self._poll)

    async def close(self) -> None:
        """Reads no more."""
        for task in (self._polling, self._reading):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
        await self._link.close()

    async def read(self) -> tuple[Pause, ...]:
        """What Redis says. Raises `StateError` when it cannot be asked or what it says cannot be read."""
        return (await self._ask())[1]

    async def change(self, edit: Callable[[tuple[Pause, ...]], tuple[Pause, ...]]) -> tuple[Pause, ...]:
        """Puts there what `edit` makes of them, and returns it. Two at once do it one after the other. Raises `StateError`."""
        for _ in range(_TRIES):
            version, found = await self._ask()
            changed = edit(found)
            if await self._run("write", str(version), *self._boxed(version + 1, changed)) == 1:
                self._take(version + 1, changed)
                return changed
        raise StateError("what is paused is being changed by others without end; try again")

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await self.refresh()

    async def _read(self) -> bool:
        began = self._clock.monotonic()
        try:
            version, found = await self._ask()
            if version < self._version:
                await self._run("restore", *self._boxed(self._version, self._shared))
                _logger.warning("Redis had lost what is paused; it was put back")
            else:
                self._take(version, found)
        except StateError as error:
            self._failed = self._clock.monotonic()
            self.trouble.say(str(error), passing=isinstance(error.__cause__, UnreachableError))
            return False
        self.trouble.clear()
        self._heard = began
        return True

    def _take(self, version: int, pauses: tuple[Pause, ...]) -> None:
        self._version, self._shared = version, pauses

    async def _ask(self) -> tuple[int, tuple[Pause, ...]]:
        answer = await self._run("read")
        try:
            version, box = int(answer[0]), answer[1]
            if version == 0:
                return 0, ()
            if version == self._version:
                return version, self._shared
            return version, msgspec.json.decode(self._seal().open(box, _about(version)), type=tuple[Pause, ...])
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise StateError("what Redis says is paused is not what `toolgen pause` writes") from error

    def _boxed(self, version: int, pauses: tuple[Pause, ...]) -> tuple[str, bytes]:
        return str(version), self._seal().close(msgspec.json.encode(pauses), _about(version))

    async def _run(self, *arguments: str | bytes) -> Any:
        try:
            return await self._link.ask(_SCRIPT, self._key, *arguments)
        except UnreachableError as error:
            raise StateError(f"what is paused is kept in Redis, which cannot be reached ({error})") from error


def _about(version: int) -> str:
    return f"pauses {version}"
