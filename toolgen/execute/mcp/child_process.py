"""What a command started, however it tried to get away: found and ended on Linux; elsewhere its process group is all that is known.

A command is begun as the subreaper of whatever it starts (prctl(2), PR_SET_CHILD_SUBREAPER), so that a process that forked twice or has a
session of its own is still below it. What outlives the command itself is found by a mark in its environment.

The standard error of a server's command, for the gateway's log: whose it is, and without what it was told in confidence.

The lines that a command writes: each read whole up to a bound, or skipped to its end when it is longer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import signal
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from toolgen.execute.http.scrubber import Scrubber
from toolgen.execute.secrets import MASK
from toolgen.model.schema import Json, JsonObject

__all__ = ["MARK", "Descendants", "EndlessError", "ErrorLog", "Lines", "LongLine", "begun_as_subreaper"]

MARK: Final = "TOOLGEN_COMMAND"
"""The environment variable that every process of a command is begun with."""
_MAX_ROUNDS = 20
# Becomes the command, so that nothing of it stays in memory. 36 is PR_SET_CHILD_SUBREAPER (linux/prctl.h).
_LAUNCHER = "import ctypes,os,sys;ctypes.CDLL(None).prctl(36,1,0,0,0);os.execvp(sys.argv[1],sys.argv[1:])"


class _Process(NamedTuple):
    """A process by what no other has, however often its number is given out."""

    number: int
    started: str


def begun_as_subreaper(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command line that makes a process the subreaper of what it starts, and then becomes the command."""
    return (sys.executable, "-I", "-S", "-c", _LAUNCHER, *command) if sys.platform == "linux" else command


class Descendants:
    """What one command started. `mark` belongs into its environment."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self._seen: frozenset[_Process] = frozenset()

    def look(self, command: int) -> None:
        """Remembers what runs below the command now: once it is gone, nobody could tell."""
        self._seen = frozenset(_below(command, self.mark))

    def end(self, command: int) -> None:
        """Ends the command's process group and all that is below it, or was when somebody last looked."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.SIGSTOP)  # so that it starts nothing more meanwhile
        for _ in range(_MAX_ROUNDS):
            alive = {one for one in _below(command, self.mark) if one.number != command}
            alive |= {one for one in self._seen if one.number != command and _started(one.number) == one.started}
            if not alive:
                break
            _kill(alive)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.SIGKILL)


def _kill(processes: Iterable[_Process]) -> None:
    for one in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one.number, signal.SIGKILL)


def _below(command: int, mark: str) -> Iterator[_Process]:
    """Every process that runs below the command, or has its mark."""
    parents: dict[int, int] = {}
    found: dict[int, _Process] = {}
    for number in _numbers():
        if (fields := _stat(number)) and fields[0] not in "ZX":
            parents[number], found[number] = int(fields[1]), _Process(number, fields[19])
    for number, one in found.items():
        if _is_below(number, command, parents) or _is_marked(number, mark):
            yield one


def _is_below(number: int, command: int, parents: dict[int, int]) -> bool:
    seen: set[int] = set()
    while (parent := parents.get(number)) and parent not in seen:
        if parent == command:
            return True
        seen.add(parent)
        number = parent
    return False


