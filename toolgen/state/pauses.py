"""Pauses: a small file that every worker checks before each call and that is replaced completely, and the shared pauses in Redis."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from toolgen.core.background import Background, FaultLog, cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.count_connection import StoreUnreachableError
from toolgen.state.encryption import Seal
from toolgen.state.redis_connection import RedisLink
from toolgen.state.versioned_box import VersionedBox
from toolgen.state.whole_file import locked, write_whole

__all__ = ["FRESH_S", "POLL_S", "UNREADABLE", "Pause", "Pauses", "SharedPauses"]


class Pause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pause of one principal, source or tool (a glob): exactly one of them is set. `since` is in seconds since the epoch."""

    principal: str = ""
    source: str = ""
    tool: str = ""
    reason: str = ""
    since: float

    @property
    def target(self) -> tuple[str, str, str]:
        """Target of the pause: two pauses with the same target are one."""
        return self.principal, self.source, self.tool

    def covers(self, parties: Collection[str], source: str, tool: str) -> bool:
        """Return True if a call by these principals to this tool is paused."""
        if self.principal:
            return self.principal in parties
        return self.source == source if self.source else fnmatchcase(tool, self.tool)


UNREADABLE = Pause(tool="*", reason="the file of pauses cannot be read", since=0.0)


class Pauses:
    """Pauses of a project. Without a file nothing is paused; an unreadable file pauses everything."""

    def __init__(self, path: Path) -> None:
        self._path, self._name = path, str(path)
        self._state: tuple[int, ...] | None = None
        self._found: tuple[Pause, ...] = ()
        self._turn: tuple[asyncio.AbstractEventLoop, tuple[Pause, ...]] | None = None

    stale, known = False, True
    """False, because a file is always current."""

    async def refresh(self) -> bool:
        """Do nothing, because a file needs no refresh."""
        return True

    async def start(self, first: Callable[[], Awaitable[None]] | None = None) -> None:
        """Do nothing, because a file needs no background task."""

    async def close(self) -> None:
        """Do nothing, because no resource is open."""

    def all(self) -> tuple[Pause, ...]:
        """Return all pauses, the oldest first. The file is checked once per turn of the event loop, for all of its calls."""
        turn = self._turn
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # of another thread, or without a loop
            return self._look()
        if turn is not None and turn[0] is loop:
            return turn[1]
        found = self._look()
        if turn is None or turn[0].is_closed():
            self._turn = (loop, found)
            loop.call_soon(self._end_turn)
        return found

    def _end_turn(self) -> None:
        self._turn = None

    def _look(self) -> tuple[Pause, ...]:
        """Return the pauses of the file, which is read again when it has changed."""
        try:
            status = os.stat(self._name)
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
        """Return the pause that applies to a call by these principals to this tool, if any."""
        found = self.all()
        return next((pause for pause in found if pause.covers(parties, source, tool)), None) if found else None

    def read(self) -> tuple[Pause, ...]:
        """Return the pauses in the file. Raises `StateError` when it cannot be read."""
        kind = StateError
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=tuple[Pause, ...])
        except FileNotFoundError:
            return ()
        except OSError as error:
            kind, reason = StateUnavailableError, error.strerror or type(error).__name__
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            reason = "it was not written by `toolgen pause`"
        raise kind(
            f"what is paused cannot be read: {reason}",
            where=str(self._path),
            suggestion="remove the file to resume all",
        )

    def change(self, edit: Callable[[tuple[Pause, ...]], tuple[Pause, ...]]) -> tuple[Pause, ...]:
        """Write the pauses that `edit` returns, durably and atomically, and return them. Concurrent changes are made one after the
        other.
        """
        try:
            with locked(self._path):
                changed = edit(self.read())
                write_whole(self._path, msgspec.json.encode(changed))
                self._end_turn()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StateUnavailableError(f"what is paused cannot be written: {reason}", where=str(self._path)) from error
        return changed


POLL_S = 0.2
"""Seconds between two reads of a worker, with or without calls."""
FRESH_S = 0.8
"""Maximum age of the pauses for a call. Older ones are read again before the call continues."""
_RETRY_S = 0.5


class SharedPauses:
    """Pauses from Redis, read every 0.2 s, and from this machine's file, checked before each call.

    Redis may forget a pause (it was emptied, or failed over to a copy that was behind), but only a person ends one.
    A gateway that knows a later version than Redis has restores it.
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
        self._box: VersionedBox[tuple[Pause, ...]] = VersionedBox(
            link, seal, "pauses", tuple[Pause, ...], (), "what is paused"
        )
        self._clock = clock
        self._local = local
        self._heard = -1e9
        self._failed = -1e9
        self._reading: asyncio.Task[bool] | None = None
        self._polling: asyncio.Task[None] | None = None
        self._first: Callable[[], Awaitable[None]] | None = None
        self.trouble = FaultLog(clock, "what is paused cannot be read")

    @property
    def stale(self) -> bool:
        """True if the last known pauses are too old to use."""
        return self._clock.monotonic() - self._heard > FRESH_S

    @property
    def known(self) -> bool:
        """True if Redis has answered at least once."""
        return self._heard >= 0

    def all(self) -> tuple[Pause, ...]:
        """Return all pauses, as far as they are known."""
        local = self._local.all()
        return (*local, *shared) if (shared := self._box.value) else local

    def covering(self, parties: Collection[str], source: str, tool: str) -> Pause | None:
        """Return the pause that applies to a call by these principals to this tool, if any."""
        found = self.all()
        return next((pause for pause in found if pause.covers(parties, source, tool)), None) if found else None

    async def refresh(self) -> bool:
        """Read the pauses now, once for all waiting calls; return False if that fails. After a failure no request is sent for a moment."""
        if self._clock.monotonic() - self._failed < _RETRY_S:
            return False
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(self._reading)

    async def start(self, first: Callable[[], Awaitable[None]] | None = None) -> None:
        """Read the pauses, and keep reading. `first` is awaited before each read, and raises `StateError` while no call may start."""
        self._first = first
        await self.refresh()
        self._polling = self._background.start("reading what is paused", self._poll)

    async def close(self) -> None:
        """Stop reading."""
        await cancel(*(task for task in (self._polling, self._reading) if task is not None))
        await self._box.close()

    async def read(self) -> tuple[Pause, ...]:
        """Return the pauses in Redis. Raises `StateError` when it cannot be reached or its answer cannot be read."""
        return await self._box.read()

    async def change(self, edit: Callable[[tuple[Pause, ...]], tuple[Pause, ...]]) -> tuple[Pause, ...]:
        """Store the pauses that `edit` returns, and return them. Concurrent changes are made one after the other. Raises `StateError`."""
        return await self._box.change(edit)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await self.refresh()

    async def _read(self) -> bool:
        began = self._clock.monotonic()
        try:
            if self._first is not None:
                await self._first()
            await self._box.follow()
        except StateError as error:
            self._failed = self._clock.monotonic()
            self.trouble.say(str(error), passing=isinstance(error.__cause__, StoreUnreachableError))
            return False
        self.trouble.clear()
        self._heard = began
        return True