def _is_marked(number: int, mark: str) -> bool:
    try:
        with open(f"/proc/{number}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:  # gone meanwhile, or another account's
        return False


def _started(number: int) -> str:
    """When the process with this number began; "" where there is none, or one that has ended."""
    fields = _stat(number)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def _stat(number: int) -> list[str]:
    """The fields of /proc/PID/stat (proc(5)) from its state on; the name before them may hold anything."""
    try:
        with open(f"/proc/{number}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _numbers() -> Iterator[int]:
    try:
        return (int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return iter(())


_logger = logging.getLogger("toolgen.mcp")
_MAX_LENGTH = 4096
_MAX_CALLS = 64
_MAX_VALUES = 1000
_MIN_INSIDE_LENGTH = 6  # of a value that is masked within words too
_MIN_LENGTH = 3


class ErrorLog:
    """The first 4 KiB of what one command writes, line by line. Secrets of its environment are masked, and so are the values of the
    arguments of its last calls: which of them are sensitive only the policy knows, and a log has no use for any."""

    def __init__(self, source: str, scrubber: Scrubber) -> None:
        self._source = source
        self._scrubber = scrubber
        self._recent: deque[JsonObject] = deque(maxlen=_MAX_CALLS)
        self._left = _MAX_LENGTH
        self._unfinished = b""

    def note(self, arguments: JsonObject) -> None:
        """A call with these arguments is on its way to the command."""
        self._recent.append(arguments)

    def write(self, piece: bytes) -> None:
        """Takes what the command wrote; whole lines are logged, so that nothing that is masked comes in two parts."""
        taken = piece[: self._left]
        self._left -= len(taken)
        lines, end, rest = (self._unfinished + taken).rpartition(b"\n")
        self._unfinished = rest
        if end:
            self._say(lines)
        if not self._left:
            self.close()

    def close(self) -> None:
        """The last line, which may have no end."""
        self._say(self._unfinished, cut=True)
        self._unfinished = b""

    def _say(self, raw: bytes, *, cut: bool = False) -> None:
        if not raw.strip():
            return
        values = [value for arguments in self._recent for value in _texts(arguments)][:_MAX_VALUES]
        given = Scrubber([value for value in values if len(value) >= _MIN_INSIDE_LENGTH])
        said = given.text(self._scrubber.text(raw.decode("utf-8", "replace")))
        said = given.cut(self._scrubber.cut(said)) if cut else said
        short = {value for value in values if _MIN_LENGTH <= len(value) < _MIN_INSIDE_LENGTH}
        if short:
            said = re.sub(
                rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(short, key=len, reverse=True)))})(?!\w)", MASK, said
            )
        _logger.warning("the command of the source %s says: %s", self._source, " ".join(said.split()))


def _texts(value: Json) -> Iterator[str]:
    """Every value of arguments that is a text or a number, as text."""
    todo = [value]
    while todo:
        match todo.pop():
            case bool():
                pass
            case str() | int() | float() as one:
                yield str(one)
            case Mapping() as members:
                todo += members.values()
            case list() as items:
                todo += items


_PIECE = 65_536
_EDGE = 256  # what is kept of either end of a line that is too long
_MAX_SKIPPED_LENGTH = 256 * 1024 * 1024


class EndlessError(Exception):
    """A line went on for longer than anybody reads, even to throw it away."""


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line of more bytes than are kept: how it begins, and how it ends."""

    head: bytes
    tail: bytes


class Lines:
    """Reads lines of at most `largest` bytes, and never holds much more than one."""

    def __init__(self, stream: asyncio.StreamReader, largest: int) -> None:
        self._stream = stream
        self._largest = largest
        self._held = bytearray()

    async def read(self) -> bytes | LongLine | None:
        """The next line; None when there are no more. Raises `EndlessError`."""
        looked = 0
        while (end := self._held.find(b"\n", looked)) < 0:
            looked = len(self._held)
            if looked > self._largest:
                return await self._skip()
            piece = await self._stream.read(_PIECE)
            if not piece:
                return self._take(looked) if looked else None
            self._held += piece
        line = self._take(end + 1)
        return line if end <= self._largest else LongLine(line[:_EDGE], line[-_EDGE:])

    async def _skip(self) -> LongLine | None:
        size = len(self._held)
        line = self._take(size)
        head, tail = line[:_EDGE], line[-_EDGE:]
        while piece := await self._stream.read(_PIECE):
            line, newline, rest = piece.partition(b"\n")
            tail = (tail + line)[-_EDGE:]
            if newline:
                self._held += rest
                return LongLine(head, tail)
            size += len(piece)
            if size > _MAX_SKIPPED_LENGTH:
                raise EndlessError
        return None

    def _take(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken
